package expire

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func header(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// A clock that jumps holds deletions until the API server's time was seen again; a skew beyond the
// bound holds them.
func TestGuard(t *testing.T) {
	w := newWorld(t.Fatalf)
	var events []BreakerEvent
	w.engine.opts.OnBreaker = func(ev BreakerEvent) { events = append(events, ev) }
	check := func(what string, ok bool, ahead time.Duration) {
		t.Helper()
		r := w.engine.read()
		w.engine.mu.Lock()
		now, got := w.engine.checkClock(r)
		w.engine.unlock()
		if got != ok {
			t.Errorf("%s: may delete: %v, want %v (%s)", what, got, ok, w.engine.guard.message)
		}
		// Never later than the server's own time, grain aside.
		if d := time.Duration(now - w.server.UnixNano()); got && d > ahead {
			t.Errorf("%s: decides by an instant %s after the API server's", what, d)
		}
	}
	check("nothing known", false, 0)
	w.date()
	check("first answer", true, 0)
	w.jump(3 * time.Second)
	check("jump forward", false, 0)
	w.date()
	check("seen again, 3s ahead", true, time.Second)
	w.jump(10 * time.Second)
	w.date()
	check("10s ahead: seen before it was noticed", false, 0)
	w.date()
	check("10s ahead", false, 0)
	if ev := events[len(events)-1]; !ev.Open || ev.Reason != ReasonClockSkew || ev.Class != "clock" {
		t.Errorf("event %+v", ev)
	}
	w.jump(0)
	check("set right", false, 0)
	w.date()
	check("set right and seen", true, 0)
	w.jump(-20 * time.Second)
	check("jump backward", false, 0)
	w.date()
	check("20s behind", false, 0)
	w.jump(-2 * time.Second)
	w.date()
	check("2s behind, noticed", false, 0)
	w.date()
	check("2s behind", true, 0)
	if ev := events[len(events)-1]; ev.Open || ev.Reason == "" {
		t.Errorf("event %+v", ev)
	}
	w.advance(time.Hour)
	check("an hour passes", true, 0)
}

// S3: a retry that was scheduled by a clock a day ahead does not wait for a day, no matter which
// goroutine first notices that the clock was corrected.
func TestRetryOutlivesAWrongClock(t *testing.T) {
	for name, scraped := range map[string]bool{"noticed by the engine": false, "noticed by a scrape": true} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.pump()
			w.dueSoon(1, "j", nil)
			failed := false
			w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
				if failed {
					return w.Delete(ctx, r)
				}
				failed = true
				w.jump(24 * time.Hour)
				return Response{Code: http.StatusInternalServerError}
			})
			w.after(time.Second)
			w.jump(0)
			if scraped {
				metricValue(t, w.engine, "curfew_overdue_objects")
			}
			w.pump()
			w.after(maxBackoff + time.Second)
			if len(w.things) != 0 {
				t.Error("it waits for the clock that was wrong")
			}
		})
	}
}

// Without a Skew a jump is waited out.
func TestGuardAlone(t *testing.T) {
	g := guard{}
	allowed := func(wall, mono time.Duration) bool {
		_, ok := g.now(reading{wall: epoch.Add(wall).UnixNano(), mono: mono})
		return ok
	}
	for i, c := range []struct {
		wall, mono time.Duration
		want       bool
	}{
		{0, 0, true}, {time.Second, time.Second, true}, {time.Hour, 2 * time.Second, false}, {time.Hour + 500*time.Millisecond, 2500 * time.Millisecond, false},
		{time.Hour + time.Second, 3 * time.Second, true}, {0, 4 * time.Second, false}, {time.Second, 5 * time.Second, true},
	} {
		if got := allowed(c.wall, c.mono); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}
