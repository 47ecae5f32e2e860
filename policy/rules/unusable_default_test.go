package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func TestUnusableDefault(t *testing.T) {
	run(t, unusableDefault, map[string]row{
		"bound": {object: job().Map(), namespace: annotated("default-ttl", "1d", "max-ttl", "?"),
			want: []string{"warning no default from " + at("default-ttl") + ` of namespace "ci": curfew.dev/max-ttl of namespace "ci" cannot be read: "?" is not a duration: ` + durations}},
		"unrelated update": {old: job().Map(), object: job().Label("a", "b").Map(), namespace: annotated("default-ttl", "soon")},
		"owned":            {object: job().ControlledBy("example.com/v1", "Flow", "x").Map(), namespace: annotated("default-ttl", "soon")},
	})
}

// A policy whose date went stale gives no label. Without the warning no user would see that.
func TestUnusableDefaultLabel(t *testing.T) {
	old := &resolution.PlatformPolicy{Name: "year", LatestDate: noon.Add(-time.Hour),
		Label: &lifetime.Setting{Path: "spec.defaults.ttlLabel.value", Text: "7d", Source: lifetime.Source{Level: lifetime.LevelPolicy, Name: "year"}}}
	request := Request{Now: noon, Scope: &resolution.Scope{Creating: true, Policies: []*resolution.PlatformPolicy{old}}}
	equal(t, judge(unusableDefault, policy.JobProfile, request, nil, job().Map()),
		[]string{`warning no TTL label from spec.defaults.ttlLabel.value of policy "year": latestDate 2026-12-24 of policy "year" is over: raise it`})
	equal(t, judge(unusableDefault, policy.JobProfile, request, nil, job().Label(wellknown.LabelTTL, "1h").Map()), nil)
}
