package expire

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

type (
	Request  = deletion.Request
	Response = deletion.Response
)

type deleterFunc func(context.Context, Request) Response

func (f deleterFunc) Delete(ctx context.Context, r Request) Response { return f(ctx, r) }

type actionFunc func(context.Context, deletion.Due) deletion.Answer

func (f actionFunc) Do(ctx context.Context, due deletion.Due) deletion.Answer { return f(ctx, due) }

var jobs = deletion.Type{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true, Protobuf: true}

// deletes are triggers that send DELETEs.
func deletes(sender deletion.Sender) []Trigger {
	do := deletion.NewDeleteAction(sender, nil, nil)
	return []Trigger{{Name: "ttl", Action: do, Deletes: true}, {Name: "label", Action: do, Deletes: true}}
}

// triggers are the triggers of a world. Its monotonic clock measures latencies.
func (w *world) triggers() []Trigger {
	w.metrics = prometheus.NewRegistry()
	do := deletion.NewDeleteAction(deleterFunc(func(ctx context.Context, r Request) Response {
		if w.hook != nil {
			return w.hook.Delete(ctx, r)
		}
		return w.Delete(ctx, r)
	}), monotonic{w}, w.metrics)
	return []Trigger{
		{Name: "ttl", Action: do, Deletes: true},
		{Name: "label", Action: do, Deletes: true},
		{Name: "deadline", Action: actionFunc(func(ctx context.Context, due deletion.Due) deletion.Answer { return w.deadline.Do(ctx, due) })},
	}
}

// monotonic is the clock of a world that never jumps.
type monotonic struct{ *world }

func (m monotonic) Now() time.Time                  { return epoch.Add(m.mono) }
func (m monotonic) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

// worker is the Work of a test.
type worker struct {
	judge Judge
	deletion.Action
}

func (w *worker) Judge(ctx context.Context, o Entry) (Judgement, error) { return w.judge(ctx, o) }

func (w *worker) Order() int { return 0 }

// deleteNow deletes one object that is not tracked, as its kind and its trigger do.
func deleteNow(ctx context.Context, e *Engine, o Entry) Outcome {
	e.mu.Lock()
	kind := e.kinds[o.Kind]
	e.mu.Unlock()
	return e.Delete(ctx, o, &worker{kind.opts.Judge, kind.trigger.Action})
}

// after lets time pass, and does what is due then.
func (w *world) after(d time.Duration) {
	w.advance(d)
	w.pump()
}

// every lets time pass n times.
func (w *world) every(n int, d time.Duration) {
	for range n {
		w.after(d)
	}
}

func sum(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func uidOf(name string, i int) types.UID { return types.UID(fmt.Sprint(name, "-", i)) }

// Next is the instant at which the engine will next look at an entry; false if it tracks none.
func (e *Engine) Next() (time.Time, bool) {
	e.mu.Lock()
	defer e.unlock()
	at, found := int64(math.MaxInt64), false
	for c := 0; e.index.Each(c, func(_ uint32, en *index.Record) {
		if en.Waits() {
			at, found = min(at, en.Wake), true
		}
	}); c++ {
	}
	if !found {
		return time.Time{}, false
	}
	return time.Unix(0, at).UTC(), true
}

// State is the state of an entry.
type State string

const (
	// Waiting: armed, its time has not come or it is about to be served.
	Waiting State = "waiting"
	// Retrying: due, tried or held back at least once, waiting for the next attempt.
	Retrying State = "retrying"
	// InFlight: a worker has it.
	InFlight State = "in-flight"
	// Reported: dry-run, and reported; or there is nothing to do until it changes.
	Reported State = "reported"
	// Terminating: it carries a deletionTimestamp.
	Terminating State = "terminating"
	// Stuck: terminating for longer than Options.StuckAfter.
	Stuck State = "stuck"
)

// Status is what the engine knows of one object.
type Status struct {
	Object   Entry
	State    State
	Attempts int
	// Next is the instant of the next attempt or check; zero if none is planned.
	Next time.Time
}

// Lookup returns the entry of an object, or the one that is due first if it has several.
func (e *Engine) Lookup(uid types.UID) (Status, bool) {
	e.mu.Lock()
	defer e.unlock()
	var first Status
	found := false
	for _, slot := range e.index.All(uid) {
		if e.index.At(slot).State == index.Tombstone {
			continue
		}
		if s := e.status(slot); !found || s.Object.Expiry.Before(first.Object.Expiry) {
			first, found = s, true
		}
	}
	return first, found
}

func (e *Engine) status(slot uint32) Status {
	en := e.index.At(slot)
	s := Status{Object: e.index.Entry(slot), Attempts: int(en.Attempts), State: Waiting}
	if en.Waits() {
		s.Next = time.Unix(0, en.Wake).UTC()
	}
	switch {
	case en.State == index.InFlight:
		s.State = InFlight
	case en.State == index.Reported:
		s.State = Reported
	case en.State == index.Terminating && en.Flags&index.FlagStuck != 0:
		s.State = Stuck
	case en.State == index.Terminating:
		s.State = Terminating
	case en.Flags&index.FlagLate != 0:
		s.State = Retrying
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
