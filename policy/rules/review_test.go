package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// What people read in kubectl when a default was filled in, or in dry-run would have been.
func TestAnnouncements(t *testing.T) {
	for name, test := range map[string]struct {
		row
		want []string
	}{
		"own value": {row: row{object: job().TTL(86400).Annotation(wellknown.AnnotationTTLSource, "object").Map(), namespace: annotated("default-ttl", "1h")}},
		"update":    {row: row{old: job().Map(), object: job().TTL(86400).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map()}},
		"dry-run": {
			row: row{object: job().Map(), namespace: annotated("default-ttl", "1d", "default-ttl-failed", "7d", "default-deadline", "1h", "mode", "dry-run")},
			want: []string{
				`curfew: curfew.dev/ttl-after-succeeded would be defaulted to 1d from namespace "ci" (dry-run)`,
				`curfew: curfew.dev/ttl-after-failed would be defaulted to 7d from namespace "ci" (dry-run)`,
				`curfew: activeDeadlineSeconds would be defaulted to 3600 (1h) from namespace "ci" (dry-run)`,
			},
		},
		"dry-run, own value": {row: row{object: job().TTL(600).Map(), namespace: annotated("default-ttl", "1d", "mode", "dry-run")}},
	} {
		t.Run(name, func(t *testing.T) {
			decision := review(test.row)
			equal(t, decision.Warnings(true), test.want)
			if got := decision.Warnings(false); len(got) != 0 {
				t.Errorf("announced to a service account: %q", got)
			}
		})
	}
}

// An object that is being deleted passes whatever is wrong with it, or its finalizers could never
// be taken away.
func TestDeletingPasses(t *testing.T) {
	bad := job().TTL(-1).Deadline(0).TemplateAnnotation(wellknown.AnnotationTTL, "?").Annotation(wellknown.AnnotationProtect, "?").Deleting(noon).Map()
	if decision := review(row{old: job().Map(), object: bad}); len(decision.Findings) != 0 {
		t.Errorf("update: %v", decision.Findings)
	}
	if review(row{object: bad}).Allowed() {
		t.Error("create: a deletionTimestamp, which the API server drops then, has it pass")
	}
}

// An UPDATE is refused for what it brings, not for what stood there: wrong in four ways, and a
// label passes.
func TestUpdateIsRefusedForWhatItChanges(t *testing.T) {
	bad := func() *builders.JobWrapper {
		return job().TTL(7200).Deadline(0).TemplateAnnotation(wellknown.AnnotationTTL, "?").Annotation(wellknown.AnnotationProtect, "?")
	}
	limit := annotated("max-ttl", "1h")
	if decision := review(row{old: bad().Map(), object: bad().Label("a", "b").Map(), namespace: limit}); len(decision.Findings) != 0 {
		t.Errorf("an unrelated update: %v", decision.Findings)
	}
	decision := review(row{old: bad().Map(), object: bad().TTL(7201).Map(), namespace: limit})
	if got := len(decision.Denials()); got != 1 {
		t.Errorf("one change, %d denials: %s", got, decision.Reason())
	}
}

// Items of a list move when one before them is removed: that changes nothing about them.
func TestFindingsMoveWithTheirItems(t *testing.T) {
	finding := func(i int, key, value string) Finding {
		return Finding{Rule: "r", Field: fmt.Sprintf("spec.jobs[%d].template.metadata.annotations[%s]", i, key), Value: value, Severity: Deny}
	}
	const key, other = "curfew.dev/ttl-after-finished", "curfew.dev/ttl-after-failed"
	for name, test := range map[string]struct{ now, stood, want []Finding }{
		"as before":            {[]Finding{finding(0, key, "1h"), finding(1, key, "2h")}, []Finding{finding(0, key, "1h"), finding(1, key, "2h")}, nil},
		"the first is removed": {[]Finding{finding(0, key, "2h"), finding(1, key, "3h")}, []Finding{finding(0, key, "1h"), finding(1, key, "2h"), finding(2, key, "3h")}, nil},
		"one is inserted":      {[]Finding{finding(1, key, "1h"), finding(0, other, "1h")}, []Finding{finding(0, key, "1h")}, []Finding{finding(0, other, "1h")}},
		"a value changes":      {[]Finding{finding(0, key, "3h")}, []Finding{finding(0, key, "1h")}, []Finding{finding(0, key, "3h")}},
		"one more of the same": {[]Finding{finding(0, key, "1h"), finding(1, key, "1h")}, []Finding{finding(0, key, "1h")}, []Finding{finding(1, key, "1h")}},
		"one more before it":   {[]Finding{finding(0, key, "1h"), finding(1, key, "1h")}, []Finding{finding(1, key, "1h")}, []Finding{finding(0, key, "1h")}},
	} {
		if got := added(slices.Clone(test.now), test.stood); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	jobSet := func(ttls ...string) map[string]any {
		var jobs []any
		for _, ttl := range ttls {
			job := map[string]any{"name": "j" + ttl, "template": map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: ttl}}}}}}
			jobs = append(jobs, job)
		}
		return object("JobSet", map[string]any{"replicatedJobs": jobs})
	}
	review := func(old, now map[string]any) *Decision {
		profile := shipped(t)[jobSetKind]
		return Review(&Request{Operation: Update, User: User{Name: "jane"}, Object: now, Old: old, Scope: &resolution.Scope{}, Now: noon,
			Facts: policy.FactsOfObject(profile, now), OldFacts: policy.FactsOfObject(profile, old)})
	}
	if decision := review(jobSet("1h", "2h", "3h"), jobSet("2h", "3h")); !decision.Allowed() {
		t.Errorf("an item is removed: %s", decision.Reason())
	}
	if decision := review(jobSet("1h", "2h"), jobSet("2h", "4h")); decision.Allowed() {
		t.Error("an item with another TTL was allowed")
	}
}

