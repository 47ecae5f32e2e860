package expire

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// ready is a world in which the API server's time was seen, with hooks that remember.
func ready(t *testing.T, change func(*Options)) (*world, *[]Outcome, *[]BreakerEvent) {
	t.Helper()
	w := newWorld(t.Fatalf)
	outcomes, events := &[]Outcome{}, &[]BreakerEvent{}
	w.engine.opts.observe = func(o Outcome) { *outcomes = append(*outcomes, o) }
	w.engine.opts.OnBreaker = func(ev BreakerEvent) { *events = append(*events, ev) }
	if change != nil {
		change(&w.engine.opts)
	}
	w.engine.all.Limit, w.engine.backfill.Limit = w.engine.opts.MaxDeletionsPerMinute, w.engine.opts.BackfillPerMinute
	w.date()
	return w, outcomes, events
}

// due makes n finished objects that are due in a second, and tracks them.
func (w *world) dueSoon(n int, prefix string, change func(*Entry)) {
	for i := range n {
		x := w.create(fmt.Sprintf("%s%d", prefix, i), time.Second, false)
		w.finish(x)
		o := w.object(x)
		if change != nil {
			change(&o)
		}
		w.engine.Upsert(o)
	}
	w.events = nil
}

func count(outcomes []Outcome) map[Ending]int {
	n := map[Ending]int{}
	for _, o := range outcomes {
		n[o.Result]++
	}
	return n
}

func TestOneDeleteAtExpiry(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", nil)
	w.after(999 * time.Millisecond)
	if w.deletes != 0 {
		t.Fatalf("%d DELETEs a millisecond early", w.deletes)
	}
	w.after(21 * time.Millisecond)
	if w.deletes != 1 || len(*outcomes) != 1 {
		t.Fatalf("%d DELETEs, outcomes %v", w.deletes, *outcomes)
	}
	o := (*outcomes)[0]
	if o.Result != Deleted || o.Lateness != 20*time.Millisecond || o.Object.Name != "j0" || o.Err != nil {
		t.Errorf("outcome %+v, want j0 deleted 20ms late", o)
	}
	if w.engine.Tracked() != 0 {
		t.Errorf("%d tracked", w.engine.Tracked())
	}
}

// A default that was resolved live may have been raised since, without a word about the object: it
// is read right before the deletion.
func TestLiveDefaultIsReadAgain(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.defaultTTL = time.Second
	w.finish(w.create("j", 0, false))
	w.deliverAll()
	w.defaultTTL = time.Hour
	w.after(time.Minute)
	if w.deletes != 0 || len(*outcomes) != 0 {
		t.Fatalf("%d DELETEs, outcomes %v: the default of an hour has a minute behind it", w.deletes, *outcomes)
	}
	w.after(time.Hour)
	if n := count(*outcomes); w.deletes != 1 || n[Deleted] != 1 {
		t.Errorf("%d DELETEs, outcomes %v", w.deletes, *outcomes)
	}
}

// After an accepted DELETE stale events keep out for a while; if the object is there all the same,
// a list brings it back.
func TestTombstone(t *testing.T) {
	w, _, _ := ready(t, nil)
	w.dueSoon(1, "j", nil)
	w.faults = []fault{{code: 200}} // accepted and lost
	w.after(time.Second)
	if w.deletes != 1 {
		t.Fatalf("%d DELETEs", w.deletes)
	}
	relist := func() { w.relist(w.list(), w.rv) }
	for range 5 {
		relist()
		w.pump()
		w.advance(10 * time.Second)
	}
	if w.deletes != 1 {
		t.Fatalf("%d DELETEs: stale lists brought it back", w.deletes)
	}
	w.after(keepOut)
	relist()
	w.pump()
	if w.deletes != 2 || len(w.things) != 0 {
		t.Fatalf("%d DELETEs, %d objects left", w.deletes, len(w.things))
	}
}

func TestDryRunIsReportedOnce(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	x := w.create("j", time.Second, false)
	w.finish(x)
	o := w.object(x)
	o.DryRun = true
	w.engine.Upsert(o)
	w.faults = []fault{{code: 200}, {code: 200}}
	w.advance(time.Second)
	for range 100 {
		w.pump()
		w.advance(time.Minute)
		w.engine.Upsert(o) // relists say the same again
	}
	if n := count(*outcomes); w.deletes != 1 || n[DryRun] != 1 {
		t.Fatalf("%d requests, %v", w.deletes, n)
	}
	if state := w.engine.entryOf(x.uid).State; state != index.Reported || w.engine.Tracked() != 1 {
		t.Errorf("state %d; want it tracked as Reported", state)
	}
	o.Expiry = w.server.Add(time.Minute) // its TTL was raised: it is reported again when that is over
	w.engine.Upsert(o)
	w.after(time.Minute)
	if w.deletes != 2 {
		t.Errorf("%d requests after the expiry changed", w.deletes)
	}
	o.DryRun = false
	w.changed(x)
	o.ResourceVersion = w.object(x).ResourceVersion
	w.engine.Upsert(o)
	w.pump()
	if n := count(*outcomes); n[Deleted] != 1 {
		t.Errorf("enforced again: %v", n)
	}
}

