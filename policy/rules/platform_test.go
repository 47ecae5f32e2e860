package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
)

var trainJob = &policy.Profile{Name: "trainjob", ImmutableDeadline: true, DefaultDeadline: true, AnnotatedDeadline: true,
	Deadline: policy.MustFieldPath("spec.activeDeadlineSeconds"),
	State:    func(map[string]any) (policy.State, error) { return policy.State{}, nil }}

var trainingRuntime = &policy.Profile{Name: "runtime", RuntimeOf: "TrainJob", TTL: policy.MustFieldPath("spec.ttlSecondsAfterFinished"),
	Forbidden: []policy.Forbidden{{Path: policy.MustFieldPath("spec.template.spec.replicatedJobs[*].template.spec.activeDeadlineSeconds"), Reason: "set it on the TrainJob"}}}

func init() {
	trainJob.Kind.Kind, trainingRuntime.Kind.Kind = "TrainJob", "TrainingRuntime"
}

func object(kind string, spec map[string]any, annotations ...string) map[string]any {
	fields := map[string]any{}
	for key, value := range annotated(annotations...) {
		fields[key] = value
	}
	return map[string]any{"kind": kind, "metadata": map[string]any{"name": "a", "namespace": "ci", "annotations": fields}, "spec": spec}
}

// judge asks all rules about an object of a profile and returns what one of them finds.
func judge(rule Rule, profile *policy.Profile, request Request, old, object map[string]any) []string {
	request.Operation, request.Object, request.Facts = Create, object, policy.FactsOfObject(profile, object)
	if old != nil {
		request.Operation, request.Old, request.OldFacts = Update, old, policy.FactsOfObject(profile, old)
	}
	if request.Scope == nil {
		request.Scope = &policy.Scope{}
	}
	effective := policy.Resolve(request.Facts, request.Scope)
	request.Effective = &effective
	var got []string
	for _, finding := range Review(&request).Findings {
		if finding.Rule == rule.Name {
			got = append(got, string(finding.Severity)+" "+finding.String())
		}
	}
	return got
}

func TestImmutableDeadline(t *testing.T) {
	with := func(seconds int64) map[string]any { return map[string]any{"activeDeadlineSeconds": seconds} }
	for name, row := range map[string]struct {
		old, new map[string]any
		want     []string
	}{
		"the same": {object("TrainJob", with(60)), object("TrainJob", with(60)), nil},
		"changed": {object("TrainJob", with(60)), object("TrainJob", with(90)),
			[]string{"error spec.activeDeadlineSeconds: cannot be changed after creation, from 60 to 90: leave it, or create a new TrainJob"}},
		"added": {object("TrainJob", nil), object("TrainJob", with(90)),
			[]string{"error spec.activeDeadlineSeconds: cannot be added after creation: leave it out, or create a new TrainJob with it"}},
		"annotation removed": {object("TrainJob", nil, "active-deadline", "1h"), object("TrainJob", nil),
			[]string{"error " + at("active-deadline") + ": cannot be removed after creation: leave it at 1h, or create a new TrainJob without it"}},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, judge(immutableDeadline, trainJob, Request{}, row.old, row.new), row.want)
		})
	}
	equal(t, judge(immutableDeadline, trainJob, Request{}, nil, object("TrainJob", with(60))), nil)
}

func TestForbiddenField(t *testing.T) {
	bad := object("TrainingRuntime", map[string]any{"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{
		map[string]any{}, map[string]any{"template": map[string]any{"spec": map[string]any{"activeDeadlineSeconds": int64(5)}}}}}}})
	equal(t, judge(forbiddenField, trainingRuntime, Request{}, nil, bad),
		[]string{"error spec.template.spec.replicatedJobs[1].template.spec.activeDeadlineSeconds: must not be set: set it on the TrainJob"})
	equal(t, judge(forbiddenField, trainingRuntime, Request{}, bad, bad), nil)
}

