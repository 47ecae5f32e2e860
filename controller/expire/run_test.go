package expire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
)

// store is an API server that takes a while for each DELETE.
type store struct {
	backfill bool // the objects to track are backfilled
	mu       sync.Mutex
	latency  time.Duration
	objects  map[string]string // name to resourceVersion
	running  int
	peak     int
	late     time.Duration // the largest lateness at arrival
	expiry   map[string]time.Time
}

func (s *store) Delete(ctx context.Context, r Request) Response {
	s.mu.Lock()
	s.running++
	s.peak = max(s.peak, s.running)
	if t, ok := s.expiry[r.Name]; ok {
		s.late = max(s.late, time.Since(t))
	}
	s.mu.Unlock()
	select {
	case <-time.After(s.latency):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	switch rv, ok := s.objects[r.Name]; {
	case ctx.Err() != nil:
		return Response{Err: ctx.Err()}
	case !ok:
		return Response{Code: 404, ObjectMissing: true}
	case rv != r.ResourceVersion:
		return Response{Code: 409}
	}
	delete(s.objects, r.Name)
	return Response{Code: 200}
}

func (s *store) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

func (s *store) track(e *Engine, kind Kind, i int, t time.Time) types.UID {
	name, uid := fmt.Sprintf("j%05d", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
	s.mu.Lock()
	s.objects[name], s.expiry[name] = "7", t
	s.mu.Unlock()
	e.Upsert(Entry{Kind: kind, Namespace: "ci", Name: name, UID: uid, ResourceVersion: "7", Expiry: t, Source: "namespace/ci", Backfill: s.backfill})
	return uid
}

// running runs an engine in synthetic time, which sends its DELETEs to s.
func running(t *testing.T, o Options, s deletion.Sender, f func(t *testing.T, e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Triggers == nil {
			o.Triggers = deletes(s)
		}
		e, err := New(o)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		f(t, e)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func registered(t *testing.T, e *Engine, options KindOptions) Kind {
	t.Helper()
	kind, err := e.RegisterKind(options)
	must(t, err)
	return kind
}

// bubble runs an engine of Jobs.
func bubble(t *testing.T, change func(*Options), f func(t *testing.T, e *Engine, s *store, kind Kind)) {
	t.Helper()
	s := &store{latency: 5 * time.Millisecond, objects: map[string]string{}, expiry: map[string]time.Time{}}
	o := Options{}
	if change != nil {
		change(&o)
	}
	running(t, o, s, func(t *testing.T, e *Engine) {
		gone := func(context.Context, Entry) (Judgement, error) { return Judgement{Verdict: Gone}, nil }
		f(t, e, s, registered(t, e, KindOptions{Type: jobs, Trigger: "ttl", Judge: gone}))
	})
}

// pass lets synthetic time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRunIsPunctual(t *testing.T) {
	bubble(t, nil, func(t *testing.T, e *Engine, s *store, kind Kind) {
		start := time.Now()
		for i := range 1000 { // 100 a second for ten seconds
			s.track(e, kind, i, start.Add(time.Minute+time.Duration(i)*10*time.Millisecond))
		}
		s.track(e, kind, 5000, start.Add(24*time.Hour))
		pass(time.Minute - time.Millisecond)
		if s.left() != 1001 {
			t.Fatalf("%d left before anything is due", s.left())
		}
		pass(11 * time.Second)
		if s.left() != 1 || e.Tracked() != 1 {
			t.Fatalf("%d left, %d tracked", s.left(), e.Tracked())
		}
		if s.late > time.Millisecond {
			t.Errorf("a DELETE was sent %s late", s.late)
		}
		uid := s.track(e, kind, 6000, start.Add(2*time.Hour))
		e.Upsert(Entry{Kind: kind, Namespace: "ci", Name: "j06000", UID: uid, ResourceVersion: "7", Expiry: time.Now().Add(time.Second), Source: "object"})
		pass(1010 * time.Millisecond)
		if s.left() != 1 {
			t.Error("an expiry that was brought forward did not wake the engine")
		}
	})
}

func TestRunDrains(t *testing.T) {
	bubble(t, func(o *Options) { o.FavourDrain = true }, func(t *testing.T, e *Engine, s *store, kind Kind) {
		due := time.Now().Add(-time.Hour)
		for i := range 20_000 {
			s.track(e, kind, i, due)
		}
		pass(20 * time.Second)
		if s.left() != 0 || e.Tracked() != 0 {
			t.Errorf("%d left, %d tracked", s.left(), e.Tracked())
		}
		if s.peak < 32 || s.peak > DefaultMaxConcurrency {
			t.Errorf("at most %d at a time, with an API server that does not get slower", s.peak)
		}
	})
}

func TestRunStops(t *testing.T) {
	bubble(t, nil, func(t *testing.T, e *Engine, s *store, kind Kind) {
		s.mu.Lock()
		s.latency = time.Hour
		s.mu.Unlock()
		s.track(e, kind, 1, time.Now())
		synctest.Wait() // under way when bubble stops the engine
		if err := e.Run(t.Context()); err == nil {
			t.Error("a second Run is allowed")
		}
	})
}

// A standby whose metrics are scraped says nothing of its clock, and says it once it runs.
func TestStandbyIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []BreakerEvent
		skew := deletion.NewSkew(clock.RealClock{})
		e, err := New(Options{
			Triggers: deletes(deleterFunc(func(context.Context, Request) Response { return Response{Code: 500} })), Skew: skew, Ping: func(context.Context) error { return nil },
			OnBreaker: func(e BreakerEvent) { events = append(events, e) },
		})
		must(t, err)
		skew.Learn(time.Now(), time.Now(), header(time.Now().Add(-time.Minute)))
		if got := metricValue(t, e, `curfew_paused_scopes{class="clock"}`); got != 1 || len(events) != 0 {
			t.Errorf("on standby the metric is %v and it told %+v, want 1 and nothing", got, events)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-done
		if len(events) != 1 || !events[0].Open || events[0].Reason != ReasonClockSkew {
			t.Errorf("running it told %+v, want the skew", events)
		}
	})
}

// What was deleted is summed up for its source, with a few examples. Each deletion has a line in
// the log.
func TestRunSummary(t *testing.T) {
	var mu sync.Mutex
	var got []Summary
	var deleted []string
	bubble(t, func(o *Options) {
		o.Log = funcr.New(func(_, line string) {
			if strings.Contains(line, `"msg"="deleted"`) {
				mu.Lock()
				defer mu.Unlock()
				deleted = append(deleted, line)
			}
		}, funcr.Options{})
		o.OnSummary = func(s []Summary) { mu.Lock(); defer mu.Unlock(); got = append(got, s...) }
	}, func(t *testing.T, e *Engine, s *store, kind Kind) {
		instant := time.Now().Add(time.Second)
		for i := range 12 {
			s.track(e, kind, i, instant)
		}
		pass(3 * time.Minute)
	})
	if len(got) != 1 || got[0].Deleted != 12 || got[0].Source != "namespace/ci" || got[0].Namespace != "ci" || len(got[0].Examples) != 10 || got[0].Kind.Kind != "Job" {
		t.Errorf("digests %+v, want one: 12 Jobs deleted by namespace/ci, with 10 examples", got)
	}
	const want = `"level"=0 "msg"="deleted" "kind"="Job" "object"="ci/j00000" "uid"="00000000-0000-4000-8000-000000000000" ` +
		`"expiry"="2000-01-01 00:00:01 +0000 UTC" "source"="namespace/ci" "trigger"="ttl" "lateness"="5ms"`
	if len(deleted) != 12 || !slices.Contains(deleted, want) {
		t.Errorf("%d lines %q, want one a deletion, as %s", len(deleted), deleted, want)
	}
}

// The first deletion of a source is reported within five seconds, later ones once a minute.
func TestRunReportsFirstDeletions(t *testing.T) {
	var mu sync.Mutex
	var got []string
	var begin time.Time
	bubble(t, func(o *Options) {
		o.OnSummary = func(all []Summary) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range all {
				got = append(got, fmt.Sprintf("%d within %v", s.Deleted, time.Since(begin).Round(5*time.Second)))
			}
		}
	}, func(t *testing.T, e *Engine, s *store, kind Kind) {
		begin = time.Now()
		for i, after := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, 20 * time.Second} {
			s.track(e, kind, i, begin.Add(after))
		}
		pass(3 * time.Minute)
	})
	if want := []string{"2 within 5s", "2 within 1m0s"}; !slices.Equal(got, want) {
		t.Errorf("reports %q, want %q", got, want)
	}
}

