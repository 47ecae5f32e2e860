package tally

import (
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
