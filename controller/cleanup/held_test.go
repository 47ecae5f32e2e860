package cleanup

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// TestHeldRun: a pause holds a run for most of a day. The run reports it, waits, and then deletes
// everything. Its starting deadline of an hour does not end it, even if the process is killed
// meanwhile and the next one starts before the pause ends.
func TestHeldRun(t *testing.T) {
	for name, row := range map[string]struct {
		killed       bool
		unread, want string
	}{
		"the process lives": {}, "it is killed": {killed: true, want: "True Paused a pause holds its deletions"},
		"its pauses cannot be read": {killed: true, unread: "took 2s", want: "True Unread whether a pause holds its deletions cannot be read: took 2s."},
	} {
		t.Run(name, func(t *testing.T) {
			c, killed := newCluster(t), row.killed
			c.unread = row.unread
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.StartingDeadlineSeconds = new(int64(3600)) })
			attempts, resumed := 0, false
			c.answer = func(string) *expire.Ending {
				attempts++
				if resumed = resumed || c.waited > 23*time.Hour; resumed {
					return nil
				}
				c.dead = killed && attempts > 20 && c.late == 0
				held := expire.Held
				return &held
			}
			c.cause = expire.ErrHeldByPause
			err := c.work(t.Context(), p)
			if killed {
				if stalled := c.condition(v1alpha1.ConditionStalled); err == nil || !strings.HasPrefix(stalled, row.want) {
					t.Fatalf("error %v, condition %q; want an error and %q", err, stalled, row.want)
				}
				c.dead, c.waited, c.late = false, 0, 23*time.Hour
				c.held = func(string) bool { return c.waitedFor() == 0 }
				err = c.controller().finish(t.Context(), c.cur(p, start.Add(23*time.Hour)), true)
			}
			must(t, err)
			c.check(name)
			if stalled := c.condition(v1alpha1.ConditionStalled); stalled != "none" {
				t.Error(stalled)
			}
		})
	}
}

// waitedFor is how long all waits together would have taken.
func (c *cluster) waitedFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// A pause of a namespace holds no object of another one: a run of the cluster deletes those first,
// and comes back for the others. Nothing is deleted during the pause, and nothing is lost.
func TestPauseOfOneNamespace(t *testing.T) {
	for name, edit := range map[string]func(*cluster){
		"before the run": func(*cluster) {},
		"once objects are on a page": func(c *cluster) {
			var begun atomic.Bool
			held := c.held
			c.held = func(scope string) bool { return begun.Load() && held(scope) }
			c.policy = func() error { begun.Store(true); return nil }
		},
		"more than are remembered": func(*cluster) { maxLater = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			defer small(1)()
			defer func(most int) { maxLater = most }(maxLater)
			c := newCluster(t)
			for _, name := range []string{"tmp-1", "tmp-2", "tmp-3"} {
				c.objects[name].Namespace = "prod"
			}
			c.held = func(scope string) bool { return scope == "prod" && c.waitedFor() < 23*time.Hour }
			values := map[string]time.Duration{}
			c.answer = func(name string) *expire.Ending { values[name] = c.waited; return nil }
			edit(c)
			must(t, c.work(t.Context(), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})))
			c.check(name)
			for name, waited := range values {
				if held := name <= "tmp-3"; held != (waited >= 23*time.Hour) || !held && waited > 0 {
					t.Errorf("%s was deleted after %s", name, waited)
				}
			}
			if want := 1 + 1/maxLater; c.lists != want {
				t.Errorf("%d lists, want %d", c.lists, want)
			}
			if stalled := c.condition(v1alpha1.ConditionStalled); stalled != "none" {
				t.Error(stalled)
			}
		})
	}
}

// A run that was interrupted for most of a day goes on after its starting deadline only if a pause
// held it, and still holds something that its policy matches.
func TestLateRunDuringAPause(t *testing.T) {
	selects := func(s *v1alpha1.CleanupSpec) {
		s.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "ci"}}
	}
	for name, c := range map[string]struct {
		edit   func(*v1alpha1.CleanupSpec)
		scope  string
		before string // the reason of condition Stalled
		goesOn bool
	}{
		"of everything":                     {nil, "", v1alpha1.ReasonPaused, true},
		"of its namespace":                  {selects, "ci", v1alpha1.ReasonPaused, true},
		"of another namespace":              {selects, "prod", v1alpha1.ReasonPaused, false},
		"of a namespace of the cluster":     {nil, "prod", v1alpha1.ReasonPaused, true},
		"of none that is known":             {nil, "gone", v1alpha1.ReasonPaused, false},
		"that a forged status shows":        {nil, "none", v1alpha1.ReasonPaused, false},
		"that came later":                   {nil, "", v1alpha1.ReasonForbidden, false},
		"that could not be read":            {nil, "", v1alpha1.ReasonUnread, true},
		"of its namespace, and interrupted": {selects, "ci", v1alpha1.ReasonRunFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t)
			for _, name := range []string{"ci", "prod"} {
				api.namespaces = append(api.namespaces, resolution.ParseNamespace(name, nil, map[string]string{"team": name}))
			}
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
				s.StartingDeadlineSeconds = new(int64(3600))
				if c.edit != nil {
					c.edit(s)
				}
			})
			api.held = func(scope string) bool { return api.waitedFor() == 0 && (c.scope == "" || scope == c.scope) }
			cur := api.cur(p, start.Add(23*time.Hour))
			api.late = 23 * time.Hour
			api.status.LastRun = &v1alpha1.CleanupRun{ID: runID(start, p.UID), Phase: v1alpha1.RunRunning, Generation: p.Generation, ScheduledTime: metav1.NewTime(start), StartTime: metav1.NewTime(start)}
			process, before := api.controller(), c.before
			if before == v1alpha1.ReasonRunFailed {
				before = v1alpha1.ReasonPaused
			}
			cur.set(&api.status, v1alpha1.ConditionStalled, metav1.ConditionTrue, before, messageHeld)
			if before != c.before {
				r, err := process.newRun(cur, api.status.LastRun)
				must(t, err)
				if err := r.interrupted(t.Context(), errKilled); !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
			}
			must(t, process.finish(t.Context(), cur, true))
			if phase := api.status.LastRun.Phase; (phase == v1alpha1.RunCompleted) != c.goesOn || (phase == v1alpha1.RunFailed) == c.goesOn || len(api.sent) > 0 && !c.goesOn {
				t.Errorf("%s, %d deleted", phase, len(api.sent))
			}
		})
	}
}