func TestEngineDryRun(t *testing.T) {
	w, outcomes, _ := ready(t, func(o *Options) { o.DryRun = true })
	w.dueSoon(3, "j", nil)
	w.faults = []fault{{code: 200}, {code: 200}, {code: 200}}
	w.after(time.Minute)
	if n := count(*outcomes); n[DryRun] != 3 || len(w.things) != 3 {
		t.Errorf("%v, %d objects left", n, len(w.things))
	}
}

// A conflict is judged afresh at once, in the same attempt.
func TestConflictIsJudgedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		race func(w *world, x *thing)
		want Ending
		left int
		next time.Duration // expiry of the entry that is tracked afterwards; 0: none is
	}{
		"status changed only":    {func(w *world, x *thing) { w.changed(x) }, Deleted, 0, 0},
		"TTL raised":             {func(w *world, x *thing) { x.ttl = time.Hour; w.changed(x) }, "", 1, time.Hour},
		"TTL taken away":         {func(w *world, x *thing) { x.ttl = -1; w.changed(x) }, Kept, 1, 0},
		"re-created":             {func(w *world, x *thing) { w.erase(x); w.create(x.name, time.Hour, false) }, AlreadyGone, 1, 0},
		"re-created, and is due": {func(w *world, x *thing) { w.erase(x); y := w.create(x.name, time.Hour, false); w.finish(y) }, AlreadyGone, 1, time.Hour + time.Second},
		"gone":                   {func(w *world, x *thing) { w.erase(x) }, AlreadyGone, 0, 0},
		"being deleted":          {func(w *world, x *thing) { x.deleting = w.server; w.changed(x) }, AlreadyGone, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			w.dueSoon(1, "j", nil)
			w.racing = func(x *thing) { c.race(w, x) }
			w.after(time.Second)
			var got Ending
			if len(*outcomes) > 0 {
				got = (*outcomes)[0].Result
			}
			if got != c.want || len(*outcomes) > 1 || len(w.things) != c.left {
				t.Errorf("outcomes %v, %d left; want %q and %d", *outcomes, len(w.things), c.want, c.left)
			}
			var next time.Duration
			for _, x := range w.list() {
				if en := w.engine.entryOf(x.uid); en.State == index.Armed && en.Flags&index.FlagLate == 0 {
					next = time.Unix(0, en.Expiry).Sub(epoch)
				}
			}
			if next != c.next {
				t.Errorf("tracked with expiry %s, want %s", next, c.next)
			}
		})
	}
}

func TestStuckIsReportedOnce(t *testing.T) {
	w, _, _ := ready(t, nil)
	var stuck []StuckObject
	w.engine.opts.OnStuck = func(s StuckObject) { stuck = append(stuck, s) }
	x := w.create("j", time.Second, true)
	w.finish(x)
	for range 2 {
		w.deliver()
	}
	w.after(time.Second)
	w.deliver() // deletionTimestamp
	if state := w.engine.entryOf(x.uid).State; state != index.Terminating || w.engine.Tracked() != 0 {
		t.Fatalf("state %d; want it Terminating, and not tracked", state)
	}
	for range 100 {
		w.after(time.Minute)
		w.changed(x)
		w.deliver()
		w.relist(w.list(), w.rv)
	}
	if len(stuck) != 1 || stuck[0].Object.UID != x.uid || !stuck[0].Since.Equal(epoch.Add(time.Second)) || w.deletes != 1 {
		t.Fatalf("%d DELETEs, stuck %+v", w.deletes, stuck)
	}
	if got := metricValue(t, w.engine, "curfew_stuck_objects"); got != 1 {
		t.Errorf("curfew_stuck_objects %v", got)
	}
	w.erase(x)
	w.deliver()
	if got := metricValue(t, w.engine, "curfew_stuck_objects"); got != 0 {
		t.Errorf("curfew_stuck_objects %v after it went", got)
	}
}

// What cannot be judged is neither deleted nor forgotten, and pauses its own source only.
func TestJudgeFails(t *testing.T) {
	w, outcomes, events := ready(t, nil)
	w.judgeErr = 1 << 30
	w.dueSoon(8, "live", func(o *Entry) { o.Live, o.Source = true, "runtime/r" })
	w.dueSoon(8, "j", nil)
	w.after(time.Second)
	if n := count(*outcomes); n[Deleted] != 8 || n[Failed] != breakerThreshold {
		t.Fatalf("outcomes %v, want 8 Deleted and %d Failed", n, breakerThreshold)
	}
	if len(*events) != 1 || (*events)[0].Class != "runtime" || (*events)[0].Reason != ReasonNotJudged {
		t.Fatalf("events %+v, want one of class runtime, NotJudged", *events)
	}
	w.judgeErr = 0
	w.every(10, 10*time.Second)
	if n := count(*outcomes); n[Deleted] != 16 {
		t.Errorf("%v in the end", n)
	}
}

