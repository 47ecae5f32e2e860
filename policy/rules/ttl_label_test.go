package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func TestTTLLabel(t *testing.T) {
	path := "metadata.labels[curfew.dev/ttl]"
	ask := func(request Request, text string) []string {
		request.Now = noon
		return judge(ttlLabel, policy.JobProfile, request, nil, job().Label(wellknown.LabelTTL, text).Map())
	}
	equal(t, ask(Request{}, "1d"), nil)
	equal(t, ask(Request{}, "2026-12-25"), nil)
	equal(t, ask(Request{}, "2026-12-24"), nil)
	equal(t, ask(Request{Options: Options{StrictLabels: true}}, "1y"), []string{"error " + path + `: "1y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`})
	equal(t, ask(Request{}, "1y"), []string{"warning " + path + `: "1y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`})
	latest := &resolution.PlatformPolicy{Name: "year", LatestDate: noon.Add(24 * time.Hour)}
	equal(t, ask(Request{Scope: &resolution.Scope{Policies: []*resolution.PlatformPolicy{latest}}}, "7d"),
		[]string{"error " + path + `: 7d is after latestDate 2026-12-25 of policy "year": use a date up to then`})
	bounded := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "1d"), nil)}
	equal(t, ask(Request{Scope: bounded}, "2d"), []string{"error " + path + `: 2d is above curfew.dev/max-ttl 1d of namespace "ci": use 1d or less`})
	equal(t, ask(Request{Scope: bounded}, "2026-12-26"), []string{"error " + path + `: 2026-12-26 is above curfew.dev/max-ttl 1d of namespace "ci": use 2026-12-25T120000Z or earlier`})
	equal(t, ask(Request{Scope: bounded}, "2026-12-25T120000Z"), nil)
	longer := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("min-ttl", "1d"), nil)}
	equal(t, ask(Request{Scope: longer}, "2026-12-25"), []string{"error " + path + `: 2026-12-25 is below curfew.dev/min-ttl 1d of namespace "ci": use a later date`})
	equal(t, ask(Request{Scope: longer}, "2020-01-01"), []string{"error " + path + `: 2020-01-01 is in the past: use a later date`})
	latest.Mode = resolution.ModeWarn
	equal(t, ask(Request{Scope: &resolution.Scope{Policies: []*resolution.PlatformPolicy{latest}}}, "7d"),
		[]string{"warning " + path + `: 7d is after latestDate 2026-12-25 of policy "year": use a date up to then`})

	alias := func(options Options, labels ...string) []string {
		wrapper := job()
		for i := 0; i < len(labels); i += 2 {
			wrapper.Label(labels[i], labels[i+1])
		}
		return judge(ttlLabel, policy.JobProfile, Request{Now: noon, Options: options, Scope: bounded}, nil, wrapper.Map())
	}
	understood := Options{KyvernoLabel: true}
	equal(t, alias(Options{}, wellknown.LabelKyvernoTTL, "2d"), nil)
	equal(t, alias(understood, wellknown.LabelKyvernoTTL, "1d"), nil)
	equal(t, alias(understood, wellknown.LabelKyvernoTTL, "2d"), []string{`error metadata.labels[cleanup.kyverno.io/ttl]: 2d is above curfew.dev/max-ttl 1d of namespace "ci": use 1d or less`})
	equal(t, alias(understood, wellknown.LabelKyvernoTTL, "2d", wellknown.LabelTTL, "1d"), nil)
}

// A label that is expired and outside the bounds is denied for the latter: the controller keeps
// the object, and a past date is no way around min-ttl.
func TestExpiredTTLLabelOutsideTheBounds(t *testing.T) {
	path := "metadata.labels[curfew.dev/ttl]"
	old := job().Created(noon.Add(-2 * time.Hour))
	for name, test := range map[string]struct {
		namespace       map[string]string
		label           string
		bounds, expired []string
	}{
		"a date below min-ttl": {annotated("min-ttl", "3h"), "2026-12-24", []string{"error " + path + `: 2026-12-24 is in the past: use a later date`}, nil},
		"a time below min-ttl": {annotated("min-ttl", "3h"), "1h", []string{"error " + path + `: 1h is below curfew.dev/min-ttl 3h of namespace "ci": use 3h or more`}, nil},
		"a bound that cannot be read": {annotated("min-ttl", "?"), "1h", []string{"warning " + path + `: cannot be checked, so the object will be kept: ` +
			`curfew.dev/min-ttl of namespace "ci" cannot be read: "?" is not a duration: ` + durations}, nil},
		"within": {annotated("min-ttl", "1h"), "1h", nil, []string{"error " + path + ": 1h expired at 2026-12-24T11:00:00Z: Curfew would delete the Job at once; " + laterOrNow}},
	} {
		t.Run(name, func(t *testing.T) {
			request := Request{Now: noon, Scope: &resolution.Scope{Namespace: resolution.ParseNamespace("ci", test.namespace, nil)}}
			labelled := job().Created(noon.Add(-2*time.Hour)).Label(wellknown.LabelTTL, test.label).Map()
			equal(t, judge(ttlLabel, policy.JobProfile, request, old.Map(), labelled), test.bounds)
			equal(t, judge(expiredLabel, policy.JobProfile, request, old.Map(), labelled), test.expired)
			// As the controller has it.
			verdict := judging.JudgeLabel(policy.FactsOfObject(policy.JobProfile, labelled), wellknown.LabelTTL, request.Scope, noon)
			if deleted := name == "within"; deleted != (verdict.Action == policy.Delete) {
				t.Errorf("the controller: %+v", verdict)
			}
		})
	}
}
