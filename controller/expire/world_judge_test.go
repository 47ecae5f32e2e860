package expire

import (
	"maps"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/test/world/invariants"
)

// referee has the invariants judge what the engine does to the objects of a world. It sees what the
// API server sees: objects, their Namespace, and DELETEs.
type referee struct {
	*invariants.Judge
	namespace *unstructured.Unstructured
}

const theEngine = "the engine"

func newReferee() *referee {
	return &referee{Judge: &invariants.Judge{
		Curfew: func(client string) bool { return client == theEngine },
		// The engine gets each change, or reads live: no older rule counts.
		Since: func(sent time.Time) time.Time { return sent }, Stamped: true,
	}}
}

// judged judges a DELETE that is accepted, of the state that an object is in.
func (w *world) judged(r Request, t *thing) {
	w.govern()
	w.referee.Grain = 0
	if w.skewed {
		w.referee.Grain = time.Second + time.Second/100 // the Date header's, and what clocks may drift between two of them
	}
	record := w.record("delete", t, nil)
	record.Client, record.Trigger = theEngine, "ttl"
	if r.Trigger == "label" {
		record.Trigger = "label"
	}
	record.Preconditions = &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion}
	w.referee.Add(record)
	w.upheld(w.referee.Judge)
}

// forgotten fails if an object has been due for too long.
func (w *world) forgotten(within time.Duration) {
	w.govern()
	end := newReferee()
	end.Add(namespaceRecord(nil, w.referee.namespace, w.server.Add(-1)))
	for _, t := range w.things {
		end.Add(w.record("create", nil, t))
	}
	end.Settle(w.server, within)
	w.upheld(end.Judge)
}

func (w *world) upheld(judge *invariants.Judge) {
	if faults := judge.Faults(); len(faults) > 0 {
		w.fatal("%s", strings.Join(faults, "\n"))
	}
}

// govern tells the referee what the Namespace says now: the default, for objects of any age, and a
// brake that the caches show too. (Where only they are late, live reads may show that it is over.)
func (w *world) govern() {
	annotations := map[string]any{"curfew.dev/default-ttl": w.defaultTTL.String(), "curfew.dev/backfill": "true"}
	if w.around.seen != noBrake && w.around.brake != noBrake {
		annotations["curfew.dev/mode"] = "dry-run"
	}
	metadata := map[string]any{"name": "ns", "annotations": annotations}
	next := &unstructured.Unstructured{Object: map[string]any{"kind": "Namespace", "metadata": metadata}}
	last := w.referee.namespace
	if last == nil || !maps.Equal(last.GetAnnotations(), next.GetAnnotations()) {
		w.referee.Add(namespaceRecord(last, next, w.server.Add(-1)))
		w.referee.namespace = next
	}
}

func namespaceRecord(before, after *unstructured.Unstructured, t time.Time) *invariants.Record {
	return &invariants.Record{
		Verb: "update", Resource: "namespaces", Kind: "Namespace", Name: "ns", Code: 200, Before: before, After: after, Sent: t, At: t,
	}
}

func (w *world) record(verb string, before, after *thing) *invariants.Record {
	record := &invariants.Record{
		Verb: verb, Group: "batch", Resource: "jobs", Kind: "Job", Namespace: "ns", Code: 200, Sent: w.server, At: w.server,
	}
	if before != nil {
		record.Name, record.Before = before.name, before.state()
	}
	if after != nil {
		record.Name, record.After = after.name, after.state()
	}
	return record
}

// state is the thing as a Job.
func (t *thing) state() *unstructured.Unstructured {
	metadata := map[string]any{"namespace": "ns", "name": t.name, "uid": string(t.uid), "resourceVersion": strconv.FormatUint(t.rv, 10)}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}}
	switch {
	case t.ttl < 0:
		metadata["annotations"] = map[string]any{"curfew.dev/ttl-after-finished": "never"}
	case t.ttl > 0:
		metadata["annotations"] = map[string]any{"curfew.dev/ttl-after-finished": t.ttl.String()}
	}
	if !t.label.IsZero() {
		metadata["labels"] = map[string]any{"curfew.dev/ttl": t.label.UTC().Format("2006-01-02T150405Z")}
	}
	if !t.deleting.IsZero() {
		metadata["deletionTimestamp"] = t.deleting.UTC().Format(time.RFC3339)
	}
	if !t.finished.IsZero() {
		out.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "Complete", "status": "True", "lastTransitionTime": t.finished.UTC().Format(time.RFC3339Nano)}}}
	}
	return out
}
