package change

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

func subject(object map[string]any, scope *resolution.Scope) *Subject {
	facts := policy.FactsOfObject(policy.JobProfile, object)
	return &Subject{Object: object, Now: noon, Explained: judging.Explain(facts, scope, judging.Question{Now: noon})}
}

// drawn is a finished Job with some of these: its native field, annotations, a label, its
// namespace's default.
func drawn(t *rapid.T) *Subject {
	job := builders.MakeJob("ci", "a").UID("a").Created(noon.Add(-2 * time.Hour)).Complete(noon.Add(-time.Hour))
	text := func(name string) string { return rapid.SampledFrom([]string{"30m", "2h", "1d", "90s"}).Draw(t, name) }
	if rapid.Bool().Draw(t, "native") {
		job.TTL(int32(rapid.SampledFrom([]int{60, 7200, 86400}).Draw(t, "native TTL")))
	}
	for _, key := range wellknown.TTLAnnotations {
		if rapid.IntRange(0, 2).Draw(t, key) == 0 {
			job.Annotation(key, text(key+" value"))
		}
	}
	if rapid.Bool().Draw(t, "labelled") {
		job.Label(wellknown.LabelTTL, rapid.SampledFrom([]string{"3h", "2026-12-24T133000Z", "2026-12-25", "1d"}).Draw(t, "label"))
	}
	if rapid.Bool().Draw(t, "refreshed") {
		job.Annotation(wellknown.AnnotationRefreshedAt, noon.Add(-20*time.Minute).Format(time.RFC3339))
	}
	annotations := map[string]string{}
	if rapid.Bool().Draw(t, "default") {
		annotations[wellknown.AnnotationDefaultTTL] = text("default TTL")
	}
	annotations[wellknown.AnnotationDefaultSince] = resolution.FormatSince(noon.Add(-1000*time.Hour), resolution.DefaultsHash(annotations))
	return subject(job.Map(), &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotations, nil)})
}

// explainedAfter explains the object with the patch applied.
func explainedAfter(s *Subject, plan *Plan) *judging.Explanation {
	changed := merged(runtime.DeepCopyJSONValue(s.Object), plan.Patch).(map[string]any)
	return judging.Explain(policy.FactsOfObject(policy.JobProfile, changed), s.Explained.Scope, judging.Question{Now: noon})
}

// TestExtendNeverShortens: by any trigger, the object expires at the requested time or a little
// later, and never earlier. The kind's own controller, which reads the native field alone, does not
// delete it earlier either.
func TestExtendNeverShortens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t)
		before, goes := s.Explained.Goes()
		target := Target{By: time.Duration(rapid.IntRange(1, 200000).Draw(t, "by")) * time.Second}
		until := before.Expiry.Add(target.By)
		if rapid.Bool().Draw(t, "until") {
			until = noon.Add(target.By)
			target = Target{Until: until}
		}
		plan, err := Extend(s, target)
		if err != nil {
			// An object that contradicts itself, as admission would not let it, stays as it is.
			contradicts := strings.Contains(err.Error(), "which the Job's own controller acts on first")
			if goes && until.After(noon) && !until.Before(before.Expiry) && !contradicts {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		after := explainedAfter(s, plan)
		verdict, ok := after.Goes()
		if !ok || verdict.Expiry.Before(until) || verdict.Expiry.Before(before.Expiry) || verdict.Expiry.After(until.Add(time.Minute)) || !plan.After.Expiry.Equal(verdict.Expiry) {
			t.Fatalf("goes at %v (%v), was to go at %v, went at %v; told %v; patch %v", verdict.Expiry, ok, until, before.Expiry, plan.After.Expiry, plan.Patch)
		}
		if native := after.Facts.TTLs().NativeFor(lifetime.Succeeded); native != nil && after.Facts.FinishTime.Add(native.TTL.After).Before(verdict.Expiry) &&
			after.ByLabel.Expiry.IsZero() {
			t.Fatalf("its own controller deletes it at %v, before %v", after.Facts.FinishTime.Add(native.TTL.After), verdict.Expiry)
		}
	})
}

// TestKeepLetsStay: after keep nothing deletes the object, the kind's own controller included.
func TestKeepLetsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t)
		plan, err := Keep(s)
		if _, goes := s.Explained.Goes(); err != nil {
			if goes {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		after := explainedAfter(s, plan)
		if verdict, ok := after.Goes(); ok || len(after.Facts.TTLs().Natives()) > 0 || plan.After != (Deletion{}) {
			t.Fatalf("goes at %v by %s, told %+v; patch %v", verdict.Expiry, verdict.Trigger, plan.After, plan.Patch)
		}
	})
}

