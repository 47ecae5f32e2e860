package tally

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// S7: two processes that both believe to lead do not both count a Pod that moved to another
// tally meanwhile: one of them, without having heard of that.
func TestTwoLeaders(t *testing.T) {
	for name, older := range map[string]bool{"the old one counts first": true, "the new one counts first": false} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t.Fatalf), t.Context()
			w.addTally("a", "a")
			w.addTally("b", "b")
			w.create("p", "a", true)
			w.end("p", corev1.PodSucceeded)
			stale := w.process()
			stale.relist(ctx)
			w.change("p", func(pod *corev1.Pod) { pod.Labels["app"] = "b" })
			leader := w.process()
			leader.relist(ctx)
			order := []func(){func() { stale.step(ctx, "a") }, func() { leader.step(ctx, "b") }}
			if !older {
				order[0], order[1] = order[1], order[0]
			}
			for range 4 {
				for _, step := range order {
					step()
					w.clock.Step(time.Second)
				}
			}
			leader.settle(ctx)
			stale.settle(ctx)
			if a, b := w.tallies["a"].Status.Succeeded, w.tallies["b"].Status.Succeeded; a+b != 1 {
				t.Errorf("a counted %d and b %d, want one Pod in all", a, b)
			}
		})
	}
}

// S7: a status whose answer was lost may be stored, whatever the next attempt is answered. The Pods
// that it lists are counted by no other PodTally.
func TestRefusedAfterALostAnswer(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	w.create("p", "a", true)
	w.end("p", corev1.PodSucceeded)
	p := w.process()
	p.relist(ctx)
	failures := 0
	w.around = func(request string, before bool) error {
		stored := w.tallies["a"].Status.UncountedTerminatedPods != nil
		switch {
		case request != "status" || !stored:
		case !before && failures == 0:
			failures++
			return errLost
		case before && failures == 1:
			failures++
			return apierrors.NewTooManyRequests("the API server is busy", 1)
		}
		return nil
	}
	for range 3 {
		p.step(ctx, "a") // The status is stored and its answer lost; the next attempt is refused.
		w.clock.Step(time.Second)
		if failures == 2 {
			break
		}
	}
	if failures != 2 {
		t.Fatalf("%d requests failed, want a lost answer and a refusal", failures)
	}
	if p.watch.space.listed[w.pods["p"].UID] == nil {
		t.Error("the Pod may be listed by another PodTally, although the status that was stored lists it")
	}
	w.around = func(string, bool) error { return nil }
	p.settle(ctx)
	w.expect(t, 0, 1, 0)
}

// S7: an event with labels from before a live read does not have a Pod released.
func TestStaleLabels(t *testing.T) {
	w, ctx := newWorld(t.Fatalf), t.Context()
	w.addTally("a", "a")
	w.create("p", "a", true)
	p := w.process()
	p.relist(ctx)
	for _, app := range []string{"none", "a"} {
		w.change("p", func(pod *corev1.Pod) { pod.Labels["app"] = app })
	}
	must(t, p.reread(ctx, p.watch.space, &pod{name: "p", uid: w.pods["p"].UID}))
	p.deliver() // That it has another label.
	p.step(ctx, "")
	if len(w.pods["p"].Finalizers) == 0 {
		t.Fatal("it was released")
	}
	w.change("p", func(pod *corev1.Pod) { pod.Labels["app"] = "none" })
	p.settle(ctx)
	if len(w.pods["p"].Finalizers) > 0 {
		t.Error("it is not released although no tally matches it any more")
	}
}

// A Pod that is being deleted counts as failed, and is released, once Kubernetes itself would not
// keep it any longer. One that may still finish, and say how, is waited for.
func TestPodsThatRunNoMore(t *testing.T) {
	const other = "example.com/logs"
	for name, test := range map[string]struct {
		node   NodeState
		forced bool
		other  bool // another finalizer keeps it as well
		failed int64
	}{
		"the Node is ready":                       {node: NodeReady},
		"force-deleted, the Node is ready":        {node: NodeReady, forced: true},
		"the Node is not ready":                   {node: NodeNotReady},
		"force-deleted, the Node is not ready":    {node: NodeNotReady, forced: true, failed: 1},
		"force-deleted, but something else holds": {node: NodeNotReady, forced: true, other: true},
		"the Node is gone":                        {node: NodeGone, failed: 1},
		"force-deleted, the Node is gone":         {node: NodeGone, forced: true, failed: 1},
		"the Node is gone, something else holds":  {node: NodeGone, other: true, failed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(t.Fatalf), t.Context()
			w.addTally("a", "a")
			w.create("p", "a", true)
			w.change("p", func(pod *corev1.Pod) {
				pod.Spec.NodeName = "n"
				if test.other {
					pod.Finalizers = append(pod.Finalizers, other)
				}
			})
			p := w.process()
			p.settle(ctx)
			if w.nodes["n"] = test.node; test.forced {
				w.force("p")
			} else {
				w.remove("p")
			}
			w.clock.Step(2 * overdueAfter)
			p.settle(ctx)
			status := w.tallies["a"].Status
			if status.Failed != test.failed || status.Active != 1-test.failed || status.UncountedTerminatedPods != nil {
				t.Errorf("status %+v, want %d failed", status, test.failed)
			}
			if left := w.pods["p"]; test.failed == 0 && left == nil || test.failed == 1 && !test.other && left != nil {
				t.Errorf("the Pod is %+v", left)
			}
			if left := w.pods["p"]; test.failed == 1 && left != nil && !slices.Equal(left.Finalizers, []string{other}) {
				t.Errorf("finalizers %q", left.Finalizers)
			}
		})
	}
}

// A Node is not ready only where it says so.
func TestStateOf(t *testing.T) {
	for want, conditions := range map[NodeState][]corev1.NodeCondition{
		NodeReady:    {{}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown}},
		NodeNotReady: {{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown}},
	} {
		for _, condition := range conditions {
			if got := stateOf(&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition}}}); got != want {
				t.Errorf("%v: %d, want %d", condition, got, want)
			}
		}
	}
}
