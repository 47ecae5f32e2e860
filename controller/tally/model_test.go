package tally

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

type killed struct{}

// Whatever admission, users, the kubelet, lost answers, crashes and a process that seemed to be
// dead do at any moment: each Pod is counted once, by the tally that it matches, and no finalizer
// is left behind (S7).
func TestModel(t *testing.T) {
	for range 20 { // The bugs that it is for take some thousand runs.
		rapid.Check(t, runModel)
	}
}

func runModel(t *rapid.T) {
	m := &model{t: t, world: newWorld(t.Fatalf)}
	m.world.addTally("a", "a")
	m.process = m.world.process()
	m.world.around = m.around
	for range rapid.IntRange(1, 120).Draw(t, "steps") {
		m.act()
	}
	m.end()
}

type model struct {
	t       *rapid.T
	world   *world
	process *process
	zombie  *process
	quiet   bool
	depth   int
}

// act is one thing that happens.
func (m *model) act() {
	switch rapid.IntRange(0, 9).Draw(m.t, "act") {
	case 0, 1, 2:
		m.users()
	case 3:
		m.process.deliver()
		m.process.deliver()
	case 4:
		m.delete()
	case 5, 6, 7:
		m.world.clock.Step(time.Second)
		m.run(m.process)
	case 8:
		if m.zombie != nil {
			m.zombie.deliver()
			m.run(m.zombie)
		}
	default:
		switch rapid.IntRange(0, 2).Draw(m.t, "rare") {
		case 0:
			m.process.watch.Again()
		case 1:
			m.zombie, m.process = m.process, m.world.process() // The first goes on, with whatever it knows.
		default:
			m.zombie, m.process = nil, m.world.process()
		}
	}
}

// users is a step of anyone but Curfew.
func (m *model) users() {
	name := rapid.SampledFrom([]string{"p", "q"}).Draw(m.t, "pod")
	app := rapid.SampledFrom([]string{"a", "a", "a", "b", "none"}).Draw(m.t, "app")
	switch rapid.IntRange(0, 13).Draw(m.t, "user") {
	case 0, 1, 9, 10:
		m.world.create(name, app, rapid.Bool().Draw(m.t, "admitted"))
	case 2, 3, 11:
		m.world.end(name, rapid.SampledFrom([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}).Draw(m.t, "phase"))
	case 4:
		m.world.change(name, func(pod *corev1.Pod) {
			if pod.DeletionTimestamp == nil {
				pod.Spec.NodeName = "n"
			}
		})
	case 5, 6:
		m.world.remove(name)
	case 7:
		m.world.change(name, func(pod *corev1.Pod) { pod.Labels["app"] = app })
	case 8:
		m.tallies()
	case 12:
		m.world.force(name)
	default:
		m.world.nodes["n"] = rapid.SampledFrom([]NodeState{NodeReady, NodeNotReady, NodeGone}).Draw(m.t, "node")
		m.world.clock.Step(2 * overdueAfter)
		m.process.overdue(context.Background(), m.process.watch.space)
	}
}

// delete has Curfew delete a Pod in the state that it has now, if nothing changes meanwhile. The
// API server may refuse that, as may the webhook of another, and Curfew may be killed.
func (m *model) delete() {
	if m.world.pods["p"] == nil {
		return
	}
	m.world.known = m.process.view.tallies
	next := deletes(func(due deletion.Due) deletion.Answer {
		if err := m.around("delete", true); err != nil || rapid.Bool().Draw(m.t, "refused") {
			return deletion.Answer{Outcome: deletion.Refused}
		}
		now := m.world.pods["p"]
		if now == nil || now.UID != due.UID || now.ResourceVersion != due.ResourceVersion {
			return deletion.Answer{Outcome: deletion.Conflict}
		}
		finished := now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed
		if slices.Contains(now.Finalizers, wellknown.FinalizerTally) && !finished && now.DeletionTimestamp == nil && !m.world.mayRelease(now) {
			m.t.Fatalf("Pod %s is deleted before it is released", now.UID)
		}
		m.world.remove("p")
		if m.around("delete", false) != nil {
			return deletion.Answer{}
		}
		return deletion.Answer{Outcome: deletion.Done}
	})
	p, due := m.process, m.world.due("p")
	m.killable(p, func() { p.delete(context.Background(), due, next) })
}

// tallies creates or deletes one, or edits anything but its status.
func (m *model) tallies() {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(m.t, "tally")
	object := m.world.tallies[name]
	switch {
	case object == nil:
		value := map[string]string{"a": "a", "b": "b", "c": "a"}[name]
		m.world.clock.Step(time.Second) // Tallies of the same second may swap their Pods.
		m.world.addTally(name, value)
		m.process.watch.Again()
	case rapid.Bool().Draw(m.t, "edit"):
		object.ResourceVersion = m.world.next()
	default:
		delete(m.world.tallies, name)
		m.process.watch.Again()
	}
}

// run has a process do a round.
func (m *model) run(p *process) {
	m.killable(p, func() {
		p.step(context.Background(), rapid.SampledFrom([]string{"a", "a", "a", "b", "c", ""}).Draw(m.t, "round"))
	})
}

// killable does something during which a process may be killed.
func (m *model) killable(p *process, do func()) {
	m.depth++
	defer func() {
		m.depth--
		switch why := recover().(type) {
		case nil:
		case killed:
			if p == m.zombie {
				m.zombie = nil
			} else {
				m.process = m.world.process()
			}
		default:
			panic(why)
		}
	}()
	do()
}

// around lets anything happen around a request, the answer be lost, or the request be refused.
func (m *model) around(request string, before bool) error {
	if m.quiet || m.depth == 0 {
		return nil
	}
	switch rapid.IntRange(0, 19).Draw(m.t, "around "+request) {
	case 0:
		panic(killed{})
	case 1:
		return errLost
	case 2, 3:
		m.users()
	case 4, 5:
		m.process.deliver()
	case 6:
		if before {
			return apierrors.NewTooManyRequests("the API server is busy", 1)
		}
	}
	return nil
}

// end lets all Pods end and all be counted, and checks that nothing is left.
func (m *model) end() {
	m.quiet = true
	m.process = m.world.process()
	ctx := context.Background()
	m.process.settle(ctx)
	for _, name := range []string{"p", "q"} {
		if pod := m.world.pods[name]; pod != nil && m.world.runsNoMore(pod) {
			m.t.Fatalf("Pod %s can no longer run and is still there", pod.UID)
		}
		m.world.end(name, corev1.PodSucceeded)
	}
	m.process.settle(ctx)
	for _, pod := range m.world.pods {
		if slices.Contains(pod.Finalizers, wellknown.FinalizerTally) {
			m.t.Fatalf("Pod %s is left with the finalizer", pod.UID)
		}
		if m.world.owner(pod) != nil && pod.DeletionTimestamp == nil && policy.FactsOfPod(pod).CountedBy() == "" {
			m.t.Fatalf("Pod %s is not counted", pod.UID)
		}
	}
	for uid, by := range m.world.owed {
		exists := slices.ContainsFunc(slices.Collect(maps.Values(m.world.tallies)), func(s *StoredTally) bool { return s.UID == by })
		if _, counted := m.world.counted[uid]; !counted && exists {
			m.t.Fatalf("Pod %s lost its finalizer and was never counted by %s", uid, by)
		}
	}
	for _, object := range m.world.tallies {
		if object.Status.UncountedTerminatedPods != nil || object.Status.Active != 0 {
			m.t.Fatal(fmt.Sprintf("%s: status %+v", object.Name, object.Status))
		}
	}
}
