package expire

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// withPayload is a world in which the trigger "deadline" needs payloads, and what its judge reads.
func withPayload(t *testing.T, a deletion.Action) (w *world, object Entry, judged *int) {
	t.Helper()
	w, _, _ = ready(t, nil)
	w.engine.triggerNamed("deadline").Payload = true
	judged = new(int)
	object = w.acts(t, a, func(_ context.Context, o Entry) (Judgement, error) {
		*judged++
		o.Payload = "read live at " + o.ResourceVersion
		return Judgement{Verdict: Track, Object: o}, nil
	})
	return w, object, judged
}

// A payload reaches the action with just the state that it was given for.
func TestPayload(t *testing.T) {
	a := &scripted{}
	w, object, judged := withPayload(t, a)
	object.Payload = "of state 7"
	w.engine.Upsert(object)
	object.ResourceVersion, object.Payload = "8", "of state 8"
	w.engine.Upsert(object)
	w.after(time.Second)
	if len(a.calls) != 1 || a.calls[0].Payload != "of state 8" || a.calls[0].ResourceVersion != "8" || *judged != 0 {
		t.Errorf("%d live reads, calls %+v: want one call, with the payload of state 8", *judged, a.calls)
	}
	w.engine.Remove(object.Kind, object.UID)
	if n := w.engine.payloads.of.Len(); n != 0 {
		t.Errorf("%d payloads of deleted objects are kept", n)
	}
}

// Where the payload is not known, or is that of another state, the object is judged live before the
// action. That is no conflict, and counts as none.
func TestPayloadThatIsMissing(t *testing.T) {
	for name, lose := range map[string]func(w *world, o Entry){
		"never given": func(*world, Entry) {},
		"of another state": func(w *world, o Entry) {
			o.Payload, o.ResourceVersion = "old", "6"
			w.engine.payloads.keep(w.engine.triggerNamed("deadline"), &o)
		},
		"too many others": func(w *world, o Entry) {
			w.engine.payloads = newPayloads(3)
			for i := range 4 {
				o.Payload = "known"
				w.engine.payloads.keep(w.engine.triggerNamed("deadline"), &o)
				o.UID = types.UID(fmt.Sprint("other-", i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &scripted{}
			w, object, judged := withPayload(t, a)
			lose(w, object)
			w.after(time.Second)
			if len(a.calls) != 1 || a.calls[0].Payload != "read live at 7" || *judged != 1 {
				t.Errorf("%d live reads, calls %+v: want one of each", *judged, a.calls)
			}
			if n := metricValue(t, w.engine, `curfew_deletion_attempts_total{result="conflict"}`); n != 0 {
				t.Errorf("%v conflicts were counted", n)
			}
		})
	}
}

// A judge that gives no payload where one is needed is a bug: nothing is done, and it is tried
// again.
func TestPayloadThatTheJudgeForgets(t *testing.T) {
	a := &scripted{}
	w, object, _ := withPayload(t, a)
	w.engine.kinds[object.Kind].opts.Judge = func(_ context.Context, o Entry) (Judgement, error) {
		o.Payload = nil
		return Judgement{Verdict: Track, Object: o}, nil
	}
	w.every(10, time.Minute)
	if en := w.engine.entryOf(object.UID); len(a.calls) != 0 || en.State != index.Armed || en.Flags&index.FlagLate == 0 {
		t.Errorf("%d calls; state %d, flags %b: want another attempt", len(a.calls), en.State, en.Flags)
	}
}
