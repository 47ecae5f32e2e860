package expire

import (
	"context"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/deletion"
)

// labelFeed is a feed of the same objects by label: its watch shows what has one, lags by itself,
// and calls it deleted when the label goes.
type labelFeed struct {
	kind    Kind
	events  []thing
	broken  bool
	listing []thing
	listRV  uint64
}

func (f *labelFeed) send(t thing) {
	if !f.broken {
		f.events = append(f.events, t)
	}
}

func (w *world) startLabels() {
	w.registerLabels()
	w.answerLabelList()
	w.handOverLabelList()
}

func (w *world) registerLabels() {
	var err error
	w.labels.kind, err = w.engine.RegisterKind(KindOptions{Type: deletion.Type{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true}, Trigger: "label",
		Judge: w.judgeLabel,
	})
	if err != nil {
		w.fatal("RegisterKind: %v", err)
	}
}

func (w *world) labelled(t *thing) Entry {
	return Entry{
		Epoch: w.engine.Epoch(), DryRun: w.around.seen == dryRunBrake,
		Kind: w.labels.kind, Namespace: "ns", Name: t.name, UID: t.uid, ResourceVersion: strconv.FormatUint(t.rv, 10),
		Expiry: t.label, Source: "object",
	}
}

// deliverLabel hands the oldest event of the watch by label to the engine.
func (w *world) deliverLabel() {
	if len(w.labels.events) == 0 || w.labels.listing != nil {
		return
	}
	t := w.labels.events[0]
	w.labels.events = w.labels.events[1:]
	w.observeLabel(t)
}

// observeLabel hands one state to the engine.
func (w *world) observeLabel(t thing) {
	switch {
	case t.gone, t.label.IsZero():
		w.engine.Remove(w.labels.kind, t.uid)
	case t.deleting.IsZero() && w.around.seen == keepBrake:
		w.engine.Cancel(w.labels.kind, t.uid, strconv.FormatUint(t.rv, 10), w.engine.Epoch())
	case !t.deleting.IsZero():
		w.engine.Terminating(w.labelled(&t), t.deleting)
	default:
		w.engine.Upsert(w.labelled(&t))
	}
}

func (w *world) answerLabelList() {
	w.labels.listing, w.labels.listRV = []thing{}, w.rv
	for _, t := range w.list() {
		if !t.label.IsZero() {
			w.labels.listing = append(w.labels.listing, t)
		}
	}
	w.labels.events, w.labels.broken = nil, false
}

func (w *world) handOverLabelList() {
	if w.labels.listing == nil {
		return
	}
	relist := w.engine.BeginRelist(w.labels.kind)
	for _, t := range w.labels.listing {
		switch {
		case t.deleting.IsZero() && w.around.seen == keepBrake:
			relist.Cancel(w.labels.kind, t.uid, strconv.FormatUint(t.rv, 10), w.engine.Epoch())
		case t.deleting.IsZero():
			relist.Upsert(w.labelled(&t))
		default:
			relist.Terminating(w.labelled(&t), t.deleting)
		}
	}
	relist.End(strconv.FormatUint(w.labels.listRV, 10))
	w.labels.listing = nil
}

func (w *world) judgeLabel(_ context.Context, o Entry) (Judgement, error) {
	t := w.things[o.Name]
	switch {
	case t == nil:
		return Judgement{Verdict: Gone}, nil
	case !t.label.IsZero() && t.deleting.IsZero():
		return w.braked(w.around.brake, w.labelled(t)), nil
	case t.uid != o.UID:
		return Judgement{Verdict: Gone}, nil
	case !t.deleting.IsZero():
		return Judgement{Verdict: BeingDeleted, Since: t.deleting}, nil
	default:
		return Judgement{Verdict: Keep}, nil
	}
}

// setLabel puts the label on, changes it or, with zero, takes it off.
func (w *world) setLabel(t *thing, instant time.Time) {
	t.label = instant
	w.changed(t)
}

func (w *world) deliverAll() {
	for len(w.events) > 0 && w.listing == nil {
		w.deliver()
	}
	for len(w.labels.events) > 0 && w.labels.listing == nil {
		w.deliverLabel()
	}
}

// both is an object that is due by its TTL and by its label.
func (w *world) both(name string, ttl, label time.Duration, finalizer bool) *thing {
	t := w.create(name, ttl, finalizer)
	w.finish(t)
	w.setLabel(t, w.server.Add(label))
	w.deliverAll()
	return t
}

// The earlier of the two deletes, once, and the other one sends nothing after it.
func TestTheEarlierOfTwoTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		ttl, label time.Duration
		trigger    string
	}{
		"ttl":   {2 * time.Second, 5 * time.Second, "ttl"},
		"label": {5 * time.Second, 2 * time.Second, "label"},
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			w.both("j", c.ttl, c.label, false)
			if got := w.engine.Tracked(); got != 2 {
				t.Fatalf("%d tracked, want one entry for each reason", got)
			}
			w.after(1999 * time.Millisecond)
			if w.deletes != 0 {
				t.Fatal("deleted before either was due")
			}
			w.after(time.Millisecond)
			w.advance(10 * time.Second) // without a word of the watch
			w.pump()
			if w.deletes != 1 || (*outcomes)[0].Trigger != c.trigger {
				t.Fatalf("%d DELETEs, outcomes %+v: want one, by %s", w.deletes, *outcomes, c.trigger)
			}
			w.deliverAll()
			if w.engine.Tracked() != 0 {
				t.Errorf("%d still tracked", w.engine.Tracked())
			}
		})
	}
}
