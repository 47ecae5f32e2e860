package policy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// A label that a policy gave expires on the policy's account, and one that an existing object was
// given at the backfill rate. A stamp beside another label counts for nothing: the author set that.
func TestSourceOfALabel(t *testing.T) {
	for stamp, want := range map[string]string{
		"":                       "object false",
		"policy/p 30d":           "policy/p false",
		"policy/p 30d backfill":  "policy/p true",
		"policy/p 30d backfills": "policy/p false",
		"policy/p 31d":           "object false",
		"policy/p 31d backfill":  "object false",
		"policy/p":               "object false",
		"policy/p  30d":          "object false",
		"object 30d":             "object false",
		"object":                 "object false",
		"namespace/ci 30d":       "object false",
		"runtime/r 30d":          "object false",
	} {
		facts := existing(time.Hour, withLabel(wellknown.LabelTTL), annotation(wellknown.AnnotationLabelSource, stamp))
		verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, &resolution.Scope{Policies: []*resolution.PlatformPolicy{labelPolicy("30d")}}, noon)
		if got := fmt.Sprint(verdict.Source, " ", verdict.Backfill); got != want || verdict.Action != policy.Wait {
			t.Errorf("stamp %q: %s, %s; want %s", stamp, got, verdict.Action, want)
		}
	}
	// A label that a later bound forbids is not what the policy gives now. Only the author sets the
	// alias.
	bounded := &resolution.Scope{Policies: []*resolution.PlatformPolicy{labelPolicy("30d", atMost("1d"))}}
	facts := existing(time.Hour, withLabel(wellknown.LabelTTL), annotation(wellknown.AnnotationLabelSource, "policy/p 30d"))
	if verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, bounded, noon); verdict.Err == nil || verdict.Source.String() != "object" {
		t.Errorf("outside the bounds: %v by %s", verdict.Err, verdict.Source)
	}
	facts = existing(time.Hour, withLabel(wellknown.LabelKyvernoTTL), annotation(wellknown.AnnotationLabelSource, "policy/p 30d"))
	if verdict := judging.JudgeLabel(facts, wellknown.LabelKyvernoTTL, &resolution.Scope{}, noon); verdict.Source.String() != "object" || verdict.Action != policy.Wait {
		t.Errorf("the alias: %s by %s", verdict.Action, verdict.Source)
	}
}

// Anyone who may write an object can write its stamp. A policy is the source of a label only if it
// would give that label again. An edit of the policy deletes nothing sooner, and what was backfilled
// stays limited by the rate of backfill.
func TestSourceOfALabelIsProven(t *testing.T) {
	given := labelPolicy("30d")
	trial := labelPolicy("30d")
	trial.Mode = resolution.ModeDryRun
	failing := labelPolicy("")
	failing.Label.Err = errors.New("evaluating: no such key")
	first := labelPolicy("7d")
	first.Name, first.Label.Source.Name = "a", "a"
	other := labelPolicy("7d")
	other.Name, other.Label.Source.Name, other.Mode = "a", "a", resolution.ModeDryRun
	capped := &resolution.PlatformPolicy{Name: "capped", Mode: resolution.ModeDryRun, Bounds: lifetime.Bounds{Label: lifetime.Range{Max: &lifetime.Setting{Text: "30d", TTL: lifetime.TTL{After: 30 * 24 * time.Hour}}}}}
	dryRun := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationMode: "dry-run"}, nil)
	only := func(policies ...*resolution.PlatformPolicy) *resolution.Scope {
		return &resolution.Scope{Policies: policies}
	}
	for name, c := range map[string]struct {
		scope *resolution.Scope
		stamp string
		want  string
	}{
		"it gives the label":                {only(given), "policy/p 30d", "policy/p false"},
		"to an existing object":             {only(given), "policy/p 30d backfill", "policy/p true"},
		"its match asks for no label":       {&resolution.Scope{Filled: only(given)}, "policy/p 30d", "policy/p false"},
		"the namespace is in dry-run":       {&resolution.Scope{Namespace: dryRun, Policies: []*resolution.PlatformPolicy{given}}, "policy/p 30d", "policy/p false"},
		"it is in dry-run":                  {only(trial), "policy/p 30d", "policy/p false"},
		"another one is, and gives another": {only(other, given), "policy/p 30d", "policy/p false"},
		"another one is, and cut it":        {only(labelPolicy("90d"), capped), "policy/p 30d", "policy/p false"},
		"it cannot be evaluated":            {only(failing), "policy/p 30d backfill", "policy/p true"},
		"it does not exist":                 {only(), "policy/p 30d", "object false"},
		"it matches, and gives no label":    {only(&resolution.PlatformPolicy{Name: "p"}), "policy/p 30d", "object false"},
		"it was edited":                     {only(labelPolicy("31d")), "policy/p 30d", "object false"},
		"it was edited after a backfill":    {only(labelPolicy("31d")), "policy/p 30d backfill", "object true"},
		"it does not exist, and backfilled": {only(given), "policy/made-up 30d backfill", "object true"},
		"another policy gives the label":    {only(given), "policy/a 30d", "object false"},
		"another one decides before it":     {only(first, given), "policy/p 30d", "object false"},
	} {
		facts := existing(time.Hour, withLabel(wellknown.LabelTTL), annotation(wellknown.AnnotationLabelSource, c.stamp))
		verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, c.scope, noon)
		if got := fmt.Sprint(verdict.Source, " ", verdict.Backfill); got != c.want || verdict.Action != policy.Wait || !verdict.Expiry.Equal(facts.Created.Add(30*24*time.Hour)) {
			t.Errorf("%s: %s, %s until %s; want %s", name, got, verdict.Action, verdict.Expiry, c.want)
		}
	}
}

