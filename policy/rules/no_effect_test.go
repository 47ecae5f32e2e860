package rules

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestNoEffect(t *testing.T) {
	run(t, noEffect, map[string]row{
		"deadline in a CronJob's template": {object: builders.MakeCronJob("ci", "a").JobAnnotation(wellknown.AnnotationActiveDeadline, "1h").Map(),
			want: []string{"warning spec.jobTemplate." + at("active-deadline") + ": has no effect on a Job: set spec.jobTemplate.spec.activeDeadlineSeconds"}},
		"deadline on a CronJob": {object: builders.MakeCronJob("ci", "a").Annotation(wellknown.AnnotationActiveDeadline, "1h").Map(),
			want: []string{"warning " + at("active-deadline") + ": has no effect on a CronJob: remove it"}},
		"a default of a Namespace on a Job": {object: job().Annotation(wellknown.AnnotationDefaultTTL, "1h").Map(),
			want: []string{"warning " + at("default-ttl") + `: has no effect on a Job, only on a Namespace: set it on namespace "ci", or curfew.dev/ttl-after-finished on the Job`}},
		"a bound, as a label": {object: job().Label(wellknown.AnnotationMaxTTL, "1h").Map(),
			want: []string{`warning metadata.labels[curfew.dev/max-ttl]: has no effect on a Job, only on a Namespace: set it on namespace "ci"`}},
		"a mode in a CronJob's template": {object: builders.MakeCronJob("ci", "a").JobAnnotation(wellknown.AnnotationMode, "warn").Map(),
			want: []string{"warning spec.jobTemplate." + at("mode") + `: has no effect on a Job, only on a Namespace: set it on namespace "ci"`}},
		"a deadline on a Namespace": {object: map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "ci", "annotations": map[string]any{wellknown.AnnotationActiveDeadline: "1h"}}},
			want: []string{"warning " + at("active-deadline") + ": has no effect on a Namespace: for the objects in it set curfew.dev/default-deadline"}},
		"unchanged": {old: job().Annotation(wellknown.AnnotationActiveDeadline, "1h").Map(), object: job().TTL(90).Annotation(wellknown.AnnotationActiveDeadline, "1h").Map()},
	})
}

// A runtime's TTL applies to the objects that use the runtime. Curfew does not know when an object
// of a kind without a profile finishes.
func TestNoEffectByProfile(t *testing.T) {
	equal(t, judge(noEffect, trainingRuntime, Request{}, nil, object("TrainingRuntime", nil, "ttl-after-finished", "5s", "backfill", "true")), nil)
	unknown := policy.Profiles{}.For(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"})
	equal(t, judge(noEffect, unknown, Request{}, nil, object("Thing", nil, "ttl-after-failed", "5s")),
		[]string{"warning " + at("ttl-after-failed") + ": has no effect on a Thing: no KindProfile says when it finishes; use label curfew.dev/ttl"})
}

// What a TTL that has no effect, or that a runtime overrules, might do to the object is not warned
// about: it does nothing.
func TestNoWarningsOfWhatHasNoEffect(t *testing.T) {
	const short, argo, helm = "5s", "argocd.argoproj.io/tracking-id", "helm.sh/hook"
	for name, test := range map[string]struct {
		profile *policy.Profile
		runtime *resolution.RuntimePolicy
		kind    string
		want    []string
	}{
		"never finishes": {policy.DeploymentProfile, nil, "Deployment", []string{"no-effect " + at("ttl-after-finished") + ": has no effect on a Deployment, which never finishes: remove it"}},
		"overruled": {trainJob, &resolution.RuntimePolicy{Name: "torch", TTL: lifetime.TTLSet{All: &lifetime.Setting{Text: "1d", TTL: lifetime.TTL{After: 24 * time.Hour}}}}, "TrainJob",
			[]string{"runtime-ttl " + at("ttl-after-finished") + `: 5s is ignored: runtime "torch" sets 1d; remove it`}},
	} {
		for _, key := range []string{argo, helm} {
			with := object(test.kind, nil, "ttl-after-finished", short)
			with["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = "x"
			request := &Request{Operation: Create, Object: with, Facts: policy.FactsOfObject(test.profile, with), Scope: &resolution.Scope{Runtime: test.runtime, Creating: true}}
			var got []string
			for _, finding := range Review(request).Findings {
				got = append(got, finding.Rule+" "+finding.String())
			}
			t.Run(name+" "+key, func(t *testing.T) { equal(t, got, test.want) })
		}
	}
}
