package preview

import (
	"strings"
	"testing"
)

// A missing or misspelt field of a test is an error: the test would pass without checking anything.
func TestParseCase(t *testing.T) {
	const whole = "apiVersion: cli.curfew.dev/v1alpha1\nkind: CleanupTest\npolicies: [a]\nmanifests: [b]\nnow: 2026-12-24T01:00:00Z\n"
	for name, c := range map[string]struct{ text, err string }{
		"whole":               {whole + "expect: {deleted: []}", ""},
		"misspelt":            {whole + "expects: {deleted: []}", `unknown field "expects"`},
		"nothing":             {"kind: CleanupTest", "manifests, now, policies is missing"},
		"stalled and deletes": {whole + "expect: {stalled: TooManyMatches, deleted: [{kind: Job, name: a}]}", "a run that is stalled deletes nothing"},
		"twice":               {whole + "now: 2026-12-24T01:00:00Z", "already set in map"},
	} {
		_, err := ParseCase([]byte(c.text))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}