// A stamp that the author of a new object forged is removed. That of an earlier call for the same
// CREATE stays.
func TestForgedStampOfALabel(t *testing.T) {
	dryRun := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationMode: "dry-run"}, nil)
	for name, c := range map[string]struct {
		label, stamp string
		namespace    *resolution.NamespacePolicy
		removed      bool
	}{
		"given a moment ago":    {label: "30d", stamp: "policy/p 30d"},
		"another label":         {label: "1d", stamp: "policy/p 1d", removed: true},
		"another policy":        {label: "30d", stamp: "policy/q 30d", removed: true},
		"as if it existed":      {label: "30d", stamp: "policy/p 30d backfill", removed: true},
		"it claims nothing":     {label: "1d", stamp: "object"},
		"in dry-run":            {label: "1d", stamp: "policy/p 1d", namespace: dryRun},
		"beside another label":  {label: "1d", stamp: "policy/p 30d", removed: true},
		"its label was removed": {stamp: "policy/q 30d"},
	} {
		job := builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationLabelSource, c.stamp)
		if c.label != "" {
			job.Label(wellknown.LabelTTL, c.label)
		}
		scope := &resolution.Scope{Creating: true, Namespace: c.namespace, Policies: []*resolution.PlatformPolicy{labelPolicy("30d")}}
		assignments, _ := resolution.FillIn(policy.FactsOfObject(policy.JobProfile, job.Map()), scope, noon)
		removed := false
		for _, assignment := range assignments {
			removed = removed || assignment.Path[len(assignment.Path)-1] == wellknown.AnnotationLabelSource && assignment.Value == nil
		}
		if removed != c.removed {
			t.Errorf("%s: removed is %t, want %t", name, removed, c.removed)
		}
	}
}

// An object that names another controller gets no default label, whether its kind has a profile or
// not. A label of its own counts.
func TestDefaultLabelOfManagedObjects(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	scope := &resolution.Scope{Policies: []*resolution.PlatformPolicy{labelPolicy("30d", backfill)}}
	for name, c := range map[string]struct {
		spec  any
		given bool
	}{
		"it names none":              {map[string]any{}, true},
		"it is empty":                {map[string]any{"managedBy": ""}, true},
		"it names one":               {map[string]any{"managedBy": "example.com/other"}, false},
		"it names one by an object":  {map[string]any{"managedBy": map[string]any{"name": "other"}}, false},
		"its spec is of wrong shape": {"managedBy", true},
	} {
		facts := policy.FactsOfObject(policy.Profiles{}.For(widget), map[string]any{
			"metadata": map[string]any{"namespace": "ci", "name": "a", "creationTimestamp": noon.Add(-time.Hour).Format(time.RFC3339)}, "spec": c.spec,
		})
		created, _ := resolution.DefaultLabel(facts, scope, noon)
		missing, _ := resolution.MissingLabel(facts, scope, noon)
		if (created != "") != c.given || (missing != "") != c.given {
			t.Errorf("%s: given %q at creation and %q later, want a label: %t", name, created, missing, c.given)
		}
		facts.Labels = map[string]string{wellknown.LabelTTL: "30d"}
		if verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, &resolution.Scope{}, noon); verdict.Action != policy.Wait {
			t.Errorf("%s: its own label: %s", name, verdict.Reason)
		}
	}
}
