package policy_test

import (
	"strings"
	"testing"

	"curfew.dev/curfew/policy/quote"
)

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		strings.Repeat("a", 64):              strings.Repeat("a", 64),
		strings.Repeat("a", 65):              strings.Repeat("a", 63) + "…",
		strings.Repeat("ä", 64):              strings.Repeat("ä", 64),
		strings.Repeat("ä", 65):              strings.Repeat("ä", 63) + "…",
		strings.Repeat("a", 1<<20):           strings.Repeat("a", 63) + "…",
		strings.Repeat("\xff", 64):           strings.Repeat("\xff", 64),
		strings.Repeat("a", 63) + "\xff":     strings.Repeat("a", 63) + "\xff",
		strings.Repeat("a", 62) + "€€" + "b": strings.Repeat("a", 62) + "€…",
	} {
		if got := quote.Shorten(text); got != want {
			t.Errorf("Shorten(%.80q) = %q, want %q", text, got, want)
		}
	}
}
