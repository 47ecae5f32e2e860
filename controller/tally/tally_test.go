package tally

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// someWorld has one Pod for each way in which a Pod is counted, or is not.
func someWorld(t *testing.T) *world {
	w := newWorld(t.Fatalf)
	w.addTally("a", "a")
	for name, phase := range map[string]corev1.PodPhase{"succeeded": corev1.PodSucceeded, "failed": corev1.PodFailed} {
		for _, admitted := range []bool{true, false} { // The other slipped past admission, and is adopted.
			text := fmt.Sprintf("%s-%v", name, admitted)
			w.create(text, "a", admitted)
			w.end(text, phase)
		}
	}
	w.create("deleted", "a", true)
	w.remove("deleted") // It was never scheduled, so that it has failed.
	w.create("running", "a", false)
	w.create("lost", "a", true)
	w.change("lost", func(pod *corev1.Pod) { pod.Spec.NodeName = "gone" })
	w.remove("lost") // Its Node is gone, so that it has failed.
	w.create("orphan", "a", true)
	w.change("orphan", func(pod *corev1.Pod) { pod.Labels["app"] = "none" })
	w.clock.Step(time.Hour)
	return w
}

func (w *world) expect(t *testing.T, active, succeeded, failed int64) {
	t.Helper()
	status := &w.tallies["a"].Status
	if status.Active != active || status.Succeeded != succeeded || status.Failed != failed || status.UncountedTerminatedPods != nil {
		t.Errorf("status %+v, want %d active, %d succeeded, %d failed", status, active, succeeded, failed)
	}
	for _, pod := range w.pods {
		if held := slices.Contains(pod.Finalizers, wellknown.FinalizerTally); held != (pod.Name == "running") {
			t.Errorf("Pod %s: finalizers %v", pod.Name, pod.Finalizers)
		}
	}
}

// S7: killed before or after any of its requests, or without an answer to it, the next process
// counts each Pod once.
func TestCrashes(t *testing.T) {
	whole := someWorld(t)
	whole.process().settle(t.Context())
	whole.expect(t, 1, 2, 4)
	if whole.requests < 12 {
		t.Fatalf("%d requests: this test looks at few", whole.requests)
	}
	for i := 1; i <= whole.requests; i++ {
		for name, how := range map[string]struct{ kill, before bool }{
			"killed before": {true, true}, "killed after": {true, false}, "not sent": {false, true}, "answer lost": {false, false},
		} {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				w := someWorld(t)
				w.around = func(_ string, before bool) error {
					switch {
					case w.requests != i || before != how.before:
						return nil
					case how.kill:
						panic(killed{})
					default:
						return errLost
					}
				}
				func() {
					defer func() {
						if why := recover(); why != nil && why != (killed{}) {
							panic(why)
						}
					}()
					w.process().settle(t.Context())
				}()
				w.process().settle(t.Context())
				w.expect(t, 1, 2, 4)
			})
		}
	}
}

// S7: an event from before what a request has shown does not have a Pod listed again.
func TestStaleEvents(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"counted": func(*world) {},
		"gone": func(w *world) {
			w.change("p", func(pod *corev1.Pod) { pod.Finalizers = nil })
			w.remove("p")
		},
		"created again": func(w *world) {
			w.change("p", func(pod *corev1.Pod) { pod.Finalizers = nil })
			w.remove("p")
			w.create("p", "a", true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.Fatalf)
			w.addTally("a", "a")
			w.create("p", "a", true)
			w.end("p", corev1.PodSucceeded)
			p, ctx := w.process(), t.Context()
			p.relist(ctx)
			w.change("p", func(pod *corev1.Pod) { pod.Labels["more"] = "yes" }) // The watch is late with this.
			w.around = func(request string, before bool) error {
				if request == "count" && before {
					meanwhile(w)
				}
				return nil
			}
			for range 3 { // Without a single event.
				p.step(ctx, "a")
				w.clock.Step(time.Second)
			}
			if got := w.tallies["a"].Status; got.Succeeded != 1 || got.UncountedTerminatedPods != nil {
				t.Fatalf("status %+v", got)
			}
			w.around = func(string, bool) error { return nil }
			p.deliver()
			for range 3 {
				p.step(ctx, "a")
				w.clock.Step(time.Second)
			}
			p.settle(ctx)
			if got := w.tallies["a"].Status; got.Succeeded != 1 {
				t.Fatalf("status %+v", got)
			}
		})
	}
}

