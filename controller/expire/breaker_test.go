package expire

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"curfew.dev/curfew/controller/deletion"
)

// Forbidden in one namespace: a few refusals, then probes; others go on; all go once it is allowed.
func TestBreakerRefused(t *testing.T) {
	w, outcomes, events := ready(t, nil)
	forbidden, refused := true, 0
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if forbidden && strings.HasPrefix(r.Name, "bad") {
			refused++
			return Response{Code: http.StatusForbidden, Message: "no"}
		}
		return w.Delete(ctx, r)
	})
	w.dueSoon(200, "bad", func(o *Entry) { o.Source, o.Namespace = "namespace/ci", "ci" })
	w.dueSoon(50, "good", nil)
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 50 || refused != breakerThreshold {
		t.Fatalf("%v, %d refused", n, refused)
	}
	ev := (*events)[0]
	if len(*events) != 1 || !ev.Open || ev.Class != "namespace" || ev.Source != "namespace/ci" || ev.Namespace != "ci" || ev.Reason != ReasonRefused || ev.Kind != "Job" {
		t.Fatalf("events %+v, want one: Job of namespace/ci is paused, Refused", *events)
	}
	if got := metricValue(t, w.engine, `curfew_paused_scopes{class="namespace"}`); got != 1 {
		t.Errorf("curfew_paused_scopes %v", got)
	}
	w.every(600, time.Second)
	t.Logf("%d refused in ten minutes", refused)
	if refused > 60 || refused < 10 {
		t.Errorf("%d refused in ten minutes: want a few probes", refused)
	}
	if got := metricValue(t, w.engine, "curfew_overdue_objects"); got != 200 {
		t.Errorf("curfew_overdue_objects %v, want 200", got)
	}
	if got := metricValue(t, w.engine, "curfew_oldest_overdue_seconds"); got < 599 || got > 602 {
		t.Errorf("curfew_oldest_overdue_seconds %v, want 600", got)
	}
	forbidden = false
	w.every(61, time.Second)
	if n := count(*outcomes); n[Deleted] != 250 {
		t.Errorf("%v a minute after it was allowed", n)
	}
	if ev := (*events)[len(*events)-1]; ev.Open || len(*events) != 2 {
		t.Errorf("events %+v, want a second one that closes", *events)
	}
}

// Rights may be given by namespace. What Curfew may not delete is kept and reported once, is not
// late, costs few requests, holds up nothing of the same source elsewhere, and goes once it may.
func TestRightsByNamespace(t *testing.T) {
	w, outcomes, events := ready(t, nil)
	permitted, refused := false, 0
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if !permitted && r.Namespace == "ci" {
			refused++
			return Response{Code: http.StatusForbidden, Message: `jobs.batch "j" is forbidden: User "curfew" cannot delete resource "jobs" in API group "batch" in the namespace "ci"`}
		}
		return w.Delete(ctx, r)
	})
	for source := range 20 {
		w.dueSoon(10, fmt.Sprintf("kept%d-", source), func(o *Entry) { o.Source, o.Namespace = fmt.Sprintf("policy/p%d", source), "ci" })
	}
	w.dueSoon(50, "other", func(o *Entry) { o.Source = "policy/p0" })
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 50 || refused > 10 {
		t.Fatalf("%v, %d refused: want 50 deleted elsewhere, and no try for each object", n, refused)
	}
	w.every(60, time.Minute)
	t.Logf("%d refused in an hour", refused)
	if refused > 60 {
		t.Errorf("%d refused in an hour: want few probes", refused)
	}
	ev := (*events)[0]
	if len(*events) != 1 || !ev.Open || ev.Class != "permission" || ev.Source != "namespace/ci" || ev.Reason != ReasonForbidden || !strings.Contains(ev.Message, `Job in namespace "ci", which Curfew may not delete there`) {
		t.Fatalf("events %+v, want one of the namespace", *events)
	}
	attempts := `curfew_deletion_attempts_total{result="unpermitted"}`
	for gauge, want := range map[string]float64{attempts: float64(refused), gaugeOverdue: 0, gaugeOldest: 0, `curfew_paused_scopes{class="permission"}`: 1, `curfew_paused_scopes{class="policy"}`: 0} {
		if got := metricValue(t, w.engine, gauge); got != want {
			t.Errorf("%s is %v, want %v", gauge, got, want)
		}
	}
	permitted = true
	w.every(6*60, time.Second)
	if n := count(*outcomes); n[Deleted] != 250 || (*events)[len(*events)-1].Open || len(*events) != 2 {
		t.Errorf("%v, events %+v: want all deleted six minutes after it is granted", n, *events)
	}
}

