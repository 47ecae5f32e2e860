package policy_test

import (
	"fmt"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// What the defaults of a policy stamped before its mode became DryRun is only reported. A stamp that
// the policy does not produce again is ignored: the value counts as the author's.
func TestDryRunHoldsWhatIsStamped(t *testing.T) {
	job := func(ttl int32) *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon.Add(-2 * time.Hour)).Complete(noon.Add(-90 * time.Minute)).TTL(ttl)
	}
	stamped := func(ttl int32, source string) *builders.JobWrapper {
		return job(ttl).Annotation(wellknown.AnnotationTTLSource, source)
	}
	hour := trial("a", "ttl-after-finished", "1h")
	unknown := trial("a")
	unknown.TTL.All = &lifetime.Setting{Path: "spec.match", Err: fmt.Errorf("evaluating: no such key")}
	capped := trial("a", "ttl-after-finished", "9h")
	capped.Bounds.TTL.Max = &lifetime.Setting{Path: "spec.bounds.maxTTL", Text: "1h", TTL: lifetime.TTL{After: time.Hour}}
	longer := trial("b")
	longer.Bounds.TTL.Min = &lifetime.Setting{Path: "spec.bounds.minTTL", Text: "2h", TTL: lifetime.TTL{After: 2 * time.Hour}}
	only := func(policies ...*resolution.PlatformPolicy) *resolution.Scope {
		return &resolution.Scope{Namespace: namespaceOf(), Policies: policies}
	}
	for name, test := range map[string]struct {
		job   *builders.JobWrapper
		scope *resolution.Scope
		want  string
	}{
		"native field":                      {stamped(3600, "policy/a"), only(hour), "delete policy/a dry-run"},
		"annotation":                        {builders.MakeJob("ci", "a").Created(noon.Add(-2*time.Hour)).Complete(noon.Add(-90*time.Minute)).Annotation(wellknown.AnnotationTTL, "1h").Annotation(wellknown.AnnotationTTLSource, "policy/a"), only(hour), "delete policy/a dry-run"},
		"enforced":                          {stamped(3600, "policy/a"), only(platform("a", "ttl-after-finished", "1h")), "delete policy/a"},
		"another policy is in dry-run":      {stamped(3600, "policy/b"), only(platform("b", "ttl-after-finished", "1h"), hour), "delete policy/b"},
		"it does not match":                 {stamped(3600, "policy/a"), only(), "delete policy/a"},
		"it gives another value":            {stamped(3599, "policy/a"), only(hour), "delete policy/a"},
		"it gives the value to failed ones": {stamped(3600, "policy/a"), only(trial("a", "ttl-after-failed", "1h")), "delete policy/a"},
		"it gives no TTL any more":          {stamped(3600, "policy/a"), only(trial("a")), "delete policy/a"},
		"the namespace gives one":           {stamped(3600, "policy/a"), &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h"), Policies: []*resolution.PlatformPolicy{hour}}, "delete policy/a"},
		"a policy before it gives one":      {stamped(3600, "policy/z"), only(platform("a", "ttl-after-finished", "1h"), trial("z", "ttl-after-finished", "1h")), "delete policy/z"},
		"one on trial before it gives one":  {stamped(3600, "policy/a"), only(trial("b", "ttl-after-finished", "2h"), hour), "delete policy/a dry-run"},
		"one on trial has a minimum":        {stamped(3600, "policy/a"), only(longer, hour), "delete policy/a dry-run"},
		"one on trial had raised it":        {stamped(7200, "policy/a"), only(longer, hour), "wait policy/a dry-run"},
		"it clamps its default":             {stamped(3600, "policy/a"), only(capped), "delete policy/a dry-run"},
		"it cannot be evaluated":            {stamped(60, "policy/a"), only(unknown), "delete policy/a dry-run"},
		"it matched before":                 {stamped(3600, "policy/a"), &resolution.Scope{Namespace: namespaceOf(), Filled: only(hour)}, "delete policy/a dry-run"},
		"no stamp":                          {job(3600), only(hour), "delete object"},
		"stamp of the author":               {stamped(3600, "object"), only(hour), "delete object"},
		"an object that gets no default":    {stamped(3600, "policy/a").Owner(controlledBy(true)), only(hour), "delete policy/a"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfJob(test.job.Obj())
			effective := resolution.ResolveTrial(facts, test.scope)
			verdict := judging.Judge(facts, &effective, noon)
			if got := verdictText(&verdict); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func verdictText(verdict *policy.Verdict) string {
	out := verdict.Action.String() + " " + verdict.Source.String()
	if verdict.DryRun {
		out += " dry-run"
	}
	return out
}

// The same for a deadline. What was stopped for it before is not stopped further.
func TestDryRunHoldsStampedDeadlines(t *testing.T) {
	deadline := func(name, text string, after time.Duration) *resolution.PlatformPolicy {
		out := trial(name)
		out.Deadline = &lifetime.Setting{Path: "spec.defaults.deadline.value", Text: text, TTL: lifetime.TTL{After: after}}
		return out
	}
	platformPolicy, longer := deadline("a", "1h", time.Hour), trial("b")
	longer.Bounds.Deadline.Min = &lifetime.Setting{Path: "spec.bounds.minDeadline", Text: "2h", TTL: lifetime.TTL{After: 2 * time.Hour}}
	running := func(seconds int64) *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon.Add(-3*time.Hour)).Started(noon.Add(-2*time.Hour)).Deadline(seconds).Annotation(wellknown.AnnotationDeadlineSource, "policy/a")
	}
	for name, test := range map[string]struct {
		job    *builders.JobWrapper
		ends   bool
		before []*resolution.PlatformPolicy
		want   string
	}{
		"its value":                        {running(3600), false, nil, "stop policy/a dry-run"},
		"another value":                    {running(1800), false, nil, "stop policy/a"},
		"its value, stopped":               {running(3600), true, nil, "stop policy/a dry-run"},
		"one on trial before it gives one": {running(3600), false, []*resolution.PlatformPolicy{deadline("b", "2h", 2*time.Hour)}, "stop policy/a dry-run"},
		"one on trial has a minimum":       {running(3600), false, []*resolution.PlatformPolicy{longer}, "stop policy/a dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfJob(test.job.Obj())
			if test.ends {
				facts.Finished, facts.Exceeded = true, noon.Add(-time.Hour)
			}
			effective := resolution.ResolveTrial(facts, &resolution.Scope{Namespace: namespaceOf(), Policies: append(test.before, platformPolicy)})
			verdict := judging.JudgeDeadline(facts, &effective, 0, noon)
			if got := verdictText(&verdict); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// The same for a TTL label, which a policy may have given at creation or later.
func TestDryRunHoldsStampedLabels(t *testing.T) {
	policyOf := func(mode resolution.Mode, text string) *resolution.PlatformPolicy {
		return &resolution.PlatformPolicy{Name: "a", Mode: mode, NamesKind: true,
			Label: &lifetime.Setting{Path: "spec.defaults.ttlLabel.value", Text: text, Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "a"}}}
	}
	only := func(policies ...*resolution.PlatformPolicy) *resolution.Scope {
		return &resolution.Scope{Namespace: namespaceOf(), Policies: policies}
	}
	failing := policyOf(resolution.ModeDryRun, "")
	failing.Label.Err = fmt.Errorf("evaluating: no such key")
	for name, test := range map[string]struct {
		label, stamp string
		scope        *resolution.Scope
		want         string
	}{
		"its label":               {"1h", "policy/a 1h", only(policyOf(resolution.ModeDryRun, "1h")), "delete policy/a dry-run"},
		"given to what existed":   {"1h", "policy/a 1h backfill", only(policyOf(resolution.ModeDryRun, "1h")), "delete policy/a dry-run"},
		"its date":                {"2026-12-24T110000Z", "policy/a 2026-12-24T110000Z", only(policyOf(resolution.ModeDryRun, "2026-12-24T110000Z")), "delete policy/a dry-run"},
		"enforced":                {"1h", "policy/a 1h", only(policyOf(resolution.ModeEnforce, "1h")), "delete policy/a"},
		"another label":           {"1h", "policy/a 1h", only(policyOf(resolution.ModeDryRun, "90m")), "delete object"},
		"it does not match":       {"1h", "policy/a 1h", only(), "delete object"},
		"it cannot be evaluated":  {"1h", "policy/a 1h", only(failing), "delete policy/a dry-run"},
		"it matched before":       {"1h", "policy/a 1h", &resolution.Scope{Namespace: namespaceOf(), Filled: only(policyOf(resolution.ModeDryRun, "1h"))}, "delete policy/a dry-run"},
		"a stamp of another":      {"1h", "policy/a 2h", only(policyOf(resolution.ModeDryRun, "1h")), "delete object"},
		"the label of its author": {"1h", "", only(policyOf(resolution.ModeDryRun, "1h")), "delete object"},
	} {
		t.Run(name, func(t *testing.T) {
			wrapper := builders.MakeJob("ci", "a").Created(noon.Add(-2*time.Hour)).Label(wellknown.LabelTTL, test.label)
			if test.stamp != "" {
				wrapper.Annotation(wellknown.AnnotationLabelSource, test.stamp)
			}
			verdict := judging.JudgeLabel(policy.FactsOfJob(wrapper.Obj()), wellknown.LabelTTL, test.scope, noon)
			if got := verdictText(&verdict); got != test.want {
				t.Errorf("%s (%s), want %s", got, verdict.Reason, test.want)
			}
		})
	}
}
