package rules

import (
	"cmp"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestShortTTL(t *testing.T) {
	run(t, shortTTL, map[string]row{
		"a minute": {object: job().TTL(60).Map()},
		"never":    {object: job().Annotation(wellknown.AnnotationTTL, "never").Map()},
		"other limit": {object: job().TTL(90).Map(), options: Options{WarnBelow: 2 * time.Minute},
			want: []string{"warning spec.ttlSecondsAfterFinished: 90 (1m30s) is under 120s: the Job may be deleted before anyone reads its logs; use 120s or more"}},
		"filled in by a default": {object: job().TTL(30).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: annotated("default-ttl", "30s")},
		"said to be a default": {object: job().TTL(30).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(), namespace: annotated("default-ttl", "1d"),
			want: []string{"warning spec.ttlSecondsAfterFinished: 30 (30s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"said to be a default in a template": {object: builders.MakeCronJob("ci", "a").TTL(5).JobAnnotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(),
			want: []string{"warning spec.jobTemplate.spec.ttlSecondsAfterFinished: 5 (5s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"unchanged": {old: job().TTL(30).Map(), object: job().TTL(30).Label("a", "b").Map()},
		"a default made shorter": {
			old:    job().TTL(3600).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(),
			object: job().TTL(30).Annotation(wellknown.AnnotationTTLSource, "namespace/ci").Map(),
			want:   []string{"warning spec.ttlSecondsAfterFinished: 30 (30s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
	})
}

// A label is a TTL, too.
func TestShortTTLOfLabel(t *testing.T) {
	short := func(text string) string {
		return "warning metadata.labels[curfew.dev/ttl]: " + text + " is under 60s: the Job is deleted " + text + " after its creation; use 60s or more"
	}
	given := Request{Now: noon, Scope: &resolution.Scope{Policies: []*resolution.PlatformPolicy{{Name: "short", Label: &lifetime.Setting{Text: "30s", Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "p"}}}}}}
	for name, test := range map[string]struct {
		request  Request
		key      string
		old, new string
		want     []string
	}{
		"a minute":      {new: "60"},
		"bare seconds":  {new: "59", want: []string{short("59s")}},
		"over at once":  {new: "0"},
		"a date":        {new: "2026-12-24"},
		"unreadable":    {new: "1S"},
		"unchanged":     {old: "30s", new: "30s"},
		"made shorter":  {old: "30s", new: "20s", want: []string{short("20s")}},
		"by a policy":   {request: given, new: "30s"},
		"beside policy": {request: given, new: "29s", want: []string{short("29s")}},
		"alias, unread": {key: wellknown.LabelKyvernoTTL, new: "30s"},
		"alias": {key: wellknown.LabelKyvernoTTL, new: "30sec", request: Request{Options: Options{KyvernoLabel: true}},
			want: []string{"warning metadata.labels[cleanup.kyverno.io/ttl]: 30s is under 60s: the Job is deleted 30s after its creation; use 60s or more"}},
	} {
		t.Run(name, func(t *testing.T) {
			key := cmp.Or(test.key, wellknown.LabelTTL)
			var old map[string]any
			if test.old != "" {
				old = job().Label(key, test.old).Map()
			}
			equal(t, judge(shortTTL, policy.JobProfile, test.request, old, job().Label(key, test.new).Annotation(wellknown.AnnotationLabelSource, "policy/p 30s").Map()), test.want)
		})
	}
}

func TestShortLabelInATemplate(t *testing.T) {
	cron := builders.MakeCronJob("ci", "a").Map()
	template := cron["spec"].(map[string]any)["jobTemplate"].(map[string]any)
	template["metadata"] = map[string]any{"labels": map[string]any{wellknown.LabelTTL: "30s"}}
	equal(t, judge(shortTTL, policy.CronJobProfile, Request{}, nil, cron), []string{"warning spec.jobTemplate.metadata.labels[curfew.dev/ttl]: " +
		"30s is under 60s: each Job created from this template is deleted 30s after its creation; use 60s or more"})
}

// A policy's own limit comes before that of the flag.
func TestShortTTLByPolicy(t *testing.T) {
	scope := &resolution.Scope{Policies: []*resolution.PlatformPolicy{{Name: "silent"}, {Name: "platform", WarnBelow: time.Hour}, {Name: "later", WarnBelow: time.Second}}}
	equal(t, judge(shortTTL, policy.JobProfile, Request{Scope: scope}, nil, job().TTL(600).Map()),
		[]string{"warning spec.ttlSecondsAfterFinished: 600 (10m) is under 3600s: the Job may be deleted before anyone reads its logs; use 3600s or more"})
}
