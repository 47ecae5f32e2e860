package policy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// Admission fills in nothing for a trigger that is switched off. A stamp that the author wrote
// proves nothing then either, and what the author says is judged as before.
func TestTriggersThatAreSwitchedOff(t *testing.T) {
	trainJob := &policy.Profile{
		Name: "TrainJob", Kind: schema.GroupVersionKind{Group: "x.dev", Version: "v1", Kind: "TrainJob"}, Resource: "trainjobs",
		State:    func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil },
		Deadline: fieldpath.FieldPath{"spec", "activeDeadlineSeconds"}, AnnotatedDeadline: true, DefaultDeadline: true,
	}
	labelled := platform("a", "ttl-after-finished", "2h")
	labelled.Label = &lifetime.Setting{Path: "spec.defaults.ttlLabel", Text: "7d", Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "a"}}
	const byLabel = "curfew.dev/ttl-label-source=policy/a 7d"
	plain := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon) }
	for name, test := range map[string]struct {
		facts *policy.Facts
		off   []policy.Trigger
		want  []string
	}{
		"all on": {policy.FactsOfJob(plain().Obj()), nil, []string{"ttlSecondsAfterFinished=3600",
			"curfew.dev/ttl-source=namespace/ci", "activeDeadlineSeconds=600",
			"curfew.dev/deadline-source=namespace/ci", "curfew.dev/ttl=7d", byLabel}},
		"no TTL":      {policy.FactsOfJob(plain().Obj()), []policy.Trigger{policy.TriggerTTL}, []string{"activeDeadlineSeconds=600", "curfew.dev/deadline-source=namespace/ci", "curfew.dev/ttl=7d", byLabel}},
		"no deadline": {policy.FactsOfJob(plain().Obj()), []policy.Trigger{policy.TriggerDeadline}, []string{"ttlSecondsAfterFinished=3600", "curfew.dev/ttl-source=namespace/ci", "curfew.dev/ttl=7d", byLabel}},
		"no label": {policy.FactsOfJob(plain().Obj()), []policy.Trigger{policy.TriggerLabel}, []string{"ttlSecondsAfterFinished=3600",
			"curfew.dev/ttl-source=namespace/ci", "activeDeadlineSeconds=600",
			"curfew.dev/deadline-source=namespace/ci"}},
		"all off":          {policy.FactsOfJob(plain().Obj()), []policy.Trigger{policy.TriggerTTL, policy.TriggerLabel, policy.TriggerDeadline}, nil},
		"a TTL of its own": {policy.FactsOfJob(plain().TTL(60).Obj()), []policy.Trigger{policy.TriggerTTL, policy.TriggerLabel, policy.TriggerDeadline}, []string{"curfew.dev/ttl-source=object"}},
		"a forged stamp": {policy.FactsOfJob(plain().TTL(3600).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Obj()),
			[]policy.Trigger{policy.TriggerTTL, policy.TriggerLabel, policy.TriggerDeadline}, []string{"curfew.dev/ttl-source=object"}},
		"an annotation is copied": {factsOf(trainJob, wellknown.AnnotationActiveDeadline, "1h"), []policy.Trigger{policy.TriggerTTL},
			[]string{"activeDeadlineSeconds=3600", "curfew.dev/deadline-source=object", "curfew.dev/ttl=7d", byLabel}},
		"an annotation is not copied": {factsOf(trainJob, wellknown.AnnotationActiveDeadline, "1h"), []policy.Trigger{policy.TriggerTTL, policy.TriggerDeadline}, []string{"curfew.dev/ttl=7d", byLabel}},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h", "default-deadline", "10m"), Policies: []*resolution.PlatformPolicy{labelled}, Creating: true, Off: test.off}
			assignments, _ := resolution.FillIn(test.facts, scope, noon)
			var got []string
			for _, assignment := range assignments {
				got = append(got, fmt.Sprintf("%s=%v", assignment.Path[len(assignment.Path)-1], assignment.Value))
			}
			equal(t, got, test.want)
			if _, forged := resolution.Attested(test.facts, scope); len(forged) > 0 != (name == "a forged stamp") {
				t.Errorf("forged %v", forged)
			}
		})
	}
}

func factsOf(profile *policy.Profile, annotations ...string) *policy.Facts {
	all := map[string]any{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return policy.FactsOfObject(profile, map[string]any{"metadata": map[string]any{"namespace": "ci", "name": "a", "uid": "a", "creationTimestamp": "2026-12-24T12:00:00Z", "annotations": all}})
}

// With --leave-native-ttl a Job whose author set the native field is kept, and no other: not one
// with an annotation beside it, and not one to which a default was given.
func TestLeaveNative(t *testing.T) {
	finished := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon).Complete(noon) }
	for name, test := range map[string]struct {
		job  *builders.JobWrapper
		left bool
	}{
		"its author's":      {finished().TTL(60), true},
		"stamped as such":   {finished().TTL(60).Annotation(wellknown.AnnotationTTLSource, "object"), true},
		"a default":         {finished().TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), false},
		"an annotation":     {finished().Annotation(wellknown.AnnotationTTL, "1m"), false},
		"one beside it":     {finished().TTL(3600).Annotation(wellknown.AnnotationTTL, "1m"), false},
		"one for this end":  {finished().TTL(3600).Annotation(wellknown.AnnotationTTLSucceeded, "1m"), false},
		"one for the other": {finished().TTL(60).Annotation(wellknown.AnnotationTTLFailed, "1m"), true},
		"live default":      {finished(), false},
	} {
		facts := policy.FactsOfJob(test.job.Obj())
		for _, leave := range []bool{false, true} {
			effective := resolution.Resolve(facts, &resolution.Scope{Namespace: namespaceSince(noon.Add(-time.Hour), "default-ttl", "1m"), LeaveNative: leave})
			verdict := judging.Judge(facts, &effective, noon.Add(2*time.Hour))
			if kept := verdict.Action == policy.Keep; kept != (leave && test.left) {
				t.Errorf("%s, --leave-native-ttl=%t: %s (%s)", name, leave, verdict.Action, verdict.Reason)
			}
		}
	}
}
