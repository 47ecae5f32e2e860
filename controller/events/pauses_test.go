package events

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
)

// sources are the conditions of one kind of source, as the API server would keep them.
type sources struct {
	mu     sync.Mutex
	have   map[string]metav1.Condition
	all    []string
	fail   error
	writes int
}

func (s *sources) Write(_ context.Context, name string, condition metav1.Condition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.fail != nil {
		return s.fail
	}
	s.have[name] = condition
	return nil
}

func (s *sources) Left(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, condition := range s.have {
		if condition.Status == metav1.ConditionTrue {
			out = append(out, name)
		}
	}
	return out, s.fail
}

func (s *sources) All() []string { return s.all }

func (s *sources) set(fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// said is what was said, as "type reason kind/name uid: note".
type said struct {
	mu    sync.Mutex
	lines []string
}

func (e *said) Eventf(regarding, _ apiruntime.Object, kind, reason, action, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	on := regarding.(*corev1.ObjectReference)
	e.lines = append(e.lines, fmt.Sprintf("%s %s %s %s %s/%s %s: %s", kind, reason, action, on.APIVersion, on.Kind, on.Name, on.UID, fmt.Sprintf(note, args...)))
}

type stage struct {
	*testing.T
	pauses               *Pauses
	namespaces, policies *sources
	events               *said
}

// begin runs pauses until the test ends, inside a bubble.
func begin(t *testing.T, change func(*stage)) *stage {
	t.Helper()
	s := &stage{T: t, namespaces: &sources{have: map[string]metav1.Condition{}, all: []string{"ci", "exp"}},
		policies: &sources{have: map[string]metav1.Condition{}, all: []string{"platform"}}, events: &said{}}
	if change != nil {
		change(s)
	}
	s.pauses = NewPauses(PauseOptions{
		Recorder: s.events, Namespaces: s.namespaces, Policies: s.policies, Own: "curfew-system",
		UIDs: func(target Target) types.UID { return types.UID("uid-" + target.Name) }, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = s.pauses.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// after lets time pass inside a bubble: nothing sleeps for real.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// expect compares conditions, written "status reason: message", by source.
func (s *stage) expect(when string, namespaces, policies map[string]string) {
	s.Helper()
	for kind, want := range map[*sources]map[string]string{s.namespaces: namespaces, s.policies: policies} {
		kind.mu.Lock()
		got := map[string]string{}
		for name, c := range kind.have {
			got[name] = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		kind.mu.Unlock()
		if !maps.Equal(got, want) {
			s.Errorf("%s: conditions %q, want %q", when, got, want)
		}
	}
}

func (s *stage) said(when string, want ...string) {
	s.Helper()
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	if !slices.Equal(s.events.lines, want) {
		s.Errorf("%s: Events\n%q\nwant\n%q", when, s.events.lines, want)
	}
	s.events.lines = nil
}

// refused is a pause of one source.
func refused(source, namespace, kind string, open bool) expire.BreakerEvent {
	e := expire.BreakerEvent{Class: "x", Scope: source + namespace + kind, Source: source, Namespace: namespace, Kind: kind, Open: open,
		Reason: "Refused", Message: "deletions are paused: " + kind + " in " + namespace}
	if !open {
		e.Reason, e.Message = "", "deletions resumed: "+kind+" in "+namespace
	}
	return e
}

// clockSkew is a pause of everything.
func clockSkew(open bool) expire.BreakerEvent {
	return expire.BreakerEvent{Class: "clock", Scope: "clock", Open: open, Reason: "ClockSkew", Message: fmt.Sprintf("skew: %v", open)}
}

type of = map[string]string

const goesOn = "False DeletionsResumed: deletions resumed"

// A pause shows on its source, in a condition and an Event, and so does its end; what concerns
// another source shows there.
func TestPauseOfOneSource(t *testing.T) {
	for name, test := range map[string]struct {
		source, namespace    string
		namespaces, policies of
		event                string
	}{
		"namespace": {"namespace/ci", "ci", of{"ci": "True Refused: deletions are paused: Job in ci"}, of{}, "v1 Namespace/ci uid-ci"},
		"policy":    {"policy/platform", "ci", of{}, of{"platform": "True Refused: deletions are paused: Job in ci"}, "curfew.dev/v1alpha1 LifecyclePolicy/platform uid-platform"},
		// The setting of an object or its runtime has no source that outlives the object: the namespace
		// is notified.
		"object":  {"object", "ci", of{"ci": "True Refused: deletions are paused: Job in ci"}, of{}, "v1 Namespace/ci uid-ci"},
		"runtime": {"runtime/torch", "ci", of{"ci": "True Refused: deletions are paused: Job in ci"}, of{}, "v1 Namespace/ci uid-ci"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(t, nil)
				after(time.Second)
				s.expect("before", of{}, of{})
				s.pauses.Breaker(refused(test.source, test.namespace, "Job", true))
				after(time.Second)
				s.expect("paused", test.namespaces, test.policies)
				s.said("paused", "Warning Refused Pause "+test.event+": deletions are paused: Job in ci")
				s.pauses.Breaker(refused(test.source, test.namespace, "Job", false))
				after(time.Second)
				for _, want := range []of{test.namespaces, test.policies} {
					for name := range want {
						want[name] = goesOn
					}
				}
				s.expect("gone on", test.namespaces, test.policies)
				s.said("gone on", "Normal DeletionsResumed Pause "+test.event+": deletions resumed: Job in ci")
			})
		})
	}
}

// A cluster-scoped object has no namespace to notify.
func TestPauseOfClusterScopedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.pauses.Breaker(refused("object", "", "Node", true))
		after(time.Hour)
		s.expect("paused", of{}, of{})
		s.said("paused")
	})
}