// An API server that has just started refuses until it has read its roles: one refusal holds up no
// other object. Five hold up the kind in the namespace, even if they are of one object.
func TestMissingPermissionCountsRefusals(t *testing.T) {
	w, outcomes, events := ready(t, nil)
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if r.Name == "refused0" {
			return Response{Code: http.StatusForbidden, Message: `jobs.batch "j" is forbidden: User "curfew" cannot delete resource "jobs"`}
		}
		return w.Delete(ctx, r)
	})
	w.dueSoon(1, "refused", nil)
	w.after(time.Second)
	w.dueSoon(1, "other", nil)
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 1 || len(*events) != 0 {
		t.Fatalf("after a refusal: %v, events %+v: want the other one deleted, and none", n, *events)
	}
	w.every(2*60, time.Second)
	if len(*events) != 1 || (*events)[0].Class != "permission" {
		t.Errorf("events %+v, want one after five refusals", *events)
	}
}

// Among many that can never be deleted, one that can be gets its turn (S3).
func TestBreakerStarvesNoObject(t *testing.T) {
	w, _, _ := ready(t, nil)
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if r.Name != "j30" {
			return Response{Code: http.StatusForbidden, Message: "no"}
		}
		return w.Delete(ctx, r)
	})
	w.dueSoon(31, "j", nil)
	w.advance(time.Second)
	for range 60 {
		w.pump()
		w.advance(time.Minute)
		if w.things["j30"] == nil {
			return
		}
	}
	t.Error("an hour, and the one that can be deleted was not")
}

// The API server is away: few requests, however many objects are due; and all go soon after it is
// back.
func TestBreakerUnreachable(t *testing.T) {
	w, _, events := ready(t, nil)
	away, tries := true, 0
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if away {
			tries++
			return Response{Err: context.DeadlineExceeded}
		}
		return w.Delete(ctx, r)
	})
	w.dueSoon(1000, "j", nil)
	w.advance(time.Second)
	for range 600 {
		w.pump()
		w.advance(time.Second)
	}
	t.Logf("%d requests in ten minutes", tries)
	if tries > 100 {
		t.Errorf("%d requests in ten minutes", tries)
	}
	if ev := (*events)[0]; ev.Class != "apiserver" || ev.Reason != ReasonUnreachable || !ev.Open {
		t.Errorf("event %+v, want class apiserver open, Unreachable", ev)
	}
	away = false
	for range 11 {
		w.pump()
		w.advance(time.Second)
	}
	if len(w.things) > 0 {
		t.Errorf("%d are left 11s after it is back", len(w.things))
	}
}

// One object that fails for ever opens nothing. Its failures are forgotten once it is gone.
func TestBreakerOneObject(t *testing.T) {
	w, _, events := ready(t, nil)
	w.hook = deleterFunc(func(_ context.Context, r Request) Response { return Response{Code: 403} })
	w.dueSoon(1, "j", nil)
	w.every(1000, time.Minute)
	w.engine.Remove(w.kind, w.list()[0].uid)
	w.advance(time.Hour)
	w.closeIdle()
	if n := len(w.engine.breakers.scopes); len(*events) != 0 || n != 0 {
		t.Errorf("events %+v, %d scopes are remembered; want none", *events, n)
	}
}

