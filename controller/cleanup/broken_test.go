package cleanup

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/v1alpha1"
)

// converts is the answer for objects whose conversion webhook does not work, so many times.
func converts(times int) func() error {
	return func() error {
		if times--; times < 0 {
			return nil
		}
		return apierrors.NewInternalError(errors.New("the conversion webhook failed"))
	}
}

// A run was interrupted, its policy has changed, and the objects that it was about to delete cannot
// be read. The new policy does not wait until a user repairs the kind. But it waits a little: the
// failure may last a moment only, and then the counts stay exact.
func TestBrokenKindDoesNotWedgeTheNextRun(t *testing.T) {
	for name, c := range map[string]struct {
		times int
		exact bool
	}{
		"for good":            {1_000_000, false},
		"for a short while":   {readAgain, true},
		"for a little longer": {readAgain + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(5)()
			api := newCluster(t)
			p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
			api.killAt = 8 // Two of five are deleted.
			_ = api.work(t.Context(), p)
			if api.dead, api.killAt = false, 0; len(api.sent) != 2 || len(api.status.UncountedDeletions) != 1 {
				t.Fatalf("killed too early or too late: %v, %+v", api.sent, api.status)
			}
			api.unreadable = converts(1)
			if err := api.work(t.Context(), p); err == nil || len(api.status.UncountedDeletions) != 1 {
				t.Fatalf("the same policy waits for the kind: %v, %+v", err, api.status)
			}
			api.unreadable = converts(c.times)
			p.Generation = 2
			controller := api.controller()
			must(t, controller.finish(t.Context(), api.cur(p, start), false))
			run := api.status.LastRun
			exact := api.condition(v1alpha1.ConditionCountsExact)
			if run.Phase != v1alpha1.RunFailed || len(api.status.UncountedDeletions) > 0 || (run.Lost == 0) != c.exact || (exact == "none") != c.exact {
				t.Errorf("run %+v, CountsExact %s", run, exact)
			}
			if got := controller.metrics.counted(t, v1alpha1.ItemUnknown); got != run.Lost {
				t.Errorf("the metric has %d, want %d", got, run.Lost)
			}
			if c.exact && run.Deleted != 2 {
				t.Errorf("counted %d, want 2", run.Deleted)
			}
		})
	}
}

// A kind whose conversion webhook breaks in mid-run can neither be deleted nor read. Its objects
// have failed, and the run goes on to its end.
func TestBrokenKindDoesNotWedgeItsRun(t *testing.T) {
	c := newCluster(t)
	failed := expire.Failed
	c.answer = func(name string) *expire.Ending {
		if name == "tmp-2" || name == "tmp-3" {
			return &failed
		}
		return nil
	}
	c.unreadable = converts(1_000_000)
	must(t, c.work(t.Context(), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})))
	results := c.results()
	if run := c.status.LastRun; run.Phase != v1alpha1.RunCompleted || run.Deleted != 3 || run.Lost != 0 || results["tmp-2"] != v1alpha1.ItemFailed || results["tmp-3"] != v1alpha1.ItemFailed {
		t.Errorf("run %+v, results %v", run, results)
	}
	if exact := c.condition(v1alpha1.ConditionCountsExact); !strings.HasPrefix(exact, "none") {
		t.Error(exact)
	}
}

// A LIST that fails for a moment is sent again, and drops no kind from the run. One that goes on
// failing does not hold the run for long.
func TestListFailsForAMoment(t *testing.T) {
	for name, c := range map[string]struct {
		times, lists int
	}{"a moment": {3, 4}, "for good": {1_000_000, 4}} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t)
			api.unlistable = converts(c.times)
			err := api.work(t.Context(), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {}))
			if api.lists != c.lists || api.waited < 7*time.Second || api.waited > 15*time.Second {
				t.Errorf("%d lists, waited %s", api.lists, api.waited)
			}
			if c.times > 3 {
				if err == nil || len(api.sent) > 0 {
					t.Errorf("%v, deleted %v", err, api.sent)
				}
				return
			}
			must(t, err)
			api.check(name)
		})
	}
}
