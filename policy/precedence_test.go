package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// Each pair of neighbouring levels, both ways round: the longer and the shorter value in the upper
// one. The upper decides, whatever it says; the outcome counts within the level only.
func TestPrecedence(t *testing.T) {
	const none = ""
	for name, test := range map[string]struct {
		runtime, object, namespace []string
		policies                   []*resolution.PlatformPolicy
		succeeded, failed          string
	}{
		"no level": {},
		"runtime longer than object": {
			runtime: []string{"ttl-after-finished", "9h"}, object: []string{"ttl-after-finished", "1h"},
			succeeded: "9h runtime/torch", failed: "9h runtime/torch",
		},
		"runtime shorter than object": {
			runtime: []string{"ttl-after-finished", "1h"}, object: []string{"ttl-after-finished", "9h"},
			succeeded: "1h runtime/torch", failed: "1h runtime/torch",
		},
		"object longer than namespace": {
			object: []string{"ttl-after-finished", "9h"}, namespace: []string{"default-ttl", "1h"},
			succeeded: "9h object", failed: "9h object",
		},
		"object shorter than namespace": {
			object: []string{"ttl-after-finished", "1h"}, namespace: []string{"default-ttl", "9h"},
			succeeded: "1h object", failed: "1h object",
		},
		"object never, namespace": {
			object: []string{"ttl-after-finished", "never"}, namespace: []string{"default-ttl", "1h"},
			succeeded: "never object", failed: "never object",
		},
		"namespace longer than policy": {
			namespace: []string{"default-ttl", "9h"}, policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "1h")},
			succeeded: "9h namespace/ci", failed: "9h namespace/ci",
		},
		"namespace shorter than policy": {
			namespace: []string{"default-ttl", "1h"}, policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "9h")},
			succeeded: "1h namespace/ci", failed: "1h namespace/ci",
		},
		"policy before policy, longer": {
			policies:  []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "9h"), platform("b", "ttl-after-finished", "1h")},
			succeeded: "9h policy/a", failed: "9h policy/a",
		},
		"policy before policy, shorter": {
			policies:  []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "1h"), platform("b", "ttl-after-finished", "9h")},
			succeeded: "1h policy/a", failed: "1h policy/a",
		},
		"a policy without a TTL is passed over": {
			policies:  []*resolution.PlatformPolicy{platform("a"), platform("b", "ttl-after-finished", "9h")},
			succeeded: "9h policy/b", failed: "9h policy/b",
		},
		"the outcome wins within a level": {
			namespace: []string{"default-ttl", "1h", "default-ttl-failed", "9h"},
			succeeded: "1h namespace/ci", failed: "9h namespace/ci",
		},
		"outcome in the runtime, plain in the object": {
			runtime: []string{"ttl-after-failed", "9h"}, object: []string{"ttl-after-finished", "1h"},
			succeeded: none, failed: "9h runtime/torch",
		},
		"plain in the runtime, outcome in the object": {
			runtime: []string{"ttl-after-finished", "9h"}, object: []string{"ttl-after-failed", "1h"},
			succeeded: "9h runtime/torch", failed: "9h runtime/torch",
		},
		"outcome in the object, plain in the namespace": {
			object: []string{"ttl-after-failed", "9h"}, namespace: []string{"default-ttl", "1h"},
			succeeded: none, failed: "9h object",
		},
		"plain in the object, outcome in the namespace": {
			object: []string{"ttl-after-finished", "9h"}, namespace: []string{"default-ttl-failed", "1h"},
			succeeded: "9h object", failed: "9h object",
		},
		"outcome in the namespace, plain in the policy": {
			namespace: []string{"default-ttl-failed", "9h"}, policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "1h")},
			succeeded: none, failed: "9h namespace/ci",
		},
		"plain in the namespace, outcome in the policy": {
			namespace: []string{"default-ttl", "9h"}, policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-failed", "1h")},
			succeeded: "9h namespace/ci", failed: "9h namespace/ci",
		},
		"unreadable runtime": {
			runtime: []string{"ttl-after-finished", "?"}, object: []string{"ttl-after-finished", "1h"},
			succeeded: "unusable runtime/torch", failed: "unusable runtime/torch",
		},
		"unreadable object": {
			object: []string{"ttl-after-finished", "?"}, namespace: []string{"default-ttl", "1h"},
			succeeded: "unusable object", failed: "unusable object",
		},
		"unreadable namespace": {
			namespace: []string{"default-ttl", "?"}, policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "1h")},
			succeeded: "unusable namespace/ci", failed: "unusable namespace/ci",
		},
		"unreadable policy": {
			policies:  []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "?"), platform("b", "ttl-after-finished", "1h")},
			succeeded: "unusable policy/a", failed: "unusable policy/a",
		},
		"bounds do not bind the runtime": {
			runtime: []string{"ttl-after-finished", "9h"}, namespace: []string{"max-ttl", "1h"},
			succeeded: "9h runtime/torch", failed: "9h runtime/torch",
		},
		"bounds refuse the object": {
			object: []string{"ttl-after-finished", "9h"}, namespace: []string{"max-ttl", "1h"},
			succeeded: "unusable object", failed: "unusable object",
		},
		"bounds clamp the namespace": {
			namespace: []string{"default-ttl", "9h", "max-ttl", "1h"},
			succeeded: "1h namespace/ci", failed: "1h namespace/ci",
		},
		"the namespace's bounds clamp the policy": {
			namespace: []string{"max-ttl", "1h"}, policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "never")},
			succeeded: "1h policy/a", failed: "1h policy/a",
		},
		"an unreadable bound makes the default unusable": {
			namespace: []string{"default-ttl", "9h", "min-ttl", "?"},
			succeeded: "unusable namespace/ci", failed: "unusable namespace/ci",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "build").Created(noon.Add(-time.Hour))
			for key, value := range annotated(test.object...) {
				job.Annotation(key, value)
			}
			scope := &resolution.Scope{Namespace: namespaceOf(test.namespace...), Policies: test.policies}
			if test.runtime != nil {
				scope.Runtime = &resolution.RuntimePolicy{Name: "torch", TTL: ttls(test.runtime...)}
			}
			got := resolution.Resolve(policy.FactsOfJob(job.Obj()), scope)
			if text := valueText(got.Succeeded); text != test.succeeded {
				t.Errorf("succeeded: %q, want %q", text, test.succeeded)
			}
			if text := valueText(got.Failed); text != test.failed {
				t.Errorf("failed: %q, want %q", text, test.failed)
			}
		})
	}
}