// A pause ends when it holds back no object any more, for instance after a namespace was deleted:
// no success would ever end it. While any object is left the pause lasts.
func TestBreakerOfWhatIsGone(t *testing.T) {
	for name, code := range map[string]int{"source": http.StatusForbidden, "kind": http.StatusInternalServerError, "apiserver": 0} {
		t.Run(name, func(t *testing.T) {
			w, _, events := ready(t, nil)
			w.hook = deleterFunc(func(_ context.Context, r Request) Response {
				if code == 0 {
					return Response{Err: context.DeadlineExceeded}
				}
				return Response{Code: code}
			})
			w.dueSoon(10, "j", func(o *Entry) { o.Source, o.Namespace = "namespace/ci", "ci" })
			pass := func(d time.Duration) {
				for range int(d / time.Minute) {
					w.after(time.Minute)
					w.closeIdle()
				}
			}
			pass(time.Hour)
			w.advance(time.Hour) // held back by something else, such as the rate
			w.closeIdle()
			if len(*events) != 1 || !(*events)[0].Open {
				t.Fatalf("after two hours: %+v", *events)
			}
			for i, x := range w.list() {
				if i > 0 {
					w.engine.Remove(w.kind, x.uid)
				}
			}
			pass(time.Hour)
			if len(*events) != 1 {
				t.Fatalf("while one is left: %+v", *events)
			}
			w.engine.Remove(w.kind, w.list()[0].uid)
			pass(30 * time.Minute)
			if len(*events) != 2 || (*events)[1].Open || (*events)[1].Scope != (*events)[0].Scope || metricValue(t, w.engine, "curfew_paused_scopes") != 0 {
				t.Errorf("half an hour after the last is gone: %+v", *events)
			}
			if n := len(w.engine.breakers.scopes); n != 0 {
				t.Errorf("%d scopes are remembered", n)
			}
		})
	}
}

// A pause and its end name the same scope, other pauses another; the pauses of a kind that is
// forgotten end. That a pause begins is told before it is told that it is over, however long the
// log takes.
func TestBreakerEventsComeInOrder(t *testing.T) {
	var n atomic.Int64
	var mu sync.Mutex
	var events []bool
	slow := funcr.New(func(_, line string) {
		if strings.Contains(line, "deletions are paused") {
			<-time.After(100 * time.Millisecond)
		}
	}, funcr.Options{})
	bubble(t, func(o *Options) {
		o.Log = slow
		o.OnBreaker = func(e BreakerEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.Open)
		}
		o.Triggers = deletes(deleterFunc(func(context.Context, Request) Response {
			if i := n.Add(1); i <= breakerThreshold {
				<-time.After(10 * time.Millisecond)
				return Response{Code: http.StatusForbidden}
			}
			<-time.After(20 * time.Millisecond)
			return Response{Code: http.StatusOK}
		}))
	}, func(t *testing.T, e *Engine, s *store, kind Kind) {
		e.mu.Lock()
		for e.conc.Limit() < 16 { // as after answers that show no queue
			e.conc.Observe(deletion.Sample{Latency: time.Millisecond, InFlight: e.conc.Limit()})
		}
		e.mu.Unlock()
		for i := range 10 {
			s.track(e, kind, i, time.Now().Add(time.Second))
		}
		pass(time.Minute)
	})
	if !slices.Equal(events, []bool{true, false}) {
		t.Errorf("told that deletions are paused: %v, want true and then false", events)
	}
}

func TestBreakerEventsNameTheirScope(t *testing.T) {
	w, _, events := ready(t, nil)
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		return Response{Code: http.StatusForbidden, Message: "no"}
	})
	w.dueSoon(10, "a", func(o *Entry) { o.Source, o.Namespace = "namespace/a", "a" })
	w.dueSoon(10, "b", func(o *Entry) { o.Source, o.Namespace = "policy/p", "a" })
	w.after(time.Second)
	if len(*events) != 2 || (*events)[0].Scope == (*events)[1].Scope || (*events)[0].Scope == "" {
		t.Fatalf("events %+v, want one for each of two scopes", *events)
	}
	w.engine.ForgetKind(w.kind)
	open := map[string]bool{}
	for _, ev := range *events {
		if ev.Open {
			open[ev.Scope] = true
		} else {
			delete(open, ev.Scope)
		}
	}
	if len(*events) != 4 || len(open) != 0 {
		t.Errorf("after the kind was forgotten: %+v", *events)
	}
	if got := metricValue(t, w.engine, "curfew_paused_scopes"); got != 0 {
		t.Errorf("curfew_paused_scopes %v", got)
	}
}