func TestRuntimeTTL(t *testing.T) {
	said := &policy.RuntimePolicy{Name: "torch", TTL: policy.TTLSet{All: &policy.Setting{Text: "1d", TTL: policy.TTL{After: 24 * time.Hour}}}}
	request := Request{Scope: &policy.Scope{Runtime: said}}
	equal(t, judge(runtimeTTL, trainJob, request, nil, object("TrainJob", nil, "ttl-after-finished", "1h")),
		[]string{"warning " + at("ttl-after-finished") + `: 1h is ignored: runtime "torch" says 1d; remove it`})
	equal(t, judge(runtimeTTL, trainJob, request, nil, object("TrainJob", nil, "ttl-after-finished", "24h")), nil)
	equal(t, judge(runtimeTTL, trainJob, Request{}, nil, object("TrainJob", nil, "ttl-after-finished", "1h")), nil)
}

func TestShortTTLOfRuntime(t *testing.T) {
	equal(t, judge(shortTTL, trainingRuntime, Request{}, nil, object("TrainingRuntime", nil, "ttl-after-finished", "5s")),
		[]string{"warning " + at("ttl-after-finished") + ": 5s is under 60s: a TrainJob that uses it may be gone before anyone reads its logs; use 60s or more"})
	equal(t, judge(noEffect, trainingRuntime, Request{}, nil, object("TrainingRuntime", nil, "ttl-after-finished", "5s")), nil)
}

func TestTTLLabel(t *testing.T) {
	path := "metadata.labels[curfew.dev/ttl]"
	ask := func(request Request, text string) []string {
		request.Now = noon
		return judge(ttlLabel, policy.JobProfile, request, nil, job().Label(policy.LabelTTL, text).Map())
	}
	past := path + ": 2026-12-24 was over at 2026-12-24T00:00:00Z: the Job goes at once; use a later one"
	equal(t, ask(Request{}, "1d"), nil)
	equal(t, ask(Request{}, "2026-12-25"), nil)
	equal(t, ask(Request{}, "2026-12-24"), []string{"warning " + past})
	equal(t, ask(Request{Options: Options{StrictLabels: true}}, "2026-12-24"), []string{"error " + past})
	equal(t, ask(Request{}, "1s"), []string{"warning " + path + `: "1s" is neither a time from creation in m, h, d (90m, 1d12h) nor a date: use one of them (2026-12-24, 2026-12-24T003000Z)`})
	latest := &policy.PlatformPolicy{Name: "year", LatestDate: noon.Add(24 * time.Hour)}
	equal(t, ask(Request{Scope: &policy.Scope{Policies: []*policy.PlatformPolicy{latest}}}, "7d"),
		[]string{"error " + path + `: 7d is after latestDate 2026-12-25 of policy "year": use a date up to then`})
	bounded := &policy.Scope{Namespace: policy.ParseNamespace("ci", annotated("max-ttl", "1d"), nil)}
	equal(t, ask(Request{Scope: bounded}, "2d"), []string{"error " + path + `: 2d is above curfew.dev/max-ttl 1d of namespace "ci": use 1d or less`})
}

func TestPolicyThatOnlyWarns(t *testing.T) {
	outer := &policy.PlatformPolicy{Name: "platform", WarnOnly: true, WarnBelow: time.Hour,
		Bounds: policy.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}
	scope := func() *policy.Scope { return &policy.Scope{Policies: []*policy.PlatformPolicy{outer}} }
	equal(t, judge(bounds, policy.JobProfile, Request{Scope: scope()}, nil, job().TTL(864000).Map()),
		[]string{`warning spec.ttlSecondsAfterFinished: 10d is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`})
	equal(t, judge(shortTTL, policy.JobProfile, Request{Scope: scope()}, nil, job().TTL(600).Map()),
		[]string{"warning spec.ttlSecondsAfterFinished: 10m is under 3600s: the Job may be gone before anyone reads its logs; use 3600s or more"})
	if err := policy.Resolve(policy.FactsOfObject(policy.JobProfile, job().TTL(864000).Map()), scope()).Succeeded.Err; err != nil {
		t.Errorf("a value that was only warned about is kept: %v", err)
	}
}
