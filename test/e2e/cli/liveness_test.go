package cli

import (
	"strings"
	"testing"
)

// TestNothingIsInstalled: the same cluster before Curfew was installed.
func TestNothingIsInstalled(t *testing.T) {
	const why = "Curfew is not installed in this cluster: the API server serves no kind of group curfew.dev"
	for text, want := range bare {
		if got := suite.bare[text]; got.code != want.code || !strings.Contains(got.stdout+got.stderr, want.prefix+why) {
			t.Errorf("%s: exit status %d\n%s%s", text, got.code, got.stdout, got.stderr)
		}
	}
}

// bare are command lines that are run before Curfew is installed, with what comes of them.
var bare = map[string]struct {
	code   int
	prefix string
}{
	"kubectl curfew expiring -A":                                  {2, "error: "},
	"kubectl curfew expire-now serviceaccount/default -n default": {2, "error: "},
	"kubectl curfew keep serviceaccount/default -n default":       {2, "error: "},
	"kubectl curfew explain namespace/default":                    {0, "note: "},
	"kubectl curfew status --no-headers":                          {1, "controller   failed   "},
}