// TestExpireNowGoesNow: the object expires within seconds, by any trigger, and never while
// something blocks it.
func TestExpireNowGoesNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t)
		plan, err := ExpireNow(s, nil)
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		after := explainedAfter(s, plan)
		verdict, ok := after.Goes()
		if !ok || verdict.Expiry.After(noon.Add(5*time.Second)) || after.ByLabel.Expiry.Before(noon) {
			t.Fatalf("goes at %v (%v); patch %v", verdict.Expiry, ok, plan.Patch)
		}
		for _, stops := range []judging.ObstacleKind{judging.ObstacleProtection, judging.ObstacleDryRun, judging.ObstaclePermission, judging.ObstacleAccounting, judging.ObstacleBreaker} {
			if _, err := ExpireNow(s, []judging.Obstacle{{Kind: stops, Stops: true, Message: "stays"}}); err == nil {
				t.Fatalf("%s did not stop it", stops)
			}
		}
	})
}

// TestExpireNowOfRefreshed: a refresh has no effect beside a date, whether it can be read or not, and
// goes.
func TestExpireNowOfRefreshed(t *testing.T) {
	for _, refreshed := range []string{noon.Add(-20 * time.Minute).Format(time.RFC3339), "yesterday"} {
		object := builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).Label(wellknown.LabelTTL, "1d").Annotation(wellknown.AnnotationRefreshedAt, refreshed)
		plan, err := ExpireNow(subject(object.Map(), &resolution.Scope{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, warning := range plan.Warnings {
			if strings.Contains(warning, wellknown.AnnotationRefreshedAt) {
				t.Errorf("refreshed at %s: %s", refreshed, warning)
			}
		}
		if patch := fmt.Sprint(plan.Patch); !strings.Contains(patch, wellknown.AnnotationRefreshedAt+":<nil>") {
			t.Errorf("refreshed at %s: %s, want the refresh removed", refreshed, patch)
		}
	}
}

// TestExpireNowOfACopy: a label would delete nothing.
func TestExpireNowOfACopy(t *testing.T) {
	controller := true
	facts := &policy.Facts{
		Profile: &policy.Profile{Name: "taskruns", Kind: schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "TaskRun"}}, Name: "a", Created: noon.Add(-time.Hour),
		Owner: &metav1.OwnerReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "build", UID: "b", Controller: &controller},
	}
	s := &Subject{Object: map[string]any{}, Now: noon, Explained: judging.Explain(facts, &resolution.Scope{}, judging.Question{Now: noon})}
	if _, err := ExpireNow(s, nil); err == nil || !strings.Contains(err.Error(), "copy of that of PipelineRun build: use expire-now on that") {
		t.Error(err)
	}
}

// TestKeepTakesLabels: keep removes both labels where Curfew reads both. Where it does not read
// Kyverno's label, it leaves that label to Kyverno.
func TestKeepTakesLabels(t *testing.T) {
	for alias, want := range map[bool]string{
		true:  "map[cleanup.kyverno.io/ttl:<nil> curfew.dev/ttl:<nil>]",
		false: "map[curfew.dev/ttl:<nil>]",
	} {
		object := builders.MakeJob("ci", "a").Created(noon).Label(wellknown.LabelTTL, "1d").Label(wellknown.LabelKyvernoTTL, "2d").Map()
		s := subject(object, &resolution.Scope{})
		s.Alias = alias
		plan, err := Keep(s)
		if err != nil {
			t.Fatal(err)
		}
		if have := fmt.Sprint(plan.Patch["metadata"].(map[string]any)["labels"]); have != want {
			t.Errorf("understood: %t: %s, want %s", alias, have, want)
		}
	}
}

