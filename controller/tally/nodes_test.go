package tally

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
	for want, conditions := range map[NodeState][][]corev1.NodeCondition{
		NodeReady: {
			nil, {{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, {{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown}},
		},
		NodeNotReady: {
			{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}, {{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}},
		},
	} {
		for _, each := range conditions {
			if got := stateOf(&corev1.Node{Status: corev1.NodeStatus{Conditions: each}}); got != want {
				t.Errorf("%v: %d, want %d", each, got, want)
			}
		}
	}
}