func TestDecisionSource(t *testing.T) {
	for name, test := range map[string]struct {
		row
		want string
	}{
		"none":         {row: row{object: job().Map()}},
		"object":       {row: row{object: job().TTL(5).Map()}, want: "object"},
		"filled in":    {row: row{object: job().TTL(5).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: annotated("default-ttl", "5s")}, want: "namespace/ci"},
		"forged":       {row: row{object: job().TTL(6).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: annotated("default-ttl", "5s")}, want: "object"},
		"one outcome":  {row: row{object: job().Annotation(wellknown.AnnotationTTLFailed, "5").Map()}, want: "object"},
		"not filled":   {row: row{object: job().Map(), namespace: annotated("default-ttl", "1d", "mode", "dry-run")}, want: "namespace/ci"},
		"stamp, empty": {row: row{object: job().Annotation(wellknown.AnnotationTTLSource, "policy/x").Map()}},
		"on update":    {row: row{old: job().Map(), object: job().TTL(5).Annotation(wellknown.AnnotationTTLSource, "policy/x").Map()}, want: "policy/x"},
	} {
		if got := review(test.row).Source; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestIsPerson(t *testing.T) {
	for name, want := range map[string]bool{
		"jane": true, "system:admin": true, "kubernetes-admin": true, "system:serviceaccount:ci:builder": false,
		"system:node:node-0": false, "system:kube-controller-manager": false,
	} {
		if got := (User{Name: name}).IsPerson(); got != want {
			t.Errorf("%s is a person: %t, want %t", name, got, want)
		}
	}
}

// Every rule has a name of its own and something to check.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range All() {
		checks := 0
		for _, has := range []bool{rule.Check != nil, rule.Transition != nil, rule.Review != nil} {
			if has {
				checks++
			}
		}
		if rule.Name == "" || seen[rule.Name] || checks != 1 {
			t.Errorf("rule %q: no name, twice, or not exactly one of Check, Transition and Review", rule.Name)
		}
		seen[rule.Name] = true
	}
}

// S9: an object with tens of thousands of templates is judged in time that grows with their number,
// and no faster. The old code compared each finding with all others: minutes, in which the API
// server gave up and let the object pass.
func TestManyTemplates(t *testing.T) {
	var templates []any
	for range 30_000 {
		templates = append(templates, map[string]any{"template": map[string]any{"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "x"}}}}}})
	}
	profile := &policy.Profile{Name: "jobset", PodTemplates: []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.replicatedJobs[*].template.spec.template")}}
	object := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"replicatedJobs": templates}}
	facts := policy.FactsOfObject(profile, object)
	instant := time.Now()
	decision := Review(&Request{Operation: Update, Object: object, Old: object, Facts: facts, OldFacts: facts, Scope: &resolution.Scope{}})
	if took := time.Since(instant); len(decision.Findings) > 0 || took > 30*time.Second {
		t.Errorf("%d findings after %v", len(decision.Findings), took)
	}
	decision = Review(&Request{Operation: Create, Object: object, Facts: facts, Scope: &resolution.Scope{}})
	if len(decision.Findings) != 30_000 {
		t.Errorf("%d findings", len(decision.Findings))
	}
}
