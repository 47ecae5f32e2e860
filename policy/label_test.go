package policy_test

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestParseTTLLabel(t *testing.T) {
	form := ` is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`
	for text, want := range map[string]string{
		"1m": "1m", "90m": "1h30m", "1d12h": "1d12h", "24h": "1d", "12h1d": "1d12h", "24855d": "24855d", "24855d3h14m": "24855d3h14m",
		"2026-12-24": "2026-12-24", "2026-12-24T003000Z": "2026-12-24T003000Z", "2026-12-24T000000Z": "2026-12-24",
		"1970-01-02": "1970-01-02", "1970-01-01T000001Z": "1970-01-01T000001Z", "1970-01-01": `"1970-01-01" is not after 1970-01-01: use a later date`,
		"1970-01-01T000000Z": `"1970-01-01T000000Z" is not after 1970-01-01: use a later date`, "1969-12-31": `"1969-12-31" is not after 1970-01-01: use a later date`,
		"30s": "30s", "90": "1m30s", "0": "0s", "0m": "0s", "1.5h": "1h30m", "1w": "7d", "2000ms": "2s",
		"1500ms": `"1500ms" is not a whole number of seconds: ` + fix, "24856d": `"24856d" is too long: at most 2147483647s (68 years)`,
		"9999999999d9999999999d": `"9999999999d9999999999d" is too long: at most 2147483647s (68 years)`,
		"1H":                     `"1H" is not a duration: unit "H" is unknown; ` + fix, "1M": `"1M" is not a duration: unit "M" is unknown; ` + fix, "1y": `"1y"` + form, "2026-12-24T00:30:00Z": `"2026-12-24T00:30:00Z"` + form,
		strings.Repeat("1h", 40): `"` + strings.Repeat("1h", 31) + `1…" has more than 63 characters: ` + fix,
		"":                       `""` + form, "never": `"never"` + form, "-1h": `"-1h" is negative: a duration is 0 or more`,
		"h": `"h"` + form, "1h30": `"1h30"` + form, "2026-13-24": `"2026-13-24"` + form,
		"99999999999d": `"99999999999d" is too long: at most 2147483647s (68 years)`,
	} {
		label, err := lifetime.ParseTTLLabel(text)
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
	bound := func(text string) *lifetime.Setting {
		ttl, err := lifetime.ParseTTL(text)
		return &lifetime.Setting{Path: "spec.bounds.maxTTLLabel", Text: text, TTL: ttl, Err: err}
	}
	label := func(text string) *lifetime.Setting {
		return &lifetime.Setting{Path: "spec.defaults.ttlLabel", Text: text}
	}
	for name, row := range map[string]struct {
		labels   []string
		policies []*resolution.PlatformPolicy
		want     string
		err      string
	}{
		"no policy":            {},
		"first that speaks":    {policies: []*resolution.PlatformPolicy{{}, {Label: label("2d")}, {Label: label("1h")}}, want: "2d"},
		"has one":              {labels: []string{wellknown.LabelTTL, "1h"}, policies: []*resolution.PlatformPolicy{{Label: label("2d")}}},
		"has the alias":        {labels: []string{wellknown.LabelKyvernoTTL, "1h"}, policies: []*resolution.PlatformPolicy{{Label: label("2d")}}},
		"unreadable":           {policies: []*resolution.PlatformPolicy{{Label: label("soon")}}, err: `"soon" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`},
		"clamped down":         {policies: []*resolution.PlatformPolicy{{Label: label("2d"), Bounds: lifetime.Bounds{Label: lifetime.Range{Max: bound("90s")}}}}, want: "1m30s"},
		"clamped up":           {policies: []*resolution.PlatformPolicy{{Label: label("1h"), Bounds: lifetime.Bounds{Label: lifetime.Range{Min: bound("7201s")}}}}, want: "2h1s"},
		"latest date":          {policies: []*resolution.PlatformPolicy{{Label: label("90d"), LatestDate: latest}}, want: "2026-12-24T235959Z"},
		"latest date is over":  {policies: []*resolution.PlatformPolicy{{Name: "old", Label: label("90d"), LatestDate: now.Add(-time.Hour)}}, err: `latestDate 2026-12-01 of policy "old" is over: raise it`},
		"latest date is now":   {policies: []*resolution.PlatformPolicy{{Name: "old", Label: label("90d"), LatestDate: now.Add(30 * time.Second)}}, err: `latestDate 2026-12-01 of policy "old" is over: raise it`},
		"its date is over":     {policies: []*resolution.PlatformPolicy{{Label: label("2026-11-30")}}, err: "2026-11-30 is over: use a later date"},
		"its instant is now":   {policies: []*resolution.PlatformPolicy{{Label: label("2026-12-01T100000Z")}}, err: "2026-12-01T100000Z is over: use a later date"},
		"less than a minute":   {policies: []*resolution.PlatformPolicy{{Label: label("2d"), Bounds: lifetime.Bounds{Label: lifetime.Range{Max: bound("30s")}}}}, want: "30s"},
		"short by itself":      {policies: []*resolution.PlatformPolicy{{Label: label("30s")}}, want: "30s"},
		"over at once":         {policies: []*resolution.PlatformPolicy{{Label: label("0s")}}, err: "0s is over at once: use a longer duration"},
		"no second is allowed": {policies: []*resolution.PlatformPolicy{{Label: label("2d"), Bounds: lifetime.Bounds{Label: lifetime.Range{Max: bound("0")}}}}, err: "0s is over at once: use a longer duration"},
		"bound unreadable":     {policies: []*resolution.PlatformPolicy{{Label: label("2d"), Bounds: lifetime.Bounds{Label: lifetime.Range{Max: bound("long")}}}}, err: `maxTTLLabel cannot be read: "long" is not a duration: ` + fix + ", or never"},
		"owned":                {labels: []string{wellknown.LabelMultiKueueOrigin, "x"}, policies: []*resolution.PlatformPolicy{{Label: label("2d")}}},
	} {
		job := builders.MakeJob("ci", "a")
		for i := 0; i+1 < len(row.labels); i += 2 {
			job.Label(row.labels[i], row.labels[i+1])
		}
		facts := policy.FactsOfObject(policy.JobProfile, job.Map())
		got, setting := resolution.DefaultLabel(facts, &resolution.Scope{Policies: row.policies}, now)
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
		if text := errorText(setting); text != row.err {
			t.Errorf("%s: error %q, want %q", name, text, row.err)
		}
	}
}

func errorText(setting *lifetime.Setting) string {
	if setting == nil || setting.Err == nil {
		return ""
	}
	return setting.Err.Error()
}

// What a policy gives at one moment is refused at none of those that follow: the webhooks read the
// clock one after the other.
func TestDefaultLabelIsNotRefusedAMomentLater(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	minute := &lifetime.Setting{Path: "spec.bounds.minTTLLabel", Text: "1h", TTL: lifetime.TTL{After: time.Hour}}
	for offset := -time.Minute; offset <= 3*time.Minute; offset += time.Second {
		for _, given := range []*resolution.PlatformPolicy{
			{Label: &lifetime.Setting{Text: "1h"}, LatestDate: now.Add(time.Hour + offset)},
			{Label: &lifetime.Setting{Text: lifetime.TTLLabel{At: now.Add(time.Hour + offset)}.String()}, Bounds: lifetime.Bounds{Label: lifetime.Range{Min: minute}}},
		} {
			scope := &resolution.Scope{Policies: []*resolution.PlatformPolicy{given}}
			text, _ := resolution.DefaultLabel(policy.FactsOfObject(policy.JobProfile, builders.MakeJob("ci", "a").Map()), scope, now)
			if text == "" {
				continue
			}
			label, err := lifetime.ParseTTLLabel(text)
			if err == nil {
				err = scope.CheckLabel(label, now.Add(3*time.Second), resolution.EnforcedBounds)
			}
			if err != nil {
				t.Errorf("offset %s: %v", offset, err)
			}
		}
	}
}

func TestCheckLabel(t *testing.T) {
	created := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	warns := &resolution.PlatformPolicy{Name: "soft", Mode: resolution.ModeWarn, LatestDate: created.Add(24 * time.Hour),
		Bounds: lifetime.Bounds{Label: lifetime.Range{Max: &lifetime.Setting{Path: "spec.bounds.maxTTLLabel", TTL: lifetime.TTL{After: time.Hour}}}}}
	scope := &resolution.Scope{Policies: []*resolution.PlatformPolicy{warns}}
	label, err := lifetime.ParseTTLLabel("2d")
	if err != nil {
		t.Fatal(err)
	}
	if err := scope.CheckLabel(label, created, resolution.EnforcedBounds); err != nil {
		t.Errorf("a policy that only warns refuses: %v", err)
	}
	if err := scope.CheckLabel(label, created, resolution.AllBounds); err == nil || err.Error() != "2d is above maxTTLLabel 1h: use 1h or less" {
		t.Errorf("bounds: %v", err)
	}
	// The bounds of TTLs after finished are others.
	setting := &lifetime.Setting{Path: "spec.bounds.maxTTL", TTL: lifetime.TTL{After: time.Hour}}
	apart := &resolution.Scope{Policies: []*resolution.PlatformPolicy{{Bounds: lifetime.Bounds{TTL: lifetime.Range{Max: setting}}}}}
	if err := apart.CheckLabel(label, created, resolution.EnforcedBounds); err != nil {
		t.Errorf("the bound of a TTL after finished: %v", err)
	}
	apart.Policies[0].Bounds = lifetime.Bounds{Label: lifetime.Range{Max: setting}}
	if err := apart.Bounds(resolution.EnforcedBounds).CheckTTL(lifetime.TTL{After: 48 * time.Hour}); err != nil {
		t.Errorf("the bound of a label: %v", err)
	}
	apart = &resolution.Scope{Namespace: namespaceOf("max-ttl", "1h")}
	if err := apart.CheckLabel(label, created, resolution.EnforcedBounds); err == nil || err.Error() != `2d is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less` {
		t.Errorf("the bound of a namespace, which is for both: %v", err)
	}
	warns.Bounds = lifetime.Bounds{}
	if err := scope.CheckLabel(label, created, resolution.AllBounds); err == nil || err.Error() != `2d is after latestDate 2026-12-02 of policy "soft": use a date up to then` {
		t.Errorf("latest date: %v", err)
	}
}

// FuzzParseTTLLabel shows that what can be read is a date or a duration as anywhere else, and is
// written as something that reads the same.
func FuzzParseTTLLabel(f *testing.F) {
	for _, seed := range []string{"", "1m", "90m", "1d12h", "59s", "0m", "2026-12-24", "2026-12-24T003000Z", "2026-12-24T00:30:00Z", "2026-02-30",
		"2026-12-24T003000.5Z", "0001-01-01", "9999-12-31", "24855d", "24856d", "99999999999d", "1w", "-1m", "1.5d", "٣m", "never"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := lifetime.ParseTTLLabel(text)
		if err != nil {
			if got != (lifetime.TTLLabel{}) {
				t.Fatalf("ParseTTLLabel(%q) = %v beside error %v", text, got, err)
			}
			return
		}
		if !got.At.IsZero() && got.After != 0 {
			t.Fatalf("ParseTTLLabel(%q) = %+v: both a time from creation and an instant", text, got)
		}
		// One grammar: any text that is no date is read as a duration.
		if after, err := lifetime.ParseDuration(text); got.At.IsZero() && (err != nil || after != got.After) {
			t.Fatalf("ParseTTLLabel(%q) = %v, ParseDuration has %v, %v", text, got.After, after, err)
		}
		again, err := lifetime.ParseTTLLabel(got.String())
		if err != nil || again != got {
			t.Fatalf("%q is %+v; %q is %+v, %v", text, got, got, again, err)
		}
	})
}
