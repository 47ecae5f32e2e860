package tally

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
)

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
			got := p.delete(t.Context(), due, func(action.Due) action.Answer { sent = true; return action.Answer{Outcome: action.Done} })
			if sent != test.sent || !sent && (got.Outcome != action.Refused || !strings.Contains(got.Err.Error(), "podtallies is forbidden")) {
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
	if released, err := p.sweep(ctx, "", nil); err != nil || released != 0 || !held() {
		t.Errorf("released %d, %v", released, err)
	}
	clear(w.tallies)
	w.known = map[types.UID]bool{}
	if released, err := p.sweep(ctx, "", nil); err != nil || released != 1 || held() {
		t.Errorf("without a PodTally: released %d, %v", released, err)
	}
}