func valueText(value resolution.Value) string {
	switch {
	case !value.Set:
		return ""
	case value.Err != nil:
		return "unusable " + value.Source.String()
	default:
		return value.TTL.String() + " " + value.Source.String()
	}
}

func TestAnnotationWinsOverNativeField(t *testing.T) {
	job := builders.MakeJob("ci", "build").TTL(3600).Annotation(wellknown.AnnotationTTLFailed, "60")
	got := resolution.Resolve(policy.FactsOfJob(job.Obj()), &resolution.Scope{})
	if valueText(got.Succeeded) != "1h object" || valueText(got.Failed) != "1m object" {
		t.Errorf("succeeded %q, failed %q", valueText(got.Succeeded), valueText(got.Failed))
	}
}

func TestRuntimeGoneKeeps(t *testing.T) {
	job := builders.MakeJob("ci", "train").TTL(0).Complete(noon.Add(-time.Hour)).Obj()
	scope := &resolution.Scope{Runtime: &resolution.RuntimePolicy{Name: "torch", Missing: true}}
	facts := policy.FactsOfJob(job)
	effective := resolution.Resolve(facts, scope)
	verdict := judging.Judge(facts, &effective, noon)
	const want = "the runtime torch does not exist: create it, or delete the object by hand"
	if verdict.Action != policy.Keep || errText(verdict.Err) != want {
		t.Errorf("%s, %v; want keep, %s", verdict.Action, verdict.Err, want)
	}
}

func TestRuntimeIsLive(t *testing.T) {
	job := builders.MakeJob("ci", "train").Annotation(wellknown.AnnotationTTLSource, "runtime/torch").Obj()
	scope := &resolution.Scope{Runtime: &resolution.RuntimePolicy{Name: "torch", TTL: ttls("ttl-after-finished", "1h")}}
	if got := resolution.Resolve(policy.FactsOfJob(job), scope).Succeeded; !got.Live || got.Default {
		t.Errorf("got %+v, want a live value that is not filled in", got)
	}
}

// The deadline walks the same levels, without a runtime.
func TestDeadlinePrecedence(t *testing.T) {
	deadline := func(seconds string) *lifetime.Setting {
		return resolution.ParseNamespace("x", annotated("default-deadline", seconds), nil).Deadline
	}
	for name, test := range map[string]struct {
		job       *builders.JobWrapper
		namespace []string
		policies  []*resolution.PlatformPolicy
		want      string
	}{
		"no level":                 {job: builders.MakeJob("ci", "a")},
		"object":                   {job: builders.MakeJob("ci", "a").Deadline(60), namespace: []string{"default-deadline", "1h"}, want: "1m object"},
		"object of 0":              {job: builders.MakeJob("ci", "a").Deadline(0), namespace: []string{"default-deadline", "1h"}, want: "unusable object"},
		"object outside":           {job: builders.MakeJob("ci", "a").Deadline(60), namespace: []string{"min-deadline", "1h"}, want: "unusable object"},
		"annotation has no effect": {job: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationActiveDeadline, "60"), namespace: []string{"default-deadline", "1h"}, want: "1h namespace/ci"},
		"namespace": {
			job: builders.MakeJob("ci", "a"), namespace: []string{"default-deadline", "1h"},
			policies: []*resolution.PlatformPolicy{{Name: "a", Deadline: deadline("60"), Backfill: true}}, want: "1h namespace/ci",
		},
		"namespace clamped":    {job: builders.MakeJob("ci", "a"), namespace: []string{"default-deadline", "1h", "max-deadline", "30m"}, want: "30m namespace/ci"},
		"namespace unreadable": {job: builders.MakeJob("ci", "a"), namespace: []string{"default-deadline", "?"}, want: "unusable namespace/ci"},
		"bound unreadable":     {job: builders.MakeJob("ci", "a"), namespace: []string{"default-deadline", "1h", "max-deadline", "?"}, want: "unusable namespace/ci"},
		"policy":               {job: builders.MakeJob("ci", "a"), policies: []*resolution.PlatformPolicy{{Name: "a", Deadline: deadline("60"), Backfill: true}}, want: "1m policy/a"},
		"owned":                {job: builders.MakeJob("ci", "a").ControlledBy("jobset.x-k8s.io/v1alpha2", "JobSet", "set"), namespace: []string{"default-deadline", "1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfJob(test.job.Created(noon).Obj())
			got := resolution.Resolve(facts, &resolution.Scope{Namespace: namespaceOf(test.namespace...), Policies: test.policies})
			if text := valueText(got.Deadline); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
	pod := policy.FactsOfPod(builders.MakePod("ci", "a").Created(noon).Obj())
	if got := resolution.Resolve(pod, &resolution.Scope{Namespace: namespaceOf("default-deadline", "1h")}); got.Deadline.Set {
		t.Errorf("a Pod was given a default deadline: %+v", got.Deadline)
	}
}