// A policy is paused until the last of its scopes goes on. The condition's time is that of the
// first.
func TestSeveralPausesOfOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		began := time.Now()
		for _, kind := range []string{"A", "B", "C", "D", "E"} {
			s.pauses.Breaker(refused("policy/platform", "ci", kind, true))
			after(time.Second)
		}
		s.expect("five", of{}, of{"platform": "True Refused: deletions are paused: A in ci; deletions are paused: B in ci; deletions are paused: C in ci; and 2 more"})
		for _, kind := range []string{"A", "B", "C", "D"} {
			s.pauses.Breaker(refused("policy/platform", "ci", kind, false))
			after(time.Second)
		}
		s.expect("one", of{}, of{"platform": "True Refused: deletions are paused: E in ci"})
		if got := s.policies.have["platform"].LastTransitionTime.Time; got.Sub(began) > time.Second {
			t.Errorf("paused since %s, want %s", got, began)
		}
		s.pauses.Breaker(refused("policy/platform", "ci", "E", false))
		after(time.Second)
		s.expect("none", of{}, of{"platform": goesOn})
		writes := s.policies.writes
		s.pauses.Breaker(refused("policy/platform", "ci", "E", false))
		after(time.Hour)
		if s.policies.writes != writes {
			t.Errorf("%d writes of an unchanged condition, want none", s.policies.writes-writes)
		}
	})
}

// A pause of everything has one Event, on Curfew's own namespace. Only one that lasts shows on
// every source.
func TestPauseOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.pauses.Breaker(clockSkew(true))
		after(2 * time.Second)
		s.pauses.Breaker(clockSkew(false))
		after(time.Minute)
		s.expect("two seconds", of{}, of{})
		s.said("two seconds", "Warning ClockSkew Pause v1 Namespace/curfew-system uid-curfew-system: skew: true",
			"Normal DeletionsResumed Pause v1 Namespace/curfew-system uid-curfew-system: skew: false")

		open := func(when string, everything bool, want ...string) {
			t.Helper()
			if have, all := s.pauses.Open(); !slices.Equal(have, want) || all != everything {
				t.Errorf("%s: %q are open, everything %t", when, have, all)
			}
		}
		open("none", false)
		s.pauses.Breaker(refused("namespace/exp", "exp", "Job", true))
		open("a source", false, "deletions are paused: Job in exp")
		s.pauses.Breaker(clockSkew(true))
		open("everything", true, "deletions are paused: Job in exp", "skew: true")
		after(lasting / 2)
		s.pauses.Breaker(clockSkew(true)) // a second report does not begin it again
		after(lasting/2 + time.Second)
		both := "True Refused: deletions are paused: Job in exp; skew: true"
		s.expect("it lasts", of{"ci": "True ClockSkew: skew: true", "exp": both}, of{"platform": "True ClockSkew: skew: true"})
		s.pauses.Breaker(clockSkew(false))
		after(time.Second)
		s.expect("it is over", of{"ci": goesOn, "exp": "True Refused: deletions are paused: Job in exp"}, of{"platform": goesOn})
	})
}

// What a controller before this one left behind is taken back after a while, unless it turns out to
// hold.
func TestConditionsOfAnEarlierController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Refused", Message: "left"}
		s := begin(t, func(s *stage) {
			s.namespaces.have["ci"], s.namespaces.have["exp"], s.policies.have["platform"] = left, left, left
			s.namespaces.fail = errors.New("no route to host")
		})
		after(time.Minute)
		s.namespaces.set(nil)
		s.pauses.Breaker(refused("namespace/exp", "exp", "Job", true))
		after(settled - 62*time.Second)
		again := "True Refused: deletions are paused: Job in exp"
		s.expect("before it is settled", of{"ci": "True Refused: left", "exp": again}, of{"platform": "True Refused: left"})
		after(time.Minute)
		s.expect("after", of{"ci": goesOn, "exp": again}, of{"platform": goesOn})
	})
}

// A write that fails is tried again, without end, and with what holds by then.
func TestConditionThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		after(time.Second)
		s.namespaces.set(errors.New("forbidden"))
		s.pauses.Breaker(refused("namespace/ci", "ci", "Job", true))
		s.pauses.Breaker(refused("namespace/exp", "exp", "Job", true))
		after(time.Hour)
		if n := s.namespaces.writes; n < 10 || n > 100 {
			t.Errorf("%d attempts in an hour", n)
		}
		s.pauses.Breaker(refused("namespace/exp", "exp", "Job", false))
		s.namespaces.set(nil)
		after(2 * maxRetry)
		s.expect("it can be written again", of{"ci": "True Refused: deletions are paused: Job in ci"}, of{})
	})
}
