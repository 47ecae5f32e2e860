package cleanup

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// slow is a platform source that takes a while for each object.
type slow struct {
	platform.Source
	clock *clocktesting.FakeClock
}

func (s slow) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	s.clock.Step(12 * time.Minute)
	return s.Source.Namespace(ctx, name)
}

// A run that lists and judges for too long deletes what it has chosen, keeps the rest and reports
// that. The next run goes on.
func TestRunTime(t *testing.T) {
	for name, c := range map[string]struct {
		most    *int32
		deleted int64
	}{
		"in the only pass":  {nil, 3}, // after keep-1 and keep-2
		"in the first pass": {new(int32(5)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t)
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
				if c.most != nil {
					s.KeepNewest = &v1alpha1.KeepNewest{Count: *c.most}
				}
			})
			run := func(due time.Time) *v1alpha1.CleanupRun {
				process, clock := api.controller(), clocktesting.NewFakeClock(due)
				process.options.Cached = slow{api, clock}
				turn, err := newTurns(clock, 1, 1).take(t.Context(), "")
				must(t, err)
				cur := api.cur(p, due)
				cur.turn = turn
				must(t, process.start(t.Context(), cur, due))
				return api.status.LastRun
			}
			first := run(start)
			if stalled := api.condition(v1alpha1.ConditionStalled); first.Phase != v1alpha1.RunFailed || first.Deleted != c.deleted || stalled != "True TimeLimit "+errTimeUp.Error() {
				t.Errorf("the run is %s, %d deleted, want %d; Stalled is %s", first.Phase, first.Deleted, c.deleted, stalled)
			}
			if len(api.status.UncountedDeletions) > 0 || int64(len(api.sent)) != c.deleted {
				t.Errorf("uncounted: %v; sent: %v", api.status.UncountedDeletions, api.sent)
			}
			if c.most != nil {
				return
			}
			if next := run(start.AddDate(0, 0, 1)); next.Phase != v1alpha1.RunCompleted || api.status.Deleted != 5 {
				t.Errorf("the next run is %s, %d deleted", next.Phase, api.status.Deleted)
			}
		})
	}
}
