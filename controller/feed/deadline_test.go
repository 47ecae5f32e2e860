package feed

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// One watch serves both triggers: objects fail at their deadline and are deleted by their TTL, even
// right after they failed. The mark goes into exactly the state that was watched, without another
// read.
func TestOneWatchForTTLsAndDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.run("listed", wellknown.AnnotationActiveDeadline, "10s", wellknown.AnnotationTTL, "30s")
		r.run("done", wellknown.AnnotationTTL, "20s")
		r.condition("done", "Complete", "Done")
		r.follow(runProfile(t))
		at(time.Second)
		r.run("watched", wellknown.AnnotationActiveDeadline, "10s") // at 1s: due at 11s
		at(time.Second)
		if n := r.engine.Tracked(); n != 3 {
			t.Errorf("%d entries, want one deadline each of two and a TTL of one", n)
		}
		if got, want := shown(t, r.metrics), []string{"group=example.com kind=Run purpose=deadline 1", "group=example.com kind=Run purpose=ttl 1"}; !slices.Equal(got, want) {
			t.Errorf("metrics %q, want %q", got, want)
		}
		at(7900 * time.Millisecond)
		r.expect("at 9.9s", "done Complete=True/Done; listed; watched; ")
		at(200 * time.Millisecond)
		r.expect("at 10.1s", "done Complete=True/Done; listed Failed=True/DeadlineExceeded; watched; ")
		at(time.Second)
		r.expect("at 11.1s", "done Complete=True/Done; listed Failed=True/DeadlineExceeded; watched Failed=True/DeadlineExceeded; ")
		at(9 * time.Second)
		r.expect("at 20.1s", "listed Failed=True/DeadlineExceeded; watched Failed=True/DeadlineExceeded; ")
		at(20 * time.Second)
		r.expect("at 40.1s", "watched Failed=True/DeadlineExceeded; ")
		if want := []string{"listed@101", "watched@104"}; !slices.Equal(r.marks, want) {
			t.Errorf("marks were written to %q, want %q", r.marks, want)
		}
		if len(r.watches) != 1 || len(r.lists) != 0 || r.gets != 0 {
			t.Errorf("%d watches, %d lists and %d reads; want one watch and nothing else", len(r.watches), len(r.lists), r.gets)
		}
	})
}

// An event or a list that cancels an object for one trigger does not affect the other trigger.
func TestTriggersOfOneFeedAreApart(t *testing.T) {
	for name, silent := range map[string]bool{"by the watch": false, "by the list": true} {
		inBubble(t, name, func(t *testing.T) {
			r := newRace(t)
			r.run("stays", wellknown.AnnotationActiveDeadline, "10s", wellknown.AnnotationTTL, "1h")
			r.run("goes", wellknown.AnnotationActiveDeadline, "10s", wellknown.AnnotationTTL, "1h")
			r.follow(runProfile(t))
			at(11 * time.Second)
			r.expect("at 11s", "goes Failed=True/DeadlineExceeded; stays Failed=True/DeadlineExceeded; ")
			if silent {
				r.forbid(errors.New("no route to host"))
			}
			// The TTL is withdrawn from one, the mark overwritten on the other, which is active
			// again and has no TTL yet.
			r.annotate("stays", wellknown.AnnotationTTL, "")
			r.condition("goes", "Ready", "Up")
			r.annotate("goes", wellknown.AnnotationTTL, "20s")
			if silent {
				r.forbid(nil)
			}
			at(15 * time.Second)
			r.expect("once more", "goes Ready=True/Up Failed=True/DeadlineExceeded; stays Failed=True/DeadlineExceeded; ")
			at(30 * time.Second)
			r.expect("after its TTL", "stays Failed=True/DeadlineExceeded; ")
			// The deadline is withdrawn before it comes, the TTL holds.
			r.run("late", wellknown.AnnotationActiveDeadline, "10s", wellknown.AnnotationTTL, "20s")
			at(time.Second)
			if silent {
				r.forbid(errors.New("no route to host"))
			}
			r.annotate("late", wellknown.AnnotationActiveDeadline, "")
			if silent {
				r.forbid(nil)
			}
			at(20 * time.Second)
			r.expect("without a deadline", "late; stays Failed=True/DeadlineExceeded; ")
			r.condition("late", "Complete", "Done")
			at(19 * time.Second)
			r.expect("before its TTL", "late Complete=True/Done; stays Failed=True/DeadlineExceeded; ")
			at(2 * time.Second)
			r.expect("at its TTL", "stays Failed=True/DeadlineExceeded; ")
			if silent {
				r.forbid(errors.New("no route to host"))
			}
			r.remove("ci/stays")
			if silent {
				r.forbid(nil)
			}
			at(time.Minute)
			if n := r.engine.Tracked(); n != 0 {
				t.Errorf("%d entries of deleted objects are tracked, want none", n)
			}
		})
	}
}

// A completion that comes first wins, for both triggers: it is not failed, and its TTL applies.
func TestCompletionWinsForBothTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.run("a", wellknown.AnnotationActiveDeadline, "10s", wellknown.AnnotationTTL, "30s")
		r.follow(runProfile(t))
		at(9500 * time.Millisecond)
		r.mu.Lock() // behind the watch's back
		watchers := r.watchers
		r.watchers = map[*watch.RaceFreeFakeWatcher]labels.Selector{}
		r.mu.Unlock()
		r.condition("a", "Complete", "Done")
		at(time.Second)
		r.expect("after the deadline", "a Complete=True/Done; ")
		r.locked(func() { r.watchers = watchers })
		r.annotate("a", "touched", "yes")
		at(40 * time.Second)
		r.expect("after its TTL", "")
		if len(r.marks) > 0 {
			t.Errorf("marks were written to %q", r.marks)
		}
	})
}

// A feed that succeeds another, as when the definition has changed or is back, goes on with both
// triggers; where the kind's own controller has come to enforce the deadlines, what waited for one
// waits no more, and TTLs hold.
func TestFeedThatSucceedsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		r.run("a", wellknown.AnnotationActiveDeadline, "1m", wellknown.AnnotationTTL, "5m")
		r.run("b", wellknown.AnnotationTTL, "3m")
		r.condition("b", "Complete", "Done")
		first, stop := r.follow(runProfile(t))
		at(10 * time.Second)
		stop()
		r.forbid(errors.New("no route to host")) // so that it cannot make up for what was forgotten
		second, stop := r.follow(runProfile(t), first.Handles()...)
		if !slices.Equal(first.Handles(), second.Handles()) || len(second.Handles()) != 2 {
			t.Errorf("handles %v, then %v; want the same two", first.Handles(), second.Handles())
		}
		at(time.Second)
		if n := r.engine.Tracked(); n != 2 {
			t.Errorf("%d are tracked, want both", n)
		}
		r.forbid(nil)
		at(20 * time.Second)
		stop()
		third, _ := r.follow(runProfile(t, v1alpha1.Enforcement{By: v1alpha1.EnforcedByController}), second.Handles()...)
		at(2 * time.Minute)
		r.expect("past the deadline that another controller enforces", "a; b Complete=True/Done; ")
		at(time.Minute)
		r.expect("past the TTL", "a; ")
		if n := r.engine.Tracked(); n != 0 || len(third.Handles()) != 1 {
			t.Errorf("%d are tracked with handles %v, want none with one handle", n, third.Handles())
		}
	})
}
