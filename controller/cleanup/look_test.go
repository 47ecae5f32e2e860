package cleanup

import (
	"slices"
	"testing"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A 404 for a resource that is not served does not say that an object is gone (S7): nothing is
// counted for it while discovery shows the resource, and otherwise its outcome is unknown.
func TestResourceIsNotServed(t *testing.T) {
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	for name, c := range map[string]struct {
		versions, paths []string
		silent          cleanup.SilentGroups
		waits           bool
		counted, sent   int
		lost            int64
	}{
		"nothing changed":   {versions: []string{"v1"}, counted: 5, sent: 5},
		"the kind is gone":  {lost: 5},
		"its group is away": {silent: cleanup.SilentGroups{""}, lost: 5},
		"another version":   {versions: []string{"v2"}, counted: 5, sent: 5},
		"for a short while": {versions: []string{"v1"}, paths: []string{}, waits: true, counted: 5, sent: 5},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(5)()
			api := newCluster(t)
			api.killAt = 6 // All are announced, and none is deleted.
			if _ = api.work(t.Context(), p); len(api.status.UncountedDeletions) != 1 || len(api.sent) != 0 {
				t.Fatalf("killed too early or too late: %+v, %v", api.status, api.sent)
			}
			api.dead, api.killAt, api.versions, api.paths = false, 0, c.versions, c.paths
			api.silent = c.silent
			if err := api.work(t.Context(), p); (err != nil) != c.waits {
				t.Fatal(err)
			}
			if c.waits {
				if api.status.Deleted != 0 || len(api.status.UncountedDeletions) != 1 {
					t.Errorf("counted %d, uncounted %v", api.status.Deleted, api.status.UncountedDeletions)
				}
				api.paths = nil
				must(t, api.work(t.Context(), p))
			}
			if run := api.status.LastRun; int(run.Deleted) != c.counted || len(api.sent) != c.sent || run.Lost != c.lost || run.Phase != v1alpha1.RunCompleted {
				t.Errorf("sent %v, run %+v", api.sent, run)
			}
		})
	}
}

// With a lookup each object is read live before its DELETE: there, too, nothing is gone because of
// such a 404.
func TestResourceIsNotServedInMidRun(t *testing.T) {
	api := newCluster(t)
	api.paths = []string{}
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.Conditions = []v1alpha1.CleanupCondition{{Name: "x", Expression: "!lookup.owned"}}
	})
	if err := api.work(t.Context(), p); err == nil || api.status.Deleted != 0 {
		t.Errorf("%v: counted %d", err, api.status.Deleted)
	}
	api.paths = nil
	must(t, api.work(t.Context(), p))
	api.check("once it is served")
}

// The report shows which kinds no lookup listed.
func TestIgnoredKindsAreReported(t *testing.T) {
	api := newCluster(t)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.Lookups = &v1alpha1.CleanupLookups{IgnoreKinds: []v1alpha1.GroupKind{{Group: "example.com", Kind: "Runner"}}}
	})
	must(t, api.work(t.Context(), p))
	if run := api.status.LastRun; run == nil || !slices.Equal(run.IgnoredKinds, p.Spec.Lookups.IgnoreKinds) {
		t.Errorf("the run shows %+v", run)
	}
}