// A status that someone edits is restored: no count is lost by it.
func TestEditedStatus(t *testing.T) {
	w := someWorld(t)
	p, ctx := w.process(), t.Context()
	p.settle(ctx)
	object := w.tallies["a"]
	object.Status.Succeeded, object.Editor, object.ResourceVersion = 0, "kubectl-edit", w.next()
	w.end("running", corev1.PodSucceeded)
	p.settle(ctx)
	if got := object.Status; got.Succeeded != 3 || got.Failed != 4 {
		t.Errorf("status %+v, want what was counted before and one more", got)
	}
}

// Switched off, all Pods are released; switched on again, none is counted twice, not even those
// that a status had listed. The status of a tally in another namespace says nothing about them.
func TestSwitchedOff(t *testing.T) {
	w, ctx := someWorld(t), t.Context()
	p := w.process()
	w.around = func(request string, before bool) error {
		if request == "count" {
			panic(killed{})
		}
		return nil
	}
	func() {
		defer func() { _ = recover() }()
		p.settle(ctx)
	}()
	w.around = func(string, bool) error { return nil }
	w.known = map[types.UID]bool{} // All may be released.
	w.change("running", func(pod *corev1.Pod) { pod.Finalizers = []string{wellknown.FinalizerTally} })
	w.addTally("forged", "none")
	w.tallies["forged"].Namespace = "other"
	w.tallies["forged"].Status.UncountedTerminatedPods = &v1alpha1.UncountedTerminatedPods{Failed: []types.UID{w.pods["running"].UID}}
	off := w.process()
	off.options.Cluster = w
	listed, err := off.listedPods(ctx)
	if err != nil || len(listed) < 2 {
		t.Fatalf("listed %v, %v", listed, err)
	}
	delete(w.tallies, "forged")
	_, err = off.sweep(ctx, listed)
	must(t, err)
	for _, pod := range w.pods {
		if slices.Contains(pod.Finalizers, wellknown.FinalizerTally) {
			t.Errorf("Pod %s has the finalizer", pod.Name)
		}
	}
	w.process().settle(ctx)
	status := w.tallies["a"].Status
	if status.Succeeded != 2 || status.UncountedTerminatedPods != nil || status.Active != 1 {
		t.Errorf("status %+v", status)
	}
}