// Run ends pauses that hold back no object any more.
func TestRunEndsIdlePauses(t *testing.T) {
	var events []BreakerEvent
	bubble(t, func(o *Options) {
		o.OnBreaker = func(e BreakerEvent) { events = append(events, e) }
		o.Triggers = deletes(deleterFunc(func(context.Context, Request) Response { return Response{Code: 403} }))
	}, func(t *testing.T, e *Engine, s *store, kind Kind) {
		var uids []types.UID
		for i := range 10 {
			uids = append(uids, s.track(e, kind, i, time.Now()))
		}
		pass(time.Minute)
		for _, uid := range uids {
			e.Remove(kind, uid)
		}
		pass(15 * time.Minute)
	})
	if len(events) != 2 || !events[0].Open || events[1].Open {
		t.Errorf("events %+v, want one that opens and one that closes", events)
	}
}

// Deletions of runs keep to the rate, too.
func TestSubmissionsKeepToTheRate(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxDeletionsPerMinute = 2 }, func(t *testing.T, e *Engine, s *store, kind Kind) {
		pass(61 * time.Second) // The process before may have used up the first minute.
		submit := func(ctx context.Context, i int) Outcome {
			s.track(e, kind, i, time.Now().Add(time.Hour))
			name := fmt.Sprintf("j%05d", i)
			o := Entry{Kind: kind, Namespace: "ci", Name: name, UID: uidOf(name, i), ResourceVersion: "7", Expiry: time.Now(), Source: "policy/p"}
			return deleteNow(ctx, e, o)
		}
		for i := range 2 {
			if out := submit(t.Context(), i); out.Result != Deleted {
				t.Errorf("within the rate: %+v", out)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if out := submit(ctx, 3); out.Result != Held || out.Err == nil {
			t.Errorf("beyond the rate: %+v", out)
		}
	})
}
