package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

// A run that was interrupted, or that a pause held, announces some objects twice. They count once.
func TestObjectsCountOnce(t *testing.T) {
	page := func(result v1alpha1.ItemResult, uids ...types.UID) *v1alpha1.CleanupReport {
		out := &v1alpha1.CleanupReport{}
		for _, uid := range uids {
			out.Objects = append(out.Objects, v1alpha1.CleanupItem{Kind: "ConfigMap", UID: uid, Result: result})
		}
		return out
	}
	a := &reportAnswer{policy: &world.CleanupPolicy{}, pages: []*v1alpha1.CleanupReport{
		page(v1alpha1.ItemGone, "a", "b"), page(v1alpha1.ItemKept, "c", "d", "e"), page(v1alpha1.ItemDeleted, "c"), page(v1alpha1.ItemKept, "d"), page(v1alpha1.ItemFailed, "f"),
	}}
	const want = "[{ ConfigMap  Deleted 1} { ConfigMap  Failed 1} { ConfigMap  Gone 2} { ConfigMap  Kept 2}]"
	if got := fmt.Sprint(a.counts()); got != want || len(a.data(time.Time{}).Items) != 6 {
		t.Errorf("%s, want %s; %v", got, want, a.items())
	}
}
