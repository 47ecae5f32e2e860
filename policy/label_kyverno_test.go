package policy_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

func TestParseKyvernoLabel(t *testing.T) {
	form := ` is neither a duration nor a date that Kyverno reads: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`
	for text, want := range map[string]string{
		"30s": "30s", "1.5h": "1h30m", "1w": "7d", "1d12h": "1d12h", "2days": "2d", "3hrs": "3h", "0": "0s", "2m": "2m",
		"2026-12-24": "2026-12-24", "2026-12-24T003000Z": "2026-12-24T003000Z",
		"90": `"90"` + form, "": `""` + form, "soon": `"soon"` + form, "1D": `"1D"` + form, "1.5d": `"1.5d"` + form, "1d.5h": `"1d.5h"` + form,
		"1500ms": `"1500ms" is not a whole number of seconds: ` + fix, "1970-01-01": `"1970-01-01" is not after 1970-01-01: use a later date`,
		"4000w": `"4000w" is too long: at most 2147483647s (68 years)`, strings.Repeat("1h", 40): `"` + strings.Repeat("1h", 31) + `1…" has more than 63 characters: ` + fix,
	} {
		label, err := lifetime.ParseLabel(wellknown.LabelKyvernoTTL, text)
		got := label.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzParseKyvernoLabel shows that Curfew never reads another duration in Kyverno's label than
// Kyverno does.
func FuzzParseKyvernoLabel(f *testing.F) {
	for _, seed := range []string{"", "0", "1m", "1.5h", "1.5d", "1d12h", "2days", "1D", "2weeks3d", "-1h", "+1h", ".5h", "1h.5d", "2026-12-24", "1500ms"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		label, err := lifetime.ParseLabel(wellknown.LabelKyvernoTTL, text)
		if err != nil || !label.At.IsZero() {
			return
		}
		if theirs, err := strfmt.ParseDuration(text); err != nil || theirs != label.After {
			t.Fatalf("%q: Kyverno has %v, %v; Curfew %v", text, theirs, err, label.After)
		}
		if label.After%time.Second != 0 {
			t.Fatalf("%q is read as %v, want whole seconds", text, label.After)
		}
	})
}
