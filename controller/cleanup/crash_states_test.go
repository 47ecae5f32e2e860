package cleanup

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A run is resumed from a state of trouble, killed at each request on the way out of it, and once
// more after that. Nothing is lost or counted twice (S7).
func TestKilledInTrouble(t *testing.T) {
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	for name, state := range map[string]struct {
		batch int
		// enter brings a run into the state, and leave ends what causes it, after the first kill.
		enter, leave func(c *cluster)
		check        func(c *cluster, what string)
	}{
		"a report page is cut":     {5, loseReport(2), func(*cluster) {}, lost},
		"a report page is deleted": {5, loseReport(0), func(*cluster) {}, lost},
		"a permission is missing": {2, func(c *cluster) {
			c.answer = func(string) *expire.Ending {
				if c.lacks = c.lacks || len(c.sent) >= 2; c.lacks {
					return new(expire.Refused)
				}
				return nil
			}
			if err := c.work(c.t.Context(), p); !isForbidden(err) || len(c.sent) == 0 {
				c.t.Fatalf("the run ended with %v after %v", err, c.sent)
			}
		}, func(c *cluster) { c.lacks, c.answer = false, nil }, (*cluster).check},
		"it never had the permission": {2, func(c *cluster) {
			c.lacks = true
			if err := c.work(c.t.Context(), p); !isForbidden(err) || len(c.sent) > 0 {
				c.t.Fatalf("the run ended with %v after %v", err, c.sent)
			}
		}, func(c *cluster) { c.lacks = false }, (*cluster).check},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(state.batch)()
			begin := func() *cluster {
				c := newCluster(t)
				state.enter(c)
				return c
			}
			whole := begin()
			whole.dead, whole.requests, whole.killAt, whole.after = false, 0, 0, false
			state.leave(whole)
			must(t, whole.work(t.Context(), p))
			state.check(whole, "never killed")
			for k := range kills(0, whole.requests) {
				c := begin()
				c.survive(k, func() error { return c.work(t.Context(), p) }, func() { state.leave(c) })
				if state.check(c, k.String()); t.Failed() {
					return
				}
			}
			t.Logf("%d requests", whole.requests)
		})
	}
}

// loseReport kills a run that has deleted everything and counted nothing. Then a user leaves only
// so many objects on its page, or deletes it.
func loseReport(left int) func(c *cluster) {
	return func(c *cluster) {
		c.killAt, c.after = 11, true
		if err := c.work(c.t.Context(), tmpPolicy(c.t, func(*v1alpha1.CleanupSpec) {})); !errors.Is(err, errKilled) || len(c.sent) != 5 || len(c.pages) != 1 {
			c.t.Fatalf("%v: deleted %v, %d pages", err, c.sent, len(c.pages))
		}
		for name, page := range c.pages {
			page.Objects = page.Objects[:left]
			if c.pages[name] = page; left == 0 {
				delete(c.pages, name)
			}
		}
	}
}

// lost checks that no object is counted, that each is lost once, and that none is deleted twice.
func lost(c *cluster, what string) {
	c.t.Helper()
	run := c.status.LastRun
	if c.status.Deleted != 0 || run.Deleted != 0 || run.Lost != 5 || run.Phase != v1alpha1.RunCompleted || len(c.status.UncountedDeletions) > 0 {
		c.t.Errorf("%s: deleted %d, run %+v, uncounted %v", what, c.status.Deleted, run, c.status.UncountedDeletions)
	}
	if got := c.condition(v1alpha1.ConditionCountsExact); got == "none" {
		c.t.Errorf("%s: the counts are said to be exact", what)
	}
	for uid, times := range c.sent {
		if times != 1 {
			c.t.Errorf("%s: %s was deleted %d times", what, uid, times)
		}
	}
	if names := slices.Sorted(maps.Keys(c.objects)); len(names) != 3 {
		c.t.Errorf("%s: %v are left", what, names)
	}
}

// small makes batches of a few objects.
func small(size int) (restore func()) {
	before := batchSize
	batchSize = size
	return func() { batchSize = before }
}
