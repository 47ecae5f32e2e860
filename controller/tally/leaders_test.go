package tally

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
			w.change("p", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
			w.finish("p", corev1.PodSucceeded)
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
	if err := p.reread(ctx, p.watch.space, &pod{name: "p", uid: w.pods["p"].UID}); err != nil {
		t.Fatal(err)
	}
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
