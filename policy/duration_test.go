package policy_test

import (
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

const fix = "use seconds (90) or units s, m, h, d, w (1h30m, 7d)"

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]struct {
		is  time.Duration
		err string
	}{
		"0":                     {is: 0},
		"90":                    {is: 90 * time.Second},
		"0090":                  {is: 90 * time.Second},
		"1h30m":                 {is: 90 * time.Minute},
		"1.5h":                  {is: 90 * time.Minute},
		"5.s":                   {is: 5 * time.Second},
		"1.5d":                  {is: 36 * time.Hour},
		"7d":                    {is: 7 * day},
		"2w":                    {is: 14 * day},
		"1w2d3h4m5s":            {is: 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second},
		"2s1m":                  {is: 62 * time.Second},
		"1000000µs":             {is: time.Second},
		"2147483647":            {is: lifetime.MaxDuration},
		"24855d3h14m7s":         {is: lifetime.MaxDuration},
		"":                      {err: "is empty: " + fix},
		"-1h":                   {err: `"-1h" is negative: a duration is 0 or more`},
		"2147483648":            {err: `"2147483648" is too long: at most 2147483647s (68 years)`},
		"2147483647s1s":         {err: `"2147483647s1s" is too long: at most 2147483647s (68 years)`},
		"99999999999999999999d": {err: `"99999999999999999999d" is too long: at most 2147483647s (68 years)`},
		"1.5":                   {err: `"1.5" is not a duration: ` + fix},
		"1h30":                  {err: `"1h30" is not a duration: ` + fix},
		"+5":                    {err: `"+5" is not a duration: ` + fix},
		" 5":                    {err: `" 5" is not a duration: write "5", without spaces`},
		"1h 30m":                {err: `"1h 30m" is not a duration: write "1h30m", without spaces`},
		"1H30m":                 {err: `"1H30m" is not a duration: unit "H" is unknown; ` + fix},
		"1M":                    {err: `"1M" is not a duration: unit "M" is unknown; ` + fix}, // A month, perhaps.
		" ":                     {err: `" " is not a duration: ` + fix},
		"2026-12-24":            {err: `"2026-12-24" is a date, which only label curfew.dev/ttl can hold: ` + fix},
		"2026-12-24T00:30:00Z":  {err: `"2026-12-24T00:30:00Z" is a date, which only label curfew.dev/ttl can hold: ` + fix},
		"2026-13-24":            {err: `"2026-13-24" is not a duration: unit "-" is unknown; ` + fix},
		// No rounding: what does not come out at whole seconds is none.
		"0.0000000000001h":            {err: `"0.0000000000001h" is not a whole number of seconds: ` + fix},
		"1.9999999999s":               {err: `"1.9999999999s" is not a whole number of seconds: ` + fix},
		"0.5ns":                       {err: `"0.5ns" is not a whole number of seconds: ` + fix},
		"1.50000000000000000000000h":  {is: 90 * time.Minute},
		"0.25s0.75s":                  {is: time.Second},
		"0.0000152587890625w":         {err: `"0.0000152587890625w" is not a whole number of seconds: ` + fix}, // 9.228515625s
		strings.Repeat("0", 62) + "1": {is: time.Second},
		strings.Repeat("0", 63) + "1": {err: `"` + strings.Repeat("0", 63) + `1" has more than 63 characters: ` + fix},
		strings.Repeat("1s", 40000):   {err: `"` + strings.Repeat("1s", 31) + `1…" has more than 63 characters: ` + fix},
		strings.Repeat("9", 63):       {err: `"` + strings.Repeat("9", 63) + `" is too long: at most 2147483647s (68 years)`},
		"1h-5m":                       {err: `"1h-5m" is not a duration: unit "h-" is unknown; ` + fix},
		"1.2.3s":                      {err: `"1.2.3s" is not a duration: ` + fix},
		".s":                          {err: `".s" is not a duration: ` + fix},
		"٣s":                          {err: `"٣s" is not a duration: ` + fix},
		"never":                       {err: `"never" is not a duration: ` + fix},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := lifetime.ParseDuration(text)
			if errText(err) != want.err || got != want.is {
				t.Errorf("ParseDuration(%q) = %v, %q; want %v, %q", text, got, errText(err), want.is, want.err)
			}
		})
	}
}

