package policy_test

import (
	"cmp"
	"strings"
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
	const ttl = "ttl-after-finished "
	for name, test := range map[string]struct {
		runtime, object, namespace string
		policies                   []string
		// want is the TTL of what succeeded, and of what failed unless that has another.
		want, failed string
	}{
		"runtime longer than object":                     {runtime: ttl + "9h", object: ttl + "1h", want: "9h runtime/torch"},
		"runtime shorter than object":                    {runtime: ttl + "1h", object: ttl + "9h", want: "1h runtime/torch"},
		"object longer than namespace":                   {object: ttl + "9h", namespace: "default-ttl 1h", want: "9h object"},
		"object shorter than namespace":                  {object: ttl + "1h", namespace: "default-ttl 9h", want: "1h object"},
		"namespace longer than policy":                   {namespace: "default-ttl 9h", policies: []string{"a " + ttl + "1h"}, want: "9h namespace/ci"},
		"namespace shorter than policy":                  {namespace: "default-ttl 1h", policies: []string{"a " + ttl + "9h"}, want: "1h namespace/ci"},
		"policy before policy, longer":                   {policies: []string{"a " + ttl + "9h", "b " + ttl + "1h"}, want: "9h policy/a"},
		"a policy without a TTL is passed over":          {policies: []string{"a", "b " + ttl + "9h"}, want: "9h policy/b"},
		"the outcome wins within a level":                {namespace: "default-ttl 1h default-ttl-failed 9h", want: "1h namespace/ci", failed: "9h namespace/ci"},
		"outcome in the runtime, plain in the object":    {runtime: "ttl-after-failed 9h", object: ttl + "1h", failed: "9h runtime/torch"},
		"plain in the runtime, outcome in the object":    {runtime: ttl + "9h", object: "ttl-after-failed 1h", want: "9h runtime/torch"},
		"outcome in the object, plain in the namespace":  {object: "ttl-after-failed 9h", namespace: "default-ttl 1h", failed: "9h object"},
		"plain in the object, outcome in the namespace":  {object: ttl + "9h", namespace: "default-ttl-failed 1h", want: "9h object"},
		"outcome in the namespace, plain in the policy":  {namespace: "default-ttl-failed 9h", policies: []string{"a " + ttl + "1h"}, failed: "9h namespace/ci"},
		"plain in the namespace, outcome in the policy":  {namespace: "default-ttl 9h", policies: []string{"a ttl-after-failed 1h"}, want: "9h namespace/ci"},
		"unreadable runtime":                             {runtime: ttl + "?", object: ttl + "1h", want: "unusable runtime/torch"},
		"unreadable object":                              {object: ttl + "?", namespace: "default-ttl 1h", want: "unusable object"},
		"unreadable namespace":                           {namespace: "default-ttl ?", policies: []string{"a " + ttl + "1h"}, want: "unusable namespace/ci"},
		"unreadable policy":                              {policies: []string{"a " + ttl + "?", "b " + ttl + "1h"}, want: "unusable policy/a"},
		"bounds do not bind the runtime":                 {runtime: ttl + "9h", namespace: "max-ttl 1h", want: "9h runtime/torch"},
		"bounds refuse the object":                       {object: ttl + "9h", namespace: "max-ttl 1h", want: "unusable object"},
		"bounds clamp the namespace":                     {namespace: "default-ttl 9h max-ttl 1h", want: "1h namespace/ci"},
		"the namespace's bounds clamp the policy":        {namespace: "max-ttl 1h", policies: []string{"a " + ttl + "never"}, want: "1h policy/a"},
		"an unreadable bound makes the default unusable": {namespace: "default-ttl 9h min-ttl ?", want: "unusable namespace/ci"},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "build").Created(noon.Add(-time.Hour))
			for key, value := range annotated(strings.Fields(test.object)...) {
				job.Annotation(key, value)
			}
			scope := &resolution.Scope{Namespace: namespaceOf(strings.Fields(test.namespace)...)}
			for _, text := range test.policies {
				fields := strings.Fields(text)
				scope.Policies = append(scope.Policies, platform(fields[0], fields[1:]...))
			}
			if test.runtime != "" {
				scope.Runtime = &resolution.RuntimePolicy{Name: "torch", TTL: ttls(strings.Fields(test.runtime)...)}
			}
			got := resolution.Resolve(policy.FactsOfJob(job.Obj()), scope)
			if text := valueText(got.Succeeded); text != test.want {
				t.Errorf("succeeded: %q, want %q", text, test.want)
			}
			if text, want := valueText(got.Failed), cmp.Or(test.failed, test.want); text != want {
				t.Errorf("failed: %q, want %q", text, want)
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