// TestLabelIsStampedAsItsOwn: no change leaves a stamp that names the policy whose label it was.
// After keep there is always a stamp: without one the object would be given a default label
// again.
func TestLabelIsStampedAsItsOwn(t *testing.T) {
	for stamp, want := range map[string]string{"": "map[]", "policy/p": "map[curfew.dev/ttl-label-source:object]"} {
		object := builders.MakeJob("ci", "a").Created(noon).Label(wellknown.LabelTTL, "1d")
		if stamp != "" {
			object = object.Annotation(wellknown.AnnotationLabelSource, stamp)
		}
		stamped := func(plan *Plan, err error) string {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			annotations, _ := plan.Patch["metadata"].(map[string]any)["annotations"].(map[string]any)
			return fmt.Sprint(annotations)
		}
		s := subject(object.Map(), &resolution.Scope{})
		if have := stamped(Extend(s, Target{By: time.Hour})); have != want {
			t.Errorf("extend, stamp %q: %s, want %s", stamp, have, want)
		}
		if have := stamped(ExpireNow(s, nil)); have != want {
			t.Errorf("expire-now, stamp %q: %s, want %s", stamp, have, want)
		}
		if have := stamped(Keep(s)); have != "map[curfew.dev/ttl-label-source:object]" {
			t.Errorf("keep with stamp %q: annotations are %s, want the source object", stamp, have)
		}
	}
}

// TestTwiceIsOnce: an object that is already as wanted needs no change. That is no failure.
func TestTwiceIsOnce(t *testing.T) {
	until := noon.Add(48 * time.Hour)
	for name, change := range map[string]func(*Subject) (*Plan, error){
		"keep":         Keep,
		"extend until": func(s *Subject) (*Plan, error) { return Extend(s, Target{Until: until}) },
		"extend to":    func(s *Subject) (*Plan, error) { return Extend(s, Target{To: 72 * time.Hour}) },
		"expire now":   func(s *Subject) (*Plan, error) { return ExpireNow(s, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "a").Created(noon.Add(-2 * time.Hour)).Complete(noon.Add(-time.Hour)).TTL(7200)
			s := subject(job.Map(), &resolution.Scope{})
			plan, err := change(s)
			if err != nil {
				t.Fatal(err)
			}
			object, _ := merged(runtime.DeepCopyJSONValue(s.Object), plan.Patch).(map[string]any)
			facts := policy.FactsOfObject(policy.JobProfile, object)
			later := noon.Add(time.Minute)
			again := &Subject{Object: object, Now: later, Explained: judging.Explain(facts, &resolution.Scope{}, judging.Question{Now: later})}
			nothing := (*NothingError)(nil)
			if plan, err := change(again); !errors.As(err, &nothing) {
				t.Errorf("%v, %v: want that there is nothing to change", plan, err)
			}
		})
	}
}

// TestChangedDefaultLosesItsStamp: a value that extend or keep writes is no default any more.
func TestChangedDefaultLosesItsStamp(t *testing.T) {
	job := builders.MakeJob("ci", "a").Created(noon.Add(-2*time.Hour)).Complete(noon.Add(-time.Hour)).TTL(7200).Annotation(wellknown.AnnotationTTLSource, "policy/platform")
	stamp := func(plan *Plan, err error) any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		annotations, _ := plan.Patch["metadata"].(map[string]any)["annotations"].(map[string]any)
		value, ok := annotations[wellknown.AnnotationTTLSource]
		return []any{value, ok}
	}
	removed := fmt.Sprint([]any{nil, true})
	if got := fmt.Sprint(stamp(Extend(subject(job.Map(), &resolution.Scope{}), Target{By: time.Hour}))); got != removed {
		t.Errorf("extend: the patch of the stamp is %s, want %s", got, removed)
	}
	if got := fmt.Sprint(stamp(Keep(subject(job.Map(), &resolution.Scope{})))); got != removed {
		t.Errorf("keep: the patch of the stamp is %s, want %s", got, removed)
	}
	labelled := subject(job.Label(wellknown.LabelTTL, "150m").Map(), &resolution.Scope{})
	plan, err := Extend(labelled, Target{Until: noon.Add(45 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := plan.Patch["metadata"].(map[string]any)["annotations"]; ok {
		t.Errorf("a label alone was to be extended: %v", plan.Patch)
	}
}

func TestMerged(t *testing.T) {
	target := map[string]any{"a": map[string]any{"b": int64(1), "c": "x"}, "d": []any{int64(1)}, "e": "text"}
	patch := map[string]any{"a": map[string]any{"b": nil, "n": map[string]any{"m": "y"}}, "d": []any{}, "e": map[string]any{"f": true}, "g": nil}
	have, _ := merged(target, patch).(map[string]any)
	inner := have["a"].(map[string]any)
	if _, ok := inner["b"]; ok || inner["c"] != "x" || inner["n"].(map[string]any)["m"] != "y" || len(have["d"].([]any)) != 0 ||
		have["e"].(map[string]any)["f"] != true || len(have) != 3 {
		t.Errorf("merged into %v, want b removed, and c, m, d and f as in the patch", have)
	}
}
