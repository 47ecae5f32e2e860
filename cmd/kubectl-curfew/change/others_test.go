package change

import (
	"fmt"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// TestOtherTriggers: extend warns of a deletion that no TTL and no label decides, and keep protects
// the object from it.
func TestOtherTriggers(t *testing.T) {
	action := policy.Wait
	defer judging.RegisterTrigger(judging.TriggerInfo{Name: "stuck", Verb: "deletes",
		Judge: func(_ *judging.Explanation, now time.Time) policy.Verdict {
			return policy.Verdict{Action: action, Expiry: now.Add(10 * time.Minute)}
		},
	})()
	job := builders.MakeJob("ci", "a").UID("a").Created(noon.Add(-2 * time.Hour)).Complete(noon.Add(-time.Hour)).TTL(7200)

	plan, err := Extend(subject(job.Map(), &resolution.Scope{}), Target{By: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	want := "[trigger stuck may delete it at 2026-12-24 12:10:00 UTC, whatever its TTL and its label are]"
	if have := fmt.Sprint(plan.Warnings); have != want {
		t.Errorf("extend warns %s, want %s", have, want)
	}
	protected := func() any {
		plan, err := Keep(subject(job.Map(), &resolution.Scope{}))
		if err != nil {
			t.Fatal(err)
		}
		annotations, _ := plan.Patch["metadata"].(map[string]any)["annotations"].(map[string]any)
		return annotations[wellknown.AnnotationProtect]
	}
	if have := protected(); have != "true" {
		t.Errorf("keep sets %s to %v, want true", wellknown.AnnotationProtect, have)
	}
	action = policy.Keep
	if have := protected(); have != nil {
		t.Errorf("keep sets %s to %v although the trigger keeps the object", wellknown.AnnotationProtect, have)
	}
}
