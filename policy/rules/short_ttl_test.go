package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestShortTTL(t *testing.T) {
	run(t, shortTTL, map[string]row{
		"a minute": {object: job().TTL(60).Map()},
		"never":    {object: job().Annotation(policy.AnnotationTTL, "never").Map()},
		"short": {object: job().TTL(30).Map(),
			want: []string{"warning spec.ttlSecondsAfterFinished: 30s is under 60s: the Job may be gone before anyone reads its logs; use 60s or more"}},
		"zero": {object: pod().Annotation(policy.AnnotationTTLSucceeded, "0").Map(),
			want: []string{"warning " + at("ttl-after-succeeded") + ": 0s is under 60s: the Pod may be gone before anyone reads its logs; use 60s or more"}},
		"in a CronJob's template": {object: builders.MakeCronJob("ci", "a").TTL(5).Map(),
			want: []string{"warning spec.jobTemplate.spec.ttlSecondsAfterFinished: 5s is under 60s: the Job may be gone before anyone reads its logs; use 60s or more"}},
		"other limit": {object: job().TTL(90).Map(), options: Options{WarnBelow: 2 * time.Minute},
			want: []string{"warning spec.ttlSecondsAfterFinished: 1m30s is under 120s: the Job may be gone before anyone reads its logs; use 120s or more"}},
		"filled in by a default": {object: job().TTL(30).Annotation(policy.AnnotationTTLSource, "namespace/ci").Map()},
		"unchanged":              {old: job().TTL(30).Map(), object: job().TTL(30).Label("a", "b").Map()},
		"a default made shorter": {
			old:    job().TTL(3600).Annotation(policy.AnnotationTTLSource, "namespace/ci").Map(),
			object: job().TTL(30).Annotation(policy.AnnotationTTLSource, "namespace/ci").Map(),
			want:   []string{"warning spec.ttlSecondsAfterFinished: 30s is under 60s: the Job may be gone before anyone reads its logs; use 60s or more"}},
	})
}

func TestShortTTLOfRuntime(t *testing.T) {
	equal(t, judge(shortTTL, trainingRuntime, Request{}, nil, object("TrainingRuntime", nil, "ttl-after-finished", "5s")),
		[]string{"warning " + at("ttl-after-finished") + ": 5s is under 60s: a TrainJob that uses it may be gone before anyone reads its logs; use 60s or more"})
}

// A policy's own limit comes before that of the flag.
func TestShortTTLByPolicy(t *testing.T) {
	scope := &policy.Scope{Policies: []*policy.PlatformPolicy{{Name: "silent"}, {Name: "platform", WarnBelow: time.Hour}, {Name: "later", WarnBelow: time.Second}}}
	equal(t, judge(shortTTL, policy.JobProfile, Request{Scope: scope}, nil, job().TTL(600).Map()),
		[]string{"warning spec.ttlSecondsAfterFinished: 10m is under 3600s: the Job may be gone before anyone reads its logs; use 3600s or more"})
}
