package report

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A reader of a report sees which kinds no lookup listed.
func TestIgnoredKindsAreShown(t *testing.T) {
	a := &reportAnswer{policy: &world.CleanupPolicy{}, run: "r", last: &v1alpha1.CleanupRun{
		Phase: v1alpha1.RunCompleted, IgnoredKinds: []v1alpha1.GroupKind{{Kind: "Secret"}, {Group: "example.com", Kind: "Runner"}},
	}}
	const want = "\nLookups ignored objects of Secret, Runner.example.com"
	if got := a.title(time.Time{}); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at its end", got, want)
	}
	if got := a.data(time.Time{}).LastRun.Ignored; strings.Join(got, " ") != "Secret Runner.example.com" {
		t.Errorf("programs see %q", got)
	}
}