func TestParseTTL(t *testing.T) {
	for text, want := range map[string]struct {
		is  lifetime.TTL
		err string
	}{
		"never":      {is: lifetime.TTL{Never: true}},
		"7d":         {is: lifetime.TTL{After: 7 * 24 * time.Hour}},
		"0":          {},
		"Never":      {err: `"Never" is not a duration: write "never", in lower case and without spaces`},
		"NEVER ":     {err: `"NEVER " is not a duration: write "never", in lower case and without spaces`},
		"nev er":     {err: `"nev er" is not a duration: write "never", in lower case and without spaces`},
		"2026-12-24": {err: `"2026-12-24" is a date, which only label curfew.dev/ttl can hold: ` + fix + ", or never"},
		"":           {err: "is empty: " + fix + ", or never"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := lifetime.ParseTTL(text)
			if errText(err) != want.err || got != want.is {
				t.Errorf("ParseTTL(%q) = %v, %q; want %v, %q", text, got, errText(err), want.is, want.err)
			}
		})
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"", "0", "90", "1h30m", "7d", "2w", "1.5d", "-1", "2147483648", "1h30", "٣s", "µs", "1.9999999999s", "..h", "never"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := lifetime.ParseDuration(text)
		if err != nil {
			if got != 0 {
				t.Fatalf("ParseDuration(%q) = %v beside error %v", text, got, err)
			}
			return
		}
		if got < 0 || got > lifetime.MaxDuration || got%time.Second != 0 {
			t.Fatalf("ParseDuration(%q) = %v: not whole seconds within the bounds", text, got)
		}
		// What Go reads, Curfew reads alike, and exactly.
		if goes, err := time.ParseDuration(text); err == nil && goes != got {
			t.Fatalf("ParseDuration(%q) = %v, Go reads %v", text, got, goes)
		}
		if exact := exactly(text); exact == nil || exact.Cmp(big.NewRat(int64(got/time.Second), 1)) != 0 {
			t.Fatalf("ParseDuration(%q) = %v, and it is %v seconds", text, got, exact)
		}
		again, err := lifetime.ParseDuration(lifetime.FormatDuration(got))
		if err != nil || again != got {
			t.Fatalf("%q is %v; %q is %v, %v", text, got, lifetime.FormatDuration(got), again, err)
		}
	})
}

var parts = regexp.MustCompile(`([0-9.]+)([a-zµμ]*)`)

// exactly is how many seconds a readable text comes to, in fractions of any length.
func exactly(text string) *big.Rat {
	sum := new(big.Rat)
	for _, part := range parts.FindAllStringSubmatch(text, -1) {
		number, ok := new(big.Rat).SetString("0" + part[1])
		unit, known := map[string]int64{"": 1e9, "ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 86400e9, "w": 604800e9}[part[2]]
		if !ok || !known {
			return nil
		}
		sum.Add(sum, number.Mul(number, big.NewRat(unit, 1e9)))
	}
	return sum
}

// S9: a text of any length costs nothing. The old parser copied the rest for each part: this took a
// minute.
func TestLongDurationsCostNothing(t *testing.T) {
	text := strings.Repeat("1s", 1<<20)
	for name, parse := range map[string]func(string) error{
		"duration":      func(text string) error { _, err := lifetime.ParseDuration(text); return err },
		"TTL":           func(text string) error { _, err := lifetime.ParseTTL(text); return err },
		"label":         func(text string) error { _, err := lifetime.ParseTTLLabel(text); return err },
		"Kyverno label": func(text string) error { _, err := lifetime.ParseLabel(wellknown.LabelKyvernoTTL, text); return err },
		"time":          func(text string) error { _, err := lifetime.ParseTime(text); return err },
		"Go duration": func(text string) error {
			profile := &policy.Profile{Deadline: fieldpath.FieldPath{"spec", "timeout"}, DurationDeadline: true}
			return policy.FactsOfObject(profile, map[string]any{"spec": map[string]any{"timeout": text}}).NativeDeadline.Err
		},
	} {
		var err error
		allocated := testing.AllocsPerRun(1, func() { err = parse(text) })
		if err == nil || len(err.Error()) > 300 || allocated > 100 {
			t.Errorf("%s: %.400v after %.0f allocations", name, err, allocated)
		}
	}
	if source := lifetime.ParseSource("namespace/" + text); source != (lifetime.Source{Level: lifetime.LevelObject}) {
		t.Errorf("source: %.100v", source)
	}
	if _, _, ok := resolution.ParseSince(text + "/" + text); ok {
		t.Error("a default-since is read from anything")
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
