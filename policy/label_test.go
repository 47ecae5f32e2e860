package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestParseTTLLabel(t *testing.T) {
	form := ` is neither a time from creation in m, h, d (90m, 1d12h) nor a date: use one of them (2026-12-24, 2026-12-24T003000Z)`
	for text, want := range map[string]string{
		"1m": "1m", "90m": "1h30m", "1d12h": "1d12h", "24h": "1d", "12h1d": "1d12h", "24855d": "24855d", "24855d3h14m": "24855d3h14m",
		"2026-12-24": "2026-12-24", "2026-12-24T003000Z": "2026-12-24T003000Z", "2026-12-24T000000Z": "2026-12-24",
		"0m": `"0m" is below 1m: use 1m or more`, "24856d": `"24856d" is too long: use 24855d3h14m or less, or leave the label out`,
		"9999999999d9999999999d": `"9999999999d9999999999d" is too long: use 24855d3h14m or less, or leave the label out`,
		"":                       `""` + form, "never": `"never"` + form, "60": `"60"` + form, "60s": `"60s"` + form, "-1h": `"-1h"` + form,
		"h": `"h"` + form, "1h30": `"1h30"` + form, "1w": `"1w"` + form, "2026-13-24": `"2026-13-24"` + form,
		"99999999999d": `"99999999999d"` + form,
	} {
		label, err := policy.ParseTTLLabel(text)
		got := label.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestDefaultLabel(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	latest := time.Date(2026, 12, 24, 23, 59, 59, 0, time.UTC)
	bound := func(text string) *policy.Setting {
		ttl, err := policy.ParseTTL(text)
		return &policy.Setting{Path: "spec.bounds.maxTTL", Text: text, TTL: ttl, Err: err}
	}
	label := func(text string) *policy.Setting { return &policy.Setting{Path: "spec.defaults.ttlLabel", Text: text} }
	for name, row := range map[string]struct {
		labels   []string
		policies []*policy.PlatformPolicy
		want     string
	}{
		"no policy":         {},
		"first that speaks": {policies: []*policy.PlatformPolicy{{}, {Label: label("2d")}, {Label: label("1h")}}, want: "2d"},
		"has one":           {labels: []string{policy.LabelTTL, "1h"}, policies: []*policy.PlatformPolicy{{Label: label("2d")}}},
		"unreadable":        {policies: []*policy.PlatformPolicy{{Label: label("soon")}}},
		"clamped down":      {policies: []*policy.PlatformPolicy{{Label: label("2d"), Bounds: policy.Bounds{MaxTTL: bound("90s")}}}, want: "1m"},
		"clamped up":        {policies: []*policy.PlatformPolicy{{Label: label("1h"), Bounds: policy.Bounds{MinTTL: bound("7201s")}}}, want: "2h1m"},
		"latest date":       {policies: []*policy.PlatformPolicy{{Label: label("90d"), LatestDate: latest}}, want: "2026-12-24T235959Z"},
		"owned":             {labels: []string{policy.LabelMultiKueueOrigin, "x"}, policies: []*policy.PlatformPolicy{{Label: label("2d")}}},
	} {
		job := builders.MakeJob("ci", "a")
		for i := 0; i+1 < len(row.labels); i += 2 {
			job.Label(row.labels[i], row.labels[i+1])
		}
		facts := policy.FactsOfObject(policy.JobProfile, job.Map())
		if got, _ := policy.DefaultLabel(facts, &policy.Scope{Policies: row.policies}, now); got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}
