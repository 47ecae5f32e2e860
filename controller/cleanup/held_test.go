package cleanup

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/v1alpha1"
)

// TestHeldRun: a run that a pause holds for a day says so, waits, and then deletes everything. That
// an hour is all it may take to begin does not end it, even if its process is killed meanwhile.
func TestHeldRun(t *testing.T) {
	for name, killed := range map[string]bool{"the process lives": false, "it is killed": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.StartingDeadlineSeconds = new(int64(3600)) })
			attempts, resumed := 0, false
			c.answer = func(string) *engine.Result {
				attempts++
				if resumed = resumed || c.waited > 24*time.Hour; resumed {
					return nil
				}
				if killed && attempts > 20 {
					c.dead = true
				}
				held := engine.Held
				return &held
			}
			c.cause = engine.ErrHeldByPause
			err := c.work(t.Context(), p)
			if killed {
				if stalled := c.condition(v1alpha1.ConditionStalled); err == nil || !strings.HasPrefix(stalled, "True Paused a pause holds its deletions") {
					t.Fatalf("%v, %s", err, stalled)
				}
				c.dead, resumed, c.late = false, true, 24*time.Hour
				err = c.controller().finish(t.Context(), c.cur(p, start.Add(24*time.Hour)), true)
			}
			if err != nil {
				t.Fatal(err)
			}
			c.check(name)
			if stalled := c.condition(v1alpha1.ConditionStalled); !strings.HasPrefix(stalled, "False Complete") {
				t.Error(stalled)
			}
		})
	}
}

// TestHeldIsNotUnanswered: what a pause held was not sent, so that its outcome is known.
func TestHeldIsNotUnanswered(t *testing.T) {
	r := &run{}
	b := r.newBatch(&page{fields: v1alpha1.CleanupReportFields{Objects: []v1alpha1.CleanupItem{{UID: "a"}}}})
	b.answered("a", action.Result{Outcome: action.Held})
	if b.unanswered["a"] || b.items["a"].Result != "" {
		t.Errorf("%+v", b.items["a"])
	}
}
