package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/servertime"
)

// store is an API server that takes a while for each DELETE.
type store struct {
	mu      sync.Mutex
	latency time.Duration
	objects map[string]string // name to resourceVersion
	running int
	peak    int
	late    time.Duration // the largest lateness at arrival
	expiry  map[string]time.Time
}

func (s *store) Delete(ctx context.Context, r Request) Response {
	s.mu.Lock()
	s.running++
	s.peak = max(s.peak, s.running)
	if at, ok := s.expiry[r.Name]; ok {
		s.late = max(s.late, time.Since(at))
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

func (s *store) track(e *Engine, kind Kind, i int, at time.Time) types.UID {
	name, uid := fmt.Sprintf("j%05d", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
	s.mu.Lock()
	s.objects[name], s.expiry[name] = "7", at
	s.mu.Unlock()
	e.Upsert(Entry{Kind: kind, Namespace: "ci", Name: name, UID: uid, ResourceVersion: "7", Expiry: at, Source: "namespace/ci"})
	return uid
}

// bubble runs an engine with a real clock in synthetic time.
func bubble(t *testing.T, change func(*Options), f func(t *testing.T, e *Engine, s *store, kind Kind)) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{latency: 5 * time.Millisecond, objects: map[string]string{}, expiry: map[string]time.Time{}}
		o := Options{Triggers: deletes(s)}
		if change != nil {
			change(&o)
		}
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		kind, err := e.RegisterKind(KindOptions{Type: action.Type{Resource: jobs.Resource, Kind: "Job", Namespaced: true}, Trigger: "ttl", Judge: func(context.Context, Entry) (Judgement, error) {
			return Judgement{Verdict: Gone}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		f(t, e, s, kind)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// pass lets synthetic time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// More falls due at once than may be under way, and something else soon after: the dispatcher must
// not sleep through it.
func TestRunIsPunctualAfterABurst(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxConcurrency = 3 }, func(t *testing.T, e *Engine, s *store, kind Kind) {
		due := time.Now().Add(time.Minute)
		for i := range 20 {
			s.track(e, kind, i, due)
		}
		next := due.Add(800 * time.Millisecond)
		s.track(e, kind, 100, next)
		pass(time.Until(next) - time.Millisecond)
		s.mu.Lock()
		s.late = 0
		s.mu.Unlock()
		pass(time.Second)
		if s.left() != 0 || s.late > time.Millisecond {
			t.Errorf("%d left, and one came %s late", s.left(), s.late)
		}
	})
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
		t.Logf("peak %d", s.peak)
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
		skew := servertime.NewSkew(clock.RealClock{})
		e, err := New(Options{
			Triggers: deletes(deleterFunc(func(context.Context, Request) Response { return Response{Code: 500} })), Skew: skew, Ping: func(context.Context) error { return nil },
			OnBreaker: func(e BreakerEvent) { events = append(events, e) },
		})
		if err != nil {
			t.Fatal(err)
		}
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

// The pause of a source that is gone ends while the engine has nothing else to do.
func TestRunClosesWhatIsGone(t *testing.T) {
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

func TestRunSummaryAndLog(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	var got []Summary
	bubble(t, func(o *Options) {
		o.Log = funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(&log, args)
		}, funcr.Options{})
		o.OnSummary = func(s []Summary) { mu.Lock(); defer mu.Unlock(); got = append(got, s...) }
	}, func(t *testing.T, e *Engine, s *store, kind Kind) {
		at := time.Now().Add(time.Second)
		for i := range 12 {
			s.track(e, kind, i, at)
		}
		pass(3 * time.Minute)
	})
	if len(got) != 1 || got[0].Deleted != 12 || got[0].Source != "namespace/ci" || got[0].Namespace != "ci" || len(got[0].Examples) != 10 || got[0].Kind.Kind != "Job" {
		t.Errorf("digests %+v, want one: 12 Jobs deleted by namespace/ci, with 10 examples", got)
	}
	lines := strings.Count(log.String(), `"msg"="deleted"`)
	if lines != 12 {
		t.Errorf("%d log lines for 12 deletions:\n%s", lines, log.String())
	}
	for _, want := range []string{`"kind"="Job"`, `"object"="ci/j00000"`, `"uid"="00000000-0000-4000-8000-000000000000"`, `"source"="namespace/ci"`, `"trigger"="ttl"`, `"lateness"="5ms"`, `"expiry"=`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %s:\n%s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), `"msg"="deletions so far"`); n != 1 {
		t.Errorf("%d summary lines:\n%s", n, log.String())
	}
}

func TestDeleteNow(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxDeletionsPerMinute = 4 }, func(t *testing.T, e *Engine, s *store, kind Kind) {
		object := func(i int) Entry {
			s.track(e, kind, i, time.Now().Add(time.Hour))
			return Entry{Kind: kind, Namespace: "ci", Name: fmt.Sprintf("j%05d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i)), ResourceVersion: "7", Expiry: time.Now(), Source: "policy/p"}
		}
		if out := deleteNow(t.Context(), e, object(1), nil); out.Result != Deleted || out.Err != nil {
			t.Errorf("outcome %+v, want Deleted", out)
		}
		if e.Tracked() != 0 {
			t.Error("what it deleted is still tracked for its TTL")
		}
		stale := object(2)
		stale.ResourceVersion = "6"
		if out := deleteNow(t.Context(), e, stale, func(context.Context, Entry) (Judgement, error) { return Judgement{Verdict: Keep}, nil }); out.Result != Kept {
			t.Errorf("changed, and its judge says keep: %+v", out)
		}
		if out := deleteNow(t.Context(), e, stale, func(context.Context, Entry) (Judgement, error) {
			return Judgement{}, fmt.Errorf("judging: %w", ErrNoSlot)
		}); out.Result != Held || !errors.Is(out.Err, ErrNoSlot) {
			t.Errorf("its judge gets no slot: %+v", out)
		}
		if out := deleteNow(t.Context(), e, stale, func(_ context.Context, o Entry) (Judgement, error) {
			o.ResourceVersion = "7"
			return Judgement{Verdict: Track, Object: o}, nil
		}); out.Result != Deleted {
			t.Errorf("changed, and its judge says delete: %+v", out)
		}
		early := object(3)
		early.Expiry = time.Now().Add(time.Minute)
		if out := deleteNow(t.Context(), e, early, nil); out.Result != Kept || out.Err == nil {
			t.Errorf("not due: %+v", out)
		}
		if out := deleteNow(t.Context(), e, Entry{Kind: kind}, nil); out.Result != Held {
			t.Errorf("nonsense: %+v", out)
		}
		missing := object(4)
		s.mu.Lock()
		delete(s.objects, "j00004")
		s.mu.Unlock()
		if out := deleteNow(t.Context(), e, missing, nil); out.Result != AlreadyGone {
			t.Errorf("gone: %+v", out)
		}
		// The rate holds for these too: two were accepted, two more may be.
		for i := range 2 {
			deleteNow(t.Context(), e, object(10+i), nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if out := deleteNow(ctx, e, object(20), nil); out.Result != Held || out.Err == nil {
			t.Errorf("beyond the rate: %+v", out)
		}
		pass(2 * time.Minute)
		if _, waits := e.Lookup("00000000-0000-4000-8000-000000000003"); !waits {
			t.Error("what was not due is not tracked any more")
		}
	})
}
