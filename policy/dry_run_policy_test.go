package policy_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func trial(name string, pairs ...string) *resolution.PlatformPolicy {
	out := platform(name, pairs...)
	out.Mode = resolution.ModeDryRun
	return out
}

// A policy in dry-run decides nothing, for admission and for everyone who asks for effective
// values. The controller reports what only its default makes due.
func TestPolicyInDryRun(t *testing.T) {
	facts := func(pairs ...string) *policy.Facts {
		wrapper := builders.MakeJob("ci", "a").Created(noon.Add(-2 * time.Hour)).Complete(noon.Add(-90 * time.Minute))
		for key, value := range annotated(pairs...) {
			wrapper.Annotation(key, value)
		}
		return policy.FactsOfJob(wrapper.Obj())
	}
	bounded := trial("bounded", "ttl-after-finished", "9d")
	bounded.Bounds.TTL.Max = &lifetime.Setting{Path: "spec.bounds.maxTTL", Text: "2h", TTL: lifetime.TTL{After: 2 * time.Hour}}
	failing := trial("failing", "ttl-after-finished", "1h")
	failing.TTL.All.Err = fmt.Errorf("evaluating: no such key")
	newer := trial("newer", "ttl-after-finished", "1h")
	newer.Since = noon
	for name, test := range map[string]struct {
		facts    *policy.Facts
		policies []*resolution.PlatformPolicy
		// ttl is the effective TTL, verdict that of the controller.
		ttl, verdict string
	}{
		"alone":                     {facts(), []*resolution.PlatformPolicy{trial("a", "ttl-after-finished", "1h")}, "", "delete policy/a dry-run"},
		"before another":            {facts(), []*resolution.PlatformPolicy{trial("a", "ttl-after-finished", "1h"), platform("b", "ttl-after-finished", "3h")}, "3h policy/b", "wait policy/b"},
		"after another":             {facts(), []*resolution.PlatformPolicy{platform("b", "ttl-after-finished", "1h"), trial("z", "ttl-after-finished", "3h")}, "1h policy/b", "delete policy/b"},
		"beside the object's":       {facts("ttl-after-finished", "3h"), []*resolution.PlatformPolicy{trial("a", "ttl-after-finished", "1h")}, "3h object", "wait object"},
		"its bounds bind only it":   {facts(), []*resolution.PlatformPolicy{bounded, platform("b", "ttl-after-finished", "3h")}, "3h policy/b", "wait policy/b"},
		"its bounds clamp its own":  {facts(), []*resolution.PlatformPolicy{bounded}, "", "wait policy/bounded dry-run"},
		"its bounds keep nothing":   {facts("ttl-after-finished", "3h"), []*resolution.PlatformPolicy{bounded}, "3h object", "wait object"},
		"it fails":                  {facts(), []*resolution.PlatformPolicy{failing}, "", "keep "},
		"it fails, beside another":  {facts(), []*resolution.PlatformPolicy{failing, platform("b", "ttl-after-finished", "1h")}, "1h policy/b", "delete policy/b"},
		"younger than its defaults": {facts(), []*resolution.PlatformPolicy{newer}, "", "keep "},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &resolution.Scope{Namespace: namespaceOf(), Policies: test.policies}
			effective := resolution.Resolve(test.facts, scope)
			if got := valueText(effective.Succeeded); got != test.ttl {
				t.Errorf("TTL %q, want %q", got, test.ttl)
			}
			if effective.Succeeded.DryRun {
				t.Error("an effective value is one that is only reported")
			}
			effective = resolution.ResolveTrial(test.facts, scope)
			verdict := judging.Judge(test.facts, &effective, noon)
			got := verdict.Action.String() + " " + verdict.Source.String()
			if verdict.DryRun {
				got += " dry-run"
			}
			if got != test.verdict || verdict.Err != nil {
				t.Errorf("verdict %q (%v), want %q", got, verdict.Err, test.verdict)
			}
		})
	}
}

