package tally

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
)

// S7: a Pod that was released for a deletion which fails is counted after all, exactly once, even
// if it finishes meanwhile, and even if Curfew is killed before the DELETE.
func TestDeletionFails(t *testing.T) {
	for name, fails := range map[string]func(w *world) deletion.Answer{
		"refused":           func(*world) deletion.Answer { return deletion.Answer{Outcome: deletion.Refused} },
		"no answer":         func(*world) deletion.Answer { return deletion.Answer{Outcome: deletion.Failed} },
		"throttled":         func(*world) deletion.Answer { return deletion.Answer{Outcome: deletion.Throttled} },
		"changed, and kept": func(*world) deletion.Answer { return deletion.Answer{Outcome: deletion.Conflict} },
		"killed":            func(*world) deletion.Answer { panic(killed{}) },
		"finished, and refused": func(w *world) deletion.Answer {
			w.end("running", corev1.PodSucceeded)
			return deletion.Answer{Outcome: deletion.Refused}
		},
		"finished, and killed":    func(w *world) deletion.Answer { w.end("running", corev1.PodSucceeded); panic(killed{}) },
		"refused, with no answer": nil, // to the release
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx := someWorld(t), t.Context()
			p := w.process()
			p.settle(ctx)
			if fails == nil {
				w.around = func(request string, before bool) error {
					if request == "count" && !before {
						return errLost
					}
					return nil
				}
			}
			func() {
				defer func() {
					if why := recover(); why != nil {
						p = w.process()
					}
				}()
				p.delete(ctx, w.due("running"), func(deletion.Due) deletion.Answer { return fails(w) })
			}()
			w.around = func(string, bool) error { return nil }
			if by := w.pods["running"].Annotations[wellknown.AnnotationCountedBy]; by != wellknown.CountedByNone {
				t.Fatalf("it was not released: counted by %q", by)
			}
			p.settle(ctx)
			w.end("running", corev1.PodSucceeded)
			p.settle(ctx)
			if got := w.tallies["a"].Status; got.Active != 0 || got.Succeeded != 3 || got.Failed != 4 || got.UncountedTerminatedPods != nil {
				t.Errorf("status %+v, want 3 succeeded and 4 failed", got)
			}
			if len(p.watch.deletions) > 0 {
				t.Errorf("still deleting %v", p.watch.deletions)
			}
		})
	}
}

// A webhook's 404 to the release does not mean that the Pod is gone. It is deleted later.
func TestReleaseIsDeniedWith404(t *testing.T) {
	w, ctx := someWorld(t), t.Context()
	p := w.process()
	p.settle(ctx)
	due, next := w.due("running"), func(deletion.Due) deletion.Answer { return deletion.Answer{Outcome: deletion.Done} }
	p.options.Cluster = &forbidding{view: p.view, name: "running", code: 404}
	if got := p.delete(ctx, due, next); got.Outcome != deletion.Refused || len(p.watch.deletions) > 0 {
		t.Errorf("%+v, still deleting %v", got, p.watch.deletions)
	}
	p.options.Cluster = p.view
	w.pods = map[string]*corev1.Pod{}
	if got := p.delete(ctx, due, next); got.Outcome != deletion.Gone {
		t.Errorf("%+v of a Pod that is gone", got)
	}
}

// S7: a Pod that someone else is deleting is not released for a deletion of Curfew's: it has failed
// once its Node is gone. After a release that would not be counted, unless the answer was lost and
// the process goes on with what it knew before.
func TestDeletedBySomeoneElse(t *testing.T) {
	for name, late := range map[string]bool{"the watch has shown it": false, "the watch is late": true} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t.Fatalf), t.Context()
			w.addTally("a", "a")
			w.create("p", "a", true)
			w.change("p", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
			w.remove("p")
			p := w.process()
			p.relist(ctx)
			if late {
				w.nodes["n"] = NodeGone
				w.clock.Step(2 * overdueAfter)
				p.overdue(ctx, p.watch.space)
				w.change("p", func(pod *corev1.Pod) { pod.Labels["other"] = "new" })
			}
			w.around = func(request string, before bool) error {
				if request == "count" && !before {
					return errLost
				}
				return nil
			}
			p.delete(ctx, w.due("p"), func(deletion.Due) deletion.Answer { return deletion.Answer{Outcome: deletion.Done} })
			if w.pods["p"] == nil {
				t.Error("it was released")
			}
			w.around, w.nodes["n"] = func(string, bool) error { return nil }, NodeGone
			w.clock.Step(2 * overdueAfter)
			p.step(ctx, "a")
			w.clock.Step(time.Second)
			p.settle(ctx)
			w.expect(t, 0, 0, 1)
		})
	}
}

