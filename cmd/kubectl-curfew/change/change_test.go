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

// TestStamps: no change leaves a stamp that names the default whose value it was. After keep a
// label always has a stamp: without one the object would be given a default label again. Keep
// removes Kyverno's label only where Curfew reads it. A refresh has no effect beside a date, and is
// removed.
func TestStamps(t *testing.T) {
	labelled := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon).Label(wellknown.LabelTTL, "1d")
	}
	given := func() *builders.JobWrapper { return labelled().Annotation(wellknown.AnnotationLabelSource, "policy/p") }
	aliased := labelled().Label(wellknown.LabelKyvernoTTL, "2d")
	finished := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon.Add(-2*time.Hour)).Complete(noon.Add(-time.Hour)).TTL(7200).Annotation(wellknown.AnnotationTTLSource, "policy/platform")
	}
	refreshed := func(instant string) *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).Label(wellknown.LabelTTL, "1d").Annotation(wellknown.AnnotationRefreshedAt, instant)
	}
	extend := func(s *Subject) (*Plan, error) { return Extend(s, Target{By: time.Hour}) }
	until := func(s *Subject) (*Plan, error) { return Extend(s, Target{Until: noon.Add(45 * time.Minute)}) }
	expire := func(s *Subject) (*Plan, error) { return ExpireNow(s, nil) }
	for name, test := range map[string]struct {
		job    *builders.JobWrapper
		alias  bool
		change func(*Subject) (*Plan, error)
		want   string // its metadata
	}{
		"extend, the user's label":     {labelled(), false, extend, "map[labels:map[curfew.dev/ttl:1d1h]]"},
		"extend, a policy's label":     {given(), false, extend, "map[annotations:map[curfew.dev/ttl-label-source:object] labels:map[curfew.dev/ttl:1d1h]]"},
		"expire-now, the user's label": {labelled(), false, expire, "map[labels:map[curfew.dev/ttl:2026-12-24T120002Z]]"},
		"expire-now, a policy's label": {given(), false, expire, "map[annotations:map[curfew.dev/ttl-label-source:object] labels:map[curfew.dev/ttl:2026-12-24T120002Z]]"},
		"keep, the user's label":       {labelled(), false, Keep, "map[annotations:map[curfew.dev/ttl-label-source:object] labels:map[curfew.dev/ttl:<nil>]]"},
		"keep, both labels":            {aliased, true, Keep, "map[annotations:map[curfew.dev/ttl-label-source:object] labels:map[cleanup.kyverno.io/ttl:<nil> curfew.dev/ttl:<nil>]]"},
		"keep, Kyverno's own label":    {aliased, false, Keep, "map[annotations:map[curfew.dev/ttl-label-source:object] labels:map[curfew.dev/ttl:<nil>]]"},
		"extend, a policy's TTL":       {finished(), false, extend, "map[annotations:map[curfew.dev/ttl-source:<nil>]]"},
		"keep, a policy's TTL":         {finished(), false, Keep, "map[annotations:map[curfew.dev/ttl-after-finished:never curfew.dev/ttl-source:<nil>]]"},
		"extend, the label alone":      {finished().Label(wellknown.LabelTTL, "150m"), false, until, "map[labels:map[curfew.dev/ttl:2h45m]]"},
		"expire-now, refreshed":        {refreshed(noon.Add(-20 * time.Minute).Format(time.RFC3339)), false, expire, "map[annotations:map[curfew.dev/refreshed-at:<nil>] labels:map[curfew.dev/ttl:2026-12-24T120002Z]]"},
		"expire-now, not readable":     {refreshed("yesterday"), false, expire, "map[annotations:map[curfew.dev/refreshed-at:<nil>] labels:map[curfew.dev/ttl:2026-12-24T120002Z]]"},
	} {
		s := subject(test.job.Map(), &resolution.Scope{})
		s.Alias = test.alias
		plan, err := test.change(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if have := fmt.Sprint(plan.Patch["metadata"]); have != test.want {
			t.Errorf("%s: %s, want %s", name, have, test.want)
		}
		if warned := strings.Contains(fmt.Sprint(plan.Warnings), wellknown.AnnotationRefreshedAt); warned {
			t.Errorf("%s: warns %q", name, plan.Warnings)
		}
	}
}