// Rules that are being replaced are no evidence against a source: its objects wait, and nothing is
// paused.
func TestRulesAreReplaced(t *testing.T) {
	w, outcomes, events := ready(t, nil)
	w.judgeErr, w.judgeFault = 1<<30, fmt.Errorf("wrapped: %w", ErrRulesChanged)
	w.dueSoon(2*breakerThreshold, "live", func(o *Entry) { o.Live, o.Source = true, "policy/p" })
	w.after(time.Second)
	if n := count(*outcomes); n[Failed] != 2*breakerThreshold || n[Deleted] != 0 {
		t.Fatalf("%v, want each tried once", n)
	}
	w.judgeErr = 0
	w.every(10, time.Second)
	if n := count(*outcomes); n[Deleted] != 2*breakerThreshold || len(*events) > 0 {
		t.Errorf("%v in the end, events %+v; want all deleted, and none", n, *events)
	}
}

func TestUnanswered(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", nil)
	w.faults = []fault{{carriedOut: true}}
	w.every(3, 2*time.Second)
	if n := count(*outcomes); n[Failed] != 1 || n[Unconfirmed] != 1 {
		t.Errorf("outcomes %v, want one Failed and one Unconfirmed", n)
	}
}

func TestRelistSweeps(t *testing.T) {
	w, _, _ := ready(t, nil)
	w.dueSoon(5, "j", nil)
	list, rv := w.list(), w.rv
	w.dueSoon(3, "newer", nil)
	if n := w.engine.BeginRelist(w.kind).End(fmt.Sprint(rv)); n != 5 {
		t.Errorf("%d dropped by an empty list, want the 5 that it should have shown", n)
	}
	w.relist(list, rv)
	if got := w.engine.Tracked(); got != 8 {
		t.Errorf("%d tracked", got)
	}
	if n := w.engine.BeginRelist(w.kind).End(""); n != 8 {
		t.Errorf("%d dropped by a list without a resourceVersion, want all 8", n)
	}
}

func TestRegistering(t *testing.T) {
	w, _, _ := ready(t, nil)
	for name, k := range map[string]KindOptions{
		"Resource is":            {Type: deletion.Type{Kind: "X"}, Trigger: "ttl", Judge: w.judge},
		"KindOptions.Kind of":    {Type: deletion.Type{Resource: jobs.Resource}, Trigger: "ttl", Judge: w.judge},
		"KindOptions.Judge of":   {Type: jobs, Trigger: "ttl"},
		"KindOptions.Trigger of": {Type: jobs, Trigger: "no such", Judge: w.judge},
	} {
		if _, err := w.engine.RegisterKind(k); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without it, the error is %v, want one that names %q", err, name)
		}
	}
	if _, err := New(Options{Skew: w.skew, MaxConcurrency: -1}); err == nil ||
		!strings.Contains(err.Error(), "Triggers") || !strings.Contains(err.Error(), "Ping") || !strings.Contains(err.Error(), "MaxConcurrency is -1") {
		t.Errorf("New: %v", err)
	}
	// A bug in a feed breaks nothing.
	w.engine.Upsert(Entry{Expiry: epoch, UID: "x", Name: "n"})
	w.engine.Upsert(Entry{Kind: w.kind, Expiry: epoch, Name: "n"})
	w.engine.Remove(99, types.UID("x"))
	if w.engine.Tracked() != 0 {
		t.Error("nonsense is tracked")
	}
}

// A kind is forgotten while one of its DELETEs is under way, and another kind gets its handle: the
// answer does not affect that.
func TestKindForgottenDuringADelete(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	scoped := func(scope string) Kind {
		return registered(t, w.engine, KindOptions{Type: jobs, Trigger: "label", Scope: scope, Judge: w.judge})
	}
	old := scoped("ci-1")
	w.dueSoon(1, "j", func(o *Entry) { o.Kind = old })
	w.advance(time.Second)
	w.hook = deleterFunc(func(_ context.Context, r Request) Response {
		w.engine.ForgetKind(old)
		o := w.object(w.create("k", time.Hour, false))
		o.Kind, o.Expiry = scoped("ci-2"), w.server.Add(time.Hour)
		w.engine.Upsert(o)
		return Response{Code: http.StatusInternalServerError}
	})
	w.pump()
	if n := count(*outcomes); n[Failed] != 1 || w.engine.Tracked() != 1 {
		t.Errorf("%v, %d tracked; want a failure, and the object of the kind that has the handle now", n, w.engine.Tracked())
	}
}
