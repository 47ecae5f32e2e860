package cleanup

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// lateServer is an API server that answers each request late.
type lateServer struct {
	*cluster
	after time.Duration
	mu    sync.Mutex
	sent  []time.Time
}

// Do implements deletion.Action.
func (s *lateServer) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	s.mu.Lock()
	s.sent = append(s.sent, time.Now())
	s.mu.Unlock()
	<-time.After(s.after)
	return s.cluster.Do(ctx, due)
}

// Namespace implements platform.Source, for live judgements.
func (s *lateServer) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	<-time.After(s.after)
	return s.cluster.Namespace(ctx, name)
}

// TestFloor: a run sends at least one DELETE a second, although a Namespace changes more often than
// an object can be judged live, and although it takes long to confirm that the run may delete.
func TestFloor(t *testing.T) {
	for name, test := range map[string]struct {
		changes, confirms time.Duration
		lookup            bool
	}{
		"nothing":                            {},
		"the namespace changes":              {changes: 300 * time.Millisecond},
		"the namespace changes, a lookup":    {changes: 300 * time.Millisecond, lookup: true},
		"slow confirmations":                 {confirms: 3 * time.Second},
		"the namespace changes, both slow":   {changes: 300 * time.Millisecond, confirms: 3 * time.Second},
		"the namespace changes in no time":   {changes: 20 * time.Millisecond},
		"confirmations take almost too long": {confirms: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(200)()
			synctest.Test(t, func(t *testing.T) {
				api := &lateServer{cluster: newCluster(t), after: 400 * time.Millisecond}
				// The last objects of a page wait up to 1.5 s for their next attempt, and are read
				// twice and deleted by this late server. Whatever waits for a whole confirmation or
				// for the namespace to change no more takes longer.
				const objects, most = 600, 1500*time.Millisecond + 3*400*time.Millisecond
				api.more("tmp-x%03d", objects)
				process := api.controller()
				ctx, real, stop := process.withEngine(t)
				account, err := process.options.Account(types.NamespacedName{})
				must(t, err)
				account.Delete = api
				account.Exists = func(context.Context) (types.UID, error) { <-time.After(test.confirms); return "account", nil }
				process.options.Live = api
				process.judging = newTurns(clock.RealClock{}, judgingAtOnce, judgingShare)
				var all sync.WaitGroup
				if test.changes > 0 {
					all.Go(func() {
						for ctx.Err() == nil {
							<-time.After(test.changes)
							real.RecheckNamespace("ci")
						}
					})
				}
				began := time.Now()
				p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
					if test.lookup {
						s.Conditions = []v1alpha1.CleanupCondition{{Name: "x", Expression: "!lookup.owned"}}
					}
				})
				if err := process.start(ctx, api.cur(p, began), began); err != nil {
					t.Errorf("the run ended with %v", err)
				}
				worst, last := time.Duration(0), time.Time{}
				for _, instant := range api.sent {
					if !last.IsZero() {
						worst = max(worst, instant.Sub(last))
					}
					last = instant
				}
				run := api.status.LastRun
				t.Logf("%d deleted in %s, worst gap %s", run.Deleted, time.Since(began), worst)
				if run.Phase != v1alpha1.RunCompleted || run.Deleted != objects+5 || worst > most {
					t.Errorf("%d of %d deleted, worst gap %s: %s", run.Deleted, objects+5, worst, api.condition(v1alpha1.ConditionStalled))
				}
				stop()
				all.Wait()
			})
		})
	}
}