// Admission fills in nothing by a policy in dry-run, and says what it would fill in.
func TestPolicyInDryRunAtAdmission(t *testing.T) {
	platformPolicy := trial("a", "ttl-after-finished", "1h")
	platformPolicy.Deadline = &lifetime.Setting{Path: "spec.defaults.deadline.value", Text: "2h", TTL: lifetime.TTL{After: 2 * time.Hour}, Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "a"}}
	platformPolicy.Label = &lifetime.Setting{Path: "spec.defaults.ttlLabel.value", Text: "30d", Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "a"}}
	platformPolicy.LatestDate = noon.Add(-time.Hour)
	low := platform("low", "ttl-after-finished", "3h")
	low.Label = &lifetime.Setting{Path: "spec.defaults.ttlLabel.value", Text: "9d", Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "low"}}
	scope := &resolution.Scope{Creating: true, Namespace: namespaceOf(), Policies: []*resolution.PlatformPolicy{platformPolicy, low}}
	facts := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon).Obj())
	var filled []string
	assignments, _ := resolution.FillIn(facts, scope, noon)
	for _, assignment := range assignments {
		filled = append(filled, fmt.Sprintf("%s=%v", assignment.Path, assignment.Value))
	}
	equal(t, filled, []string{"spec.ttlSecondsAfterFinished=10800", "metadata.annotations.curfew.dev/ttl-source=policy/low", "metadata.labels.curfew.dev/ttl=9d", "metadata.annotations.curfew.dev/ttl-label-source=policy/low 9d"})

	stamped := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon).TTL(10800).Annotation(wellknown.AnnotationTTLSource, "policy/low").Obj())
	var names []string
	for _, each := range resolution.Defaulted(stamped, scope, noon) {
		names = append(names, each.String())
	}
	equal(t, names, []string{
		`ttlSecondsAfterFinished defaulted to 10800 (3h) from policy "low"`,
		`ttlSecondsAfterFinished would be defaulted to 3600 (1h) from policy "a" (dry-run)`,
		`activeDeadlineSeconds would be defaulted to 7200 (2h) from policy "a" (dry-run)`,
	})
	platformPolicy.LatestDate, scope.Policies = time.Time{}, []*resolution.PlatformPolicy{platformPolicy}
	if label := resolution.DefaultedLabel(facts, scope, noon); label == nil || label.String() != `curfew.dev/ttl would be defaulted to 30d from policy "a" (dry-run)` {
		t.Errorf("the label: %v", label)
	}
}

// The first policy that sets the propagation decides, for TTLs and labels. Where it is not known
// whether it does, dependents may have to stay: the object is kept (S6).
func TestPropagationOfPolicies(t *testing.T) {
	policyOf := func(name string, propagation metav1.DeletionPropagation) *resolution.PlatformPolicy {
		return &resolution.PlatformPolicy{Name: name, Propagation: propagation}
	}
	unknown := policyOf("unknown", "")
	unknown.PropagationErr = fmt.Errorf("evaluating: no such key")
	for name, test := range map[string]struct {
		policies []*resolution.PlatformPolicy
		want     string
	}{
		"none":          {nil, "delete "},
		"none sets it":  {[]*resolution.PlatformPolicy{policyOf("a", "")}, "delete "},
		"the first":     {[]*resolution.PlatformPolicy{policyOf("a", ""), policyOf("b", metav1.DeletePropagationOrphan), policyOf("c", metav1.DeletePropagationForeground)}, "delete Orphan"},
		"unknown first": {[]*resolution.PlatformPolicy{unknown, policyOf("b", metav1.DeletePropagationOrphan)}, "keep spec.propagationPolicy of policy \"unknown\": evaluating: no such key"},
		"unknown later": {[]*resolution.PlatformPolicy{policyOf("b", metav1.DeletePropagationOrphan), unknown}, "delete Orphan"},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &resolution.Scope{Namespace: namespaceOf(), Policies: test.policies}
			wrapper := builders.MakeJob("ci", "a").Created(noon.Add(-2*time.Hour)).Complete(noon.Add(-90*time.Minute)).TTL(60).Label(wellknown.LabelTTL, "1h")
			facts := policy.FactsOfJob(wrapper.Obj())
			effective := resolution.Resolve(facts, scope)
			for trigger, verdict := range map[string]policy.Verdict{"ttl": judging.Judge(facts, &effective, noon), "label": judging.JudgeLabel(facts, wellknown.LabelTTL, scope, noon)} {
				got := verdict.Action.String() + " " + string(verdict.Propagation)
				if verdict.Err != nil {
					got += verdict.Err.Error()
				}
				if got != test.want {
					t.Errorf("%s: %q, want %q", trigger, got, test.want)
				}
			}
		})
	}
}

// A deadline by a policy in dry-run fails nothing, and stops nothing below what it failed before.
func TestDeadlineOfPolicyInDryRun(t *testing.T) {
	platformPolicy := trial("a")
	platformPolicy.Deadline = &lifetime.Setting{Path: "spec.defaults.deadline.value", Text: "1h", TTL: lifetime.TTL{After: time.Hour}}
	scope := &resolution.Scope{Namespace: namespaceOf(), Policies: []*resolution.PlatformPolicy{platformPolicy}}
	job := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon.Add(-3 * time.Hour)).Obj())
	job.Started = job.Created
	effective := resolution.ResolveTrial(job, scope)
	if got := judging.JudgeDeadline(job, &effective, 0, noon); got.Action != policy.Stop || !got.DryRun || got.Source.Name != "a" {
		t.Errorf("%+v, want a dry run of stop", got)
	}
	if effective := resolution.Resolve(job, scope); effective.Deadline.Set {
		t.Errorf("an effective deadline %+v", effective.Deadline)
	}
	job.Finished, job.Exceeded = true, noon.Add(-time.Hour)
	if got := judging.JudgeDeadline(job, &effective, 0, noon); got.Action != policy.Stop || !got.DryRun || got.Source.Name != "a" {
		t.Errorf("marked: %+v, want a dry run of stop", got)
	}
}
