package change

import (
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

// TestExtendShortensNoLife: extend never shortens a life by a TTL beside a later label, or for an
// outcome that the command does not change.
func TestExtendShortensNoLife(t *testing.T) {
	const by, to, until = "by", "to", "until"
	targets := map[string]Target{by: {By: 24 * time.Hour}, to: {To: 24 * time.Hour}, until: {Until: noon.Add(20 * time.Hour)}}
	namespaces := map[string]map[string]string{
		"":          {},
		"outcomes":  {wellknown.AnnotationDefaultTTLSucceeded: "5d", wellknown.AnnotationDefaultTTLFailed: "1h"},
		"failed":    {wellknown.AnnotationDefaultTTLFailed: "1h"},
		"succeeded": {wellknown.AnnotationDefaultTTLSucceeded: "1h"},
	}
	type life struct{ succeeded, failed, label string }
	const finished = "finished"
	for name, test := range map[string]struct {
		label       string
		annotations map[string]string
		state       string
		namespace   string
		target      string
		want        life // "" stays
		refused     bool
		warned      bool
	}{
		"a TTL beside a later label":            {label: "30d", state: finished, target: to, refused: true},
		"the same of what has not finished":     {label: "30d", target: to, refused: true},
		"a TTL that is there beside a label":    {label: "30d", state: finished, annotations: map[string]string{wellknown.AnnotationTTL: "1h"}, target: to, want: life{"1d", "1d", "30d"}},
		"the outcome after which it stays":      {annotations: map[string]string{wellknown.AnnotationTTLFailed: "1h"}, target: to, want: life{"", "1d", ""}},
		"the outcome that it had, and stays":    {annotations: map[string]string{wellknown.AnnotationTTLFailed: "1h"}, state: finished, target: to, want: life{"1d", "1h", ""}},
		"a default that is longer":              {namespace: "outcomes", target: to, want: life{"5d", "1d", ""}},
		"defaults by outcome":                   {namespace: "outcomes", target: by, want: life{"6d", "1d1h", ""}},
		"a default of failures alone":           {namespace: "failed", target: by, want: life{"", "1d1h", ""}},
		"a default of success alone":            {namespace: "succeeded", target: to, want: life{"1d", "", ""}},
		"the TTL beside the label, which comes": {label: "10h", annotations: map[string]string{wellknown.AnnotationTTL: "1h"}, target: by, want: life{"1d1h", "1d1h", "1d10h"}},
		"until, which a TTL knows nothing of":   {label: "10h", annotations: map[string]string{wellknown.AnnotationTTL: "1h"}, target: until, want: life{"1h", "1h", "22h"}, warned: true},
		"until, with no TTL":                    {label: "10h", target: until, want: life{"", "", "22h"}},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "a").UID("a").Created(noon.Add(-2 * time.Hour))
			if test.state == finished {
				job.Complete(noon.Add(-time.Hour))
			}
			for key, value := range test.annotations {
				job.Annotation(key, value)
			}
			if test.label != "" {
				job.Label(wellknown.LabelTTL, test.label)
			}
			annotations := namespaces[test.namespace]
			annotations[wellknown.AnnotationDefaultSince] = resolution.FormatSince(noon.Add(-1000*time.Hour), resolution.DefaultsHash(annotations))
			s := subject(job.Map(), &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotations, nil)})
			plan, err := Extend(s, targets[test.target])
			if test.refused {
				if err == nil {
					t.Fatalf("goes at %v, went at %v: %v", plan.After.Expiry, plan.Before.Expiry, plan.Patch)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			after := explainedAfter(s, plan)
			text := func(value resolution.Value) string {
				if !value.Set || value.TTL.Never {
					return ""
				}
				return value.TTL.String()
			}
			have := life{text(after.Effective.Succeeded), text(after.Effective.Failed), after.Facts.Labels[wellknown.LabelTTL]}
			if have != test.want || (len(plan.Warnings) > 0) != test.warned {
				t.Errorf("%+v, want %+v; warned %q; patch %v", have, test.want, plan.Warnings, plan.Patch)
			}
		})
	}
}

// TestExtendWithinTheBounds: the bounds count from the creation. A label whose clock was restarted
// would not live as long as extend promises.
func TestExtendWithinTheBounds(t *testing.T) {
	job := builders.MakeJob("ci", "a").UID("a").Created(noon.Add(-2*time.Hour)).Label(wellknown.LabelTTL, "1h").
		Annotation(wellknown.AnnotationRefreshedAt, noon.Add(-20*time.Minute).Format(time.RFC3339))
	bounds := map[string]string{wellknown.AnnotationMaxTTL: "3h"}
	s := subject(job.Map(), &resolution.Scope{Namespace: resolution.ParseNamespace("ci", bounds, nil)})
	if plan, err := Extend(s, Target{By: 20 * time.Minute}); err != nil || !plan.After.Expiry.Equal(noon.Add(time.Hour)) {
		t.Errorf("up to the bound: %+v, %v", plan, err)
	}
	if plan, err := Extend(s, Target{By: time.Hour}); err == nil || !strings.Contains(err.Error(), "curfew.dev/max-ttl 3h") {
		t.Errorf("beyond the bound: %+v, %v", plan, err)
	}
}

// TestFateOfWhatStays: a protected object stays after it has finished, and no command says that it
// expires, above all not the keep that protects it.
func TestFateOfWhatStays(t *testing.T) {
	job := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").UID("a").Created(noon.Add(-time.Hour)).Annotation(wellknown.AnnotationTTL, "1h")
	}
	if deletion := DeletionOf(subject(job().Map(), &resolution.Scope{}).Explained); deletion.After == nil {
		t.Error("an object that is deleted is said to stay")
	}
	for name, s := range map[string]*Subject{
		"protected": subject(job().Annotation(wellknown.AnnotationProtect, "true").Map(), &resolution.Scope{}),
	} {
		if deletion := DeletionOf(s.Explained); deletion != (Deletion{}) {
			t.Errorf("%s: %+v, want no deletion", name, deletion)
		}
	}
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a", "namespace": "ci", "annotations": map[string]any{wellknown.AnnotationTTL: "1h"}},
		"spec": map[string]any{"restartPolicy": "Always"}, "status": map[string]any{"phase": "Running"},
	}
	if deletion := DeletionOf(judging.Explain(policy.FactsOfObject(policy.PodProfile, pod), &resolution.Scope{}, judging.Question{Now: noon})); deletion != (Deletion{}) {
		t.Errorf("a Pod that is restarted for ever: %+v", deletion)
	}
	runtime := &resolution.RuntimePolicy{Name: "torch"}
	runtime.TTL.All = &lifetime.Setting{Path: "metadata.annotations[curfew.dev/ttl-after-finished]", Text: "10d", TTL: lifetime.TTL{After: 240 * time.Hour}}
	plan, err := Keep(subject(job().Map(), &resolution.Scope{Runtime: runtime}))
	if err != nil || plan.After != (Deletion{}) {
		t.Errorf("kept where a runtime decides: %+v, %v", plan, err)
	}
}