// The patches only ever name Curfew's own finalizer (S5), and the UID of the Pod (S2).
func TestPatches(t *testing.T) {
	for want, got := range map[string][]byte{
		`{"metadata":{"uid":"u","resourceVersion":"7","finalizers":["curfew.dev/tally"]}}`:                                                                                                    adoption(&pod{uid: "u", version: 7}),
		`{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"curfew.dev/counted-by":null},"finalizers":["curfew.dev/tally"]}}`:                                                       adoption(&pod{uid: "u", version: 7, released: true}),
		`{"metadata":{"uid":"u","resourceVersion":"7","$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"]}}`:                                                                           releasing("u", "7"),
		`{"metadata":{"uid":"u","annotations":{"curfew.dev/counted-by":"t"},"$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"]}}`:                                                     counting("u", "t"),
		`{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"curfew.dev/counted-by":"` + wellknown.CountedByNone + `"},"$deleteFromPrimitiveList/finalizers":["curfew.dev/tally"]}}`: disowning("u", "7"),
	} {
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A full status stays under 20 kB.
func TestLedgerIsBounded(t *testing.T) {
	l := ledger{}
	for i := range 600 {
		if uid := types.UID(fmt.Sprintf("%036d", i)); l.fits(uid) {
			l.add(uid, outcome(1+i%2))
		}
	}
	entry, status := &tally{conflicts: 1, match: &match.Tally{}}, &v1alpha1.PodTallyStatus{}
	l.write(status)
	entry.describe(status, time.Now())
	data, err := json.Marshal(status)
	if err != nil || len(data) > 20_000 || len(l.uncounted) < 400 {
		t.Errorf("%d bytes with %d UIDs, %v", len(data), len(l.uncounted), err)
	}
	if again := readLedger(status); len(again.uncounted) != len(l.uncounted) || again.bytes != l.bytes {
		t.Errorf("read %d UIDs, %d bytes", len(again.uncounted), again.bytes)
	}
}

// Who owns a count in managedFields has edited the status.
func TestEditor(t *testing.T) {
	fields := func(manager, subresource, owned string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(owned)}
	}
	for want, list := range map[string][]metav1.ManagedFieldsEntry{
		"":             {fields("kubectl-create", "", `{"f:spec":{}}`), fields(fieldManager, "status", `{"f:status":{"f:succeeded":{}}}`)},
		"kubectl-edit": {fields(fieldManager, "status", `{"f:status":{"f:failed":{}}}`), fields("kubectl-edit", "status", `{"f:status":{"f:succeeded":{}}}`)},
	} {
		if got := editorOf(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A Pod that stops matching changes the numbers of the tally that counted it, and of one that could
// not, though it does not concern them any more.
func TestNumbersAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(t.Fatalf)
		w.lock = new(sync.Mutex)
		w.addTally("a", "a")
		w.clock.Step(time.Second)
		w.addTally("b", "a")
		w.create("p", "a", true)
		c := onRealTime(t, w, clock.RealClock{})
		s := c.newSpace(namespace)
		must(t, c.load(ctx, s))
		must(t, listPods(ctx, s))
		c.rounds(ctx)
		check := func(active int64, conflicting metav1.ConditionStatus) {
			t.Helper()
			time.Sleep(time.Minute) // Within a bubble: no time passes.
			synctest.Wait()
			a, b := w.tallies["a"].Status, w.tallies["b"].Status
			if a.Active != active || !meta.IsStatusConditionPresentAndEqual(b.Conditions, v1alpha1.ConditionConflicting, conflicting) {
				t.Errorf("status %+v and %+v, want %d active and Conflicting %s", a, b, active, conflicting)
			}
		}
		check(1, metav1.ConditionTrue)
		w.lock.Lock()
		w.change("p", func(pod *corev1.Pod) { pod.Labels["app"] = "none" })
		s.observe(w.pods["p"], false)
		w.lock.Unlock()
		check(0, metav1.ConditionFalse)
		cancel()
		c.all.Wait()
	})
}

// No request is sent after the end of the time, and few after the first answer of an overloaded API
// server, which is what fails. So many are in flight of one tally, and of all: each takes a second.
func TestSend(t *testing.T) {
	for name, test := range map[string]struct {
		answer                 error
		tallies, sent, seconds int
	}{
		"all are answered":    {tallies: 3, sent: 1500, seconds: 1500 / maxInFlight},
		"denied by a webhook": {tallies: 1, answer: denied(429), sent: 500, seconds: 500 / maxPerTally},
		"a webhook fails":     {tallies: 1, answer: apierrors.NewInternalError(errors.New(`failed calling webhook "w": context deadline exceeded`)), sent: 500, seconds: 500 / maxPerTally},
		"overloaded":          {tallies: 1, answer: denied(500), sent: maxPerTally},
		"no time is left":     {tallies: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.sent == 0 {
					cancel()
				}
				var sent atomic.Int64
				requests := slices.Repeat([]request{func(context.Context) error {
					if sent.Add(1) == 1 {
						time.Sleep(time.Millisecond)
						return test.answer
					}
					time.Sleep(time.Second)
					return nil
				}}, 500)
				send, all, began := sender(), sync.WaitGroup{}, time.Now()
				for range test.tallies {
					all.Go(func() {
						if err := send(ctx, requests); err != test.answer {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if seconds := int(time.Since(began).Seconds()); int(sent.Load()) != test.sent || seconds < test.seconds || seconds > test.seconds+2 {
					t.Errorf("%d requests take %d seconds", sent.Load(), seconds)
				}
			})
		})
	}
}

var must = builders.Must