// A Pod that Curfew deletes before it has finished is never counted, and not adopted meanwhile: the
// deletion would never succeed. Once it is accepted the Pod is not counted, even if another
// finalizer keeps it until it has finished.
func TestDeletionUnderWay(t *testing.T) {
	for _, kept := range []bool{false, true} {
		w, ctx := someWorld(t), t.Context()
		w.change("running", func(pod *corev1.Pod) {
			if kept {
				pod.Finalizers = []string{"example.com/logs"}
			}
		})
		p := w.process()
		p.settle(ctx)
		got := p.delete(ctx, w.due("running"), func(due deletion.Due) deletion.Answer {
			p.settle(ctx)
			if got := w.pods["running"].ResourceVersion; got != due.ResourceVersion {
				t.Errorf("the Pod has changed: %s, want %s", got, due.ResourceVersion)
			}
			w.remove("running")
			return deletion.Answer{Outcome: deletion.Done}
		})
		p.settle(ctx)
		if kept {
			w.end("running", corev1.PodSucceeded)
			w.process().settle(ctx)
			w.change("running", func(pod *corev1.Pod) {
				if pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == "example.com/logs" }); len(pod.Finalizers) > 0 {
					t.Errorf("finalizers %v", pod.Finalizers)
				}
			})
			p.settle(ctx)
		}
		w.expect(t, 0, 2, 4)
		if got.Outcome != deletion.Done || w.pods["running"] != nil || len(p.watch.deletions) > 0 {
			t.Errorf("%+v: the Pod is %+v, still deleting %v", got, w.pods["running"], p.watch.deletions)
		}
	}
}

// unlisted are PodTallies that cannot be listed, for example for want of a permission.
type unlisted struct{ *world }

func (unlisted) In(string) ([]*match.Tally, error) {
	return nil, errors.New("podtallies is forbidden")
}

// While PodTallies cannot be listed, Pods are deleted that none of them concerns. The others wait,
// and the result says why.
func TestDeletionsWhileTalliesAreUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		trigger policy.Trigger
		source  string
		held    bool
		change  func(*corev1.Pod)
		sent    bool
	}{
		"by label":                          {trigger: policy.TriggerLabel, source: "object", sent: true},
		"by its own TTL":                    {trigger: policy.TriggerTTL, source: "object", sent: true},
		"by its own TTL, with finalizer":    {trigger: policy.TriggerTTL, source: "object", held: true},
		"by default-pod-ttl":                {trigger: policy.TriggerTTL, source: "namespace/ci"},
		"by a policy":                       {trigger: policy.TriggerTTL, source: "policy/pods"},
		"by default-pod-ttl, never tallied": {trigger: policy.TriggerTTL, source: "namespace/ci", sent: true, change: func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.Fatalf)
			w.create("p", "a", false)
			w.change("p", func(pod *corev1.Pod) {
				if test.held {
					pod.Finalizers = []string{wellknown.FinalizerTally}
				}
				if test.change != nil {
					test.change(pod)
				}
			})
			p := w.process()
			delete(p.spaces, namespace)
			p.options.Tallies = unlisted{w}
			due, sent := w.due("p"), false
			due.Trigger, due.Source = string(test.trigger), test.source
			got := p.delete(t.Context(), due, func(deletion.Due) deletion.Answer { sent = true; return deletion.Answer{Outcome: deletion.Done} })
			if sent != test.sent || !sent && (got.Outcome != deletion.Refused || !strings.Contains(got.Err.Error(), "podtallies is forbidden")) {
				t.Errorf("sent %t: %+v", sent, got)
			}
		})
	}
}

// S7: the hourly search releases no Pod of a namespace in which a live read shows a PodTally that
// this process has not heard of.
func TestSweepReadsTallies(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	w.create("p", "a", true)
	p := w.process()
	delete(p.spaces, namespace)
	held := func() bool { return slices.Contains(w.pods["p"].Finalizers, wellknown.FinalizerTally) }
	if released, err := p.sweep(ctx, nil); err != nil || released != 0 || !held() {
		t.Errorf("released %d, %v", released, err)
	}
	clear(w.tallies)
	w.known = map[types.UID]bool{}
	if released, err := p.sweep(ctx, nil); err != nil || released != 1 || held() {
		t.Errorf("without a PodTally: released %d, %v", released, err)
	}
}
