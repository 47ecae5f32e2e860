package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestBounds(t *testing.T) {
	outer := &policy.PlatformPolicy{Name: "platform", Bounds: policy.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}
	run(t, bounds, map[string]row{
		"no bounds": {object: job().TTL(5).Map()},
		"within":    {object: job().TTL(3600).Map(), namespace: annotated("min-ttl", "1h", "max-ttl", "1h")},
		"below": {object: job().TTL(5).Map(), namespace: annotated("min-ttl", "1h"),
			want: []string{`error spec.ttlSecondsAfterFinished: 5s is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`}},
		"above": {object: job().TTL(7200).Map(), namespace: annotated("max-ttl", "1h"),
			want: []string{`error spec.ttlSecondsAfterFinished: 2h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"never": {object: job().Annotation(policy.AnnotationTTL, "never").Map(), namespace: annotated("max-ttl", "1h"),
			want: []string{"error " + at("ttl-after-finished") + `: never is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"each outcome": {object: pod().Annotation(policy.AnnotationTTLSucceeded, "2h").Annotation(policy.AnnotationTTLFailed, "3h").Map(),
			namespace: annotated("max-ttl", "1h"),
			want: []string{
				"error " + at("ttl-after-succeeded") + `: 2h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`,
				"error " + at("ttl-after-failed") + `: 3h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`,
			}},
		"deadline": {object: job().Deadline(5).Map(), namespace: annotated("min-deadline", "1m"),
			want: []string{`error spec.activeDeadlineSeconds: 5s is below curfew.dev/min-deadline 1m of namespace "ci": use 1m or more`}},
		"in a CronJob's template": {object: builders.MakeCronJob("ci", "a").TTL(7200).Map(), namespace: annotated("max-ttl", "1h"),
			want: []string{`error spec.jobTemplate.spec.ttlSecondsAfterFinished: 2h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"the platform's, which the namespace cannot widen": {object: job().TTL(172800).Map(), namespace: annotated("max-ttl", "3d"),
			policies: []*policy.PlatformPolicy{outer},
			want:     []string{`error spec.ttlSecondsAfterFinished: 2d is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`}},
		"a bound that cannot be read refuses nobody": {object: job().TTL(5).Map(), namespace: annotated("max-ttl", "?"),
			want: []string{`warning spec.ttlSecondsAfterFinished: cannot be checked, so the object will be kept: ` +
				`curfew.dev/max-ttl of namespace "ci" cannot be read: "?" is not a duration: ` + durations}},
		"the minute of a CronJob's Job": {object: job().ControlledBy("batch/v1", "CronJob", "n").TTL(60).Map(), namespace: annotated("max-ttl", "30")},
		"unchanged":                     {old: job().TTL(5).Map(), object: job().TTL(5).Label("a", "b").Map(), namespace: annotated("min-ttl", "1h")},
		"changed, still outside": {old: job().TTL(5).Map(), object: job().TTL(6).Map(), namespace: annotated("min-ttl", "1h"),
			want: []string{`error spec.ttlSecondsAfterFinished: 6s is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`}},
		"an unreadable value is another rule's": {object: job().Annotation(policy.AnnotationTTL, "?").Map(), namespace: annotated("max-ttl", "1h")},
	})
}

// What breaks only the bounds of a policy with action Warn passes, and is not kept by the controller either.
func TestPolicyThatOnlyWarns(t *testing.T) {
	outer := &policy.PlatformPolicy{Name: "platform", WarnOnly: true, Bounds: policy.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}
	scope := func() *policy.Scope { return &policy.Scope{Policies: []*policy.PlatformPolicy{outer}} }
	equal(t, judge(bounds, policy.JobProfile, Request{Scope: scope()}, nil, job().TTL(864000).Map()),
		[]string{`warning spec.ttlSecondsAfterFinished: 10d is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`})
	if err := policy.Resolve(policy.FactsOfObject(policy.JobProfile, job().TTL(864000).Map()), scope()).Succeeded.Err; err != nil {
		t.Errorf("a value that was only warned about is kept: %v", err)
	}
}

// A TTL that has no effect is told so, and nothing else.
func TestBoundsOfWhatNeverFinishes(t *testing.T) {
	cronJob := builders.MakeCronJob("ci", "a").Annotation(policy.AnnotationTTL, "9d").Map()
	equal(t, judge(bounds, policy.CronJobProfile, Request{Scope: &policy.Scope{Namespace: policy.ParseNamespace("ci", annotated("max-ttl", "1d"), nil)}}, nil, cronJob), nil)
}

func TestBoundsOfDurationDeadline(t *testing.T) {
	with := func(timeout any) map[string]any { return object("PipelineRun", map[string]any{"timeout": timeout}) }
	request := func() Request {
		return Request{Scope: &policy.Scope{Namespace: policy.ParseNamespace("ci", annotated("max-deadline", "2h"), nil)}}
	}
	equal(t, judge(bounds, pipelineRun, request(), nil, with("90m")), nil)
	equal(t, judge(bounds, pipelineRun, request(), nil, with("3h0m0s")),
		[]string{`error spec.timeout: 3h is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`})
	equal(t, judge(bounds, pipelineRun, request(), nil, with("0")),
		[]string{`error spec.timeout: no deadline is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`})
}
