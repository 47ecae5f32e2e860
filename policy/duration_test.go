package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
)

const fix = "use seconds (90) or units s, m, h, d, w (1h30m, 7d)"

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]struct {
		is  time.Duration
		err string
	}{
		"0":                           {is: 0},
		"0s":                          {is: 0},
		"90":                          {is: 90 * time.Second},
		"0090":                        {is: 90 * time.Second},
		"90s":                         {is: 90 * time.Second},
		"1h30m":                       {is: 90 * time.Minute},
		"1.5h":                        {is: 90 * time.Minute},
		"0.5m":                        {is: 30 * time.Second},
		"5.s":                         {is: 5 * time.Second},
		"1.5d":                        {is: 36 * time.Hour},
		"0.5w":                        {is: 84 * time.Hour},
		"7d":                          {is: 7 * day},
		"2w":                          {is: 14 * day},
		"1w2d3h4m5s":                  {is: 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second},
		"1d12h":                       {is: 36 * time.Hour},
		"2s1m":                        {is: 62 * time.Second},
		"2000ms":                      {is: 2 * time.Second},
		"1000000us":                   {is: time.Second},
		"1000000µs":                   {is: time.Second},
		"1000000μs":                   {is: time.Second},
		"2147483647":                  {is: policy.MaxDuration},
		"2147483647s":                 {is: policy.MaxDuration},
		"24855d3h14m7s":               {is: policy.MaxDuration},
		"":                            {err: "is empty: " + fix},
		"-1":                          {err: `"-1" is negative: a duration is 0 or more`},
		"-1h":                         {err: `"-1h" is negative: a duration is 0 or more`},
		"2147483648":                  {err: `"2147483648" is too long: at most 2147483647s (68 years) fit the native fields`},
		"2147483647s1s":               {err: `"2147483647s1s" is too long: at most 2147483647s (68 years) fit the native fields`},
		"24856d":                      {err: `"24856d" is too long: at most 2147483647s (68 years) fit the native fields`},
		"3551w":                       {err: `"3551w" is too long: at most 2147483647s (68 years) fit the native fields`},
		"99999999999999999999":        {err: `"99999999999999999999" is too long: at most 2147483647s (68 years) fit the native fields`},
		"99999999999999999999d":       {err: `"99999999999999999999d" is too long: at most 2147483647s (68 years) fit the native fields`},
		"18446744073709551615":        {err: `"18446744073709551615" is too long: at most 2147483647s (68 years) fit the native fields`},
		"1.5":                         {err: `"1.5" is not a duration: ` + fix},
		"soon":                        {err: `"soon" is not a duration: ` + fix},
		"1h30":                        {err: `"1h30" is not a duration: ` + fix},
		"+5":                          {err: `"+5" is not a duration: ` + fix},
		" 5":                          {err: `" 5" is not a duration: ` + fix},
		"1h-5m":                       {err: `"1h-5m" is not a duration: unit "h-" is unknown; ` + fix},
		"5 s":                         {err: `"5 s" is not a duration: unit " s" is unknown; ` + fix},
		"1y":                          {err: `"1y" is not a duration: unit "y" is unknown; ` + fix},
		"1H":                          {err: `"1H" is not a duration: unit "H" is unknown; ` + fix},
		"1.2.3s":                      {err: `"1.2.3s" is not a duration: "1.2.3" is not a number; ` + fix},
		".s":                          {err: `".s" is not a duration: "." is not a number; ` + fix},
		"٣s":                          {err: `"٣s" is not a duration: ` + fix},
		"never":                       {err: `"never" is not a duration: ` + fix},
		"500ms":                       {err: `"500ms" is not a whole number of seconds: ` + fix},
		"1.5s":                        {err: `"1.5s" is not a whole number of seconds: ` + fix},
		"true":                        {err: `"true" is not a duration: ` + fix},
		"1e3":                         {err: `"1e3" is not a duration: unit "e" is unknown; ` + fix},
		"10000000000000000000000000m": {err: `"10000000000000000000000000m" is too long: at most 2147483647s (68 years) fit the native fields`},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := policy.ParseDuration(text)
			if errText(err) != want.err || got != want.is {
				t.Errorf("ParseDuration(%q) = %v, %q; want %v, %q", text, got, errText(err), want.is, want.err)
			}
		})
	}
}

func TestParseTTL(t *testing.T) {
	for text, want := range map[string]struct {
		is  policy.TTL
		err string
	}{
		"never": {is: policy.TTL{Never: true}},
		"7d":    {is: policy.TTL{After: 7 * 24 * time.Hour}},
		"0":     {},
		"Never": {err: `"Never" is not a duration: ` + fix + ", or never"},
		"":      {err: "is empty: " + fix + ", or never"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := policy.ParseTTL(text)
			if errText(err) != want.err || got != want.is {
				t.Errorf("ParseTTL(%q) = %v, %q; want %v, %q", text, got, errText(err), want.is, want.err)
			}
		})
	}
}

func TestFormatDuration(t *testing.T) {
	for want, is := range map[string]time.Duration{
		"0s":            0,
		"1m30s":         90 * time.Second,
		"1h":            time.Hour,
		"1d":            24 * time.Hour,
		"14d":           14 * 24 * time.Hour,
		"1d1s":          24*time.Hour + time.Second,
		"24855d3h14m7s": policy.MaxDuration,
	} {
		if got := policy.FormatDuration(is); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", is, got, want)
		}
	}
	if got := policy.FormatDuration(400 * time.Millisecond); got != "0s" {
		t.Errorf("FormatDuration(400ms) = %q, want 0s", got)
	}
	if got := policy.FormatSeconds(24 * time.Hour); got != "86400 (1d)" {
		t.Errorf("FormatSeconds(1d) = %q", got)
	}
}

func TestTTLString(t *testing.T) {
	if got := (policy.TTL{Never: true}).String(); got != "never" {
		t.Errorf("got %q, want never", got)
	}
	if got := (policy.TTL{After: time.Hour}); got.String() != "1h" || got.Seconds() != 3600 {
		t.Errorf("got %q, %d", got, got.Seconds())
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"", "0", "90", "1h30m", "7d", "2w", "1.5d", "-1", "2147483648", "1h30", "٣s", "µs", "1.9999999999s", "..h", "never"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := policy.ParseDuration(text)
		if err != nil {
			if got != 0 {
				t.Fatalf("ParseDuration(%q) = %v beside error %v", text, got, err)
			}
			return
		}
		if got < 0 || got > policy.MaxDuration || got%time.Second != 0 {
			t.Fatalf("ParseDuration(%q) = %v: not whole seconds within the bounds", text, got)
		}
		// What Go reads, Curfew reads alike.
		if goes, err := time.ParseDuration(text); err == nil && goes != got {
			t.Fatalf("ParseDuration(%q) = %v, Go reads %v", text, got, goes)
		}
		again, err := policy.ParseDuration(policy.FormatDuration(got))
		if err != nil || again != got {
			t.Fatalf("%q is %v; %q is %v, %v", text, got, policy.FormatDuration(got), again, err)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
