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
	"curfew.dev/curfew/test/builders"
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
	nanos, found := int64(math.MaxInt64), false
	for c := 0; e.index.Each(c, func(_ uint32, en *index.Record) {
		if en.Waits() {
			nanos, found = min(nanos, en.Wake), true
		}
	}); c++ {
	}
	if !found {
		return time.Time{}, false
	}
	return time.Unix(0, nanos).UTC(), true
}

// entryOf returns the record of an object that has one entry, and an empty one if it has none.
func (e *Engine) entryOf(uid types.UID) *index.Record {
	for _, slot := range e.index.All(uid) {
		return e.index.At(slot)
	}
	return &index.Record{}
}

var must = builders.Must
