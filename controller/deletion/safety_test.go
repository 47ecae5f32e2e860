package deletion_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/v1alpha1"
)

const objects = 2000

// counted counts attempts.
type counted struct {
	deletion.Action
	api *api
}

func (c counted) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	c.api.locked(func() { c.api.attempts++ })
	return c.Action.Do(ctx, due)
}

// stopAction stops an object with one PATCH and one DELETE.
type stopAction struct{ config *rest.Config }

func (s stopAction) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	for _, method := range []string{"PATCH", "DELETE"} {
		if err := send(ctx, s.config, method, due.Name); err != nil {
			return deletion.Failure(0, deletion.FromResource, err)
		}
	}
	return deletion.Answer{Outcome: deletion.Done}
}

// controller is a process: what it knows is gone when it is killed.
func (a *api) controller(t *testing.T, due func(int) time.Time) (stop func()) {
	t.Helper()
	gate, stopGate := a.gate(t)
	sender, err := deletion.NewClient(a.config(gate))
	must(t, err)
	deletes := deletion.NewDeleteAction(sender, nil, nil)
	e, err := expire.New(expire.Options{Pauses: gate, Triggers: []expire.Trigger{
		{Name: "ttl", Action: counted{deletes, a}, Deletes: true}, {Name: "deadline", Action: stopAction{a.config(gate)}},
	}})
	must(t, err)
	var kinds []expire.Kind
	for _, trigger := range []string{"ttl", "deadline"} {
		kind, err := e.RegisterKind(expire.KindOptions{
			Type:    deletion.Type{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true},
			Trigger: trigger, Judge: func(context.Context, expire.Entry) (expire.Judgement, error) { return expire.Judgement{}, nil },
		})
		must(t, err)
		kinds = append(kinds, kind)
	}
	stopEngine := run(t, e.Run)
	for i := range objects {
		name := fmt.Sprintf("j%04d", i)
		exists := false
		a.locked(func() { exists = a.jobs[name] })
		if exists {
			e.Upsert(expire.Entry{Kind: kinds[min(i%5, 1)], Namespace: fmt.Sprintf("team-%d", i%2), Name: name, UID: types.UID(name), ResourceVersion: "7", Expiry: due(i)})
		}
	}
	return func() {
		stopEngine()
		stopGate()
	}
}

// TestSafetyNothingWhilePaused (S11): of 2,000 objects that fall due around a pause, none is
// deleted or stopped from five seconds after the pause was accepted until it ends, and none is
// forgotten, although the controller is killed and the pauses cannot be read for a while.
func TestSafetyNothingWhilePaused(t *testing.T) {
	for name, test := range map[string]struct {
		pause v1alpha1.DeletionPauseSpec
		held  func(name string) bool
	}{
		"everything":  {everything, func(string) bool { return true }},
		"a namespace": {v1alpha1.DeletionPauseSpec{Reason: "x", Namespaces: []string{"*-1"}}, func(name string) bool { return name[4]%2 == 1 }},
		"a trigger":   {v1alpha1.DeletionPauseSpec{Reason: "x", Triggers: []v1alpha1.PauseTrigger{"deadline"}}, func(name string) bool { return name[4]%5 != '0'%5 }},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI()
			a.delay = 50 * time.Millisecond
			began := time.Now()
			for i := range objects {
				a.jobs[fmt.Sprintf("j%04d", i)] = true
			}
			due := func(i int) time.Time { return began.Add(time.Duration(i) * 60 * time.Second / objects) }
			stop := a.controller(t, due)
			after := func(seconds int) time.Time {
				pass(time.Until(began.Add(time.Duration(seconds) * time.Second)))
				return time.Now()
			}
			accepted := after(10)
			a.locked(func() { a.pauses["stop"] = test.pause })
			after(20)
			stop()
			stop = a.controller(t, due)
			resumed := after(35)
			a.locked(func() { clear(a.pauses) })
			broken := after(45)
			a.locked(func() { a.failing = 503 })
			after(47)
			stop()
			stop = a.controller(t, due)
			fixed := after(58)
			a.locked(func() { a.failing = 0 })
			after(76)
			stop()
			if n := len(a.jobs); n > 0 {
				t.Errorf("%d of %d objects are forgotten", n, objects)
			}
			resumedSoon, mendedSoon := 0, 0
			for _, w := range a.writes {
				switch {
				case !w.at.Before(accepted.Add(5*time.Second)) && w.at.Before(resumed) && test.held(w.name):
					t.Fatalf("%s of %s %s after the pause was accepted", w.method, w.name, w.at.Sub(accepted))
				case !w.at.Before(broken.Add(5*time.Second)) && w.at.Before(fixed):
					t.Fatalf("%s of %s while it is not known whether there is a pause, for %s", w.method, w.name, w.at.Sub(broken))
				case !w.at.Before(resumed) && w.at.Before(resumed.Add(2*time.Second)):
					resumedSoon++
				case !w.at.Before(fixed) && w.at.Before(fixed.Add(2*time.Second)):
					mendedSoon++
				}
			}
			if resumedSoon < 100 || mendedSoon < 100 {
				t.Errorf("%d requests in the 2 s after the pause, %d after the outage: what waited must not wait longer", resumedSoon, mendedSoon)
			}
		})
	}
}

// TestPunctual: the pauses are read ahead, so that an object that falls due after idle hours waits
// for no read.
func TestPunctual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		a.delay = 100 * time.Millisecond
		for i := range objects {
			a.jobs[fmt.Sprintf("j%04d", i)] = true
		}
		instant := time.Now().Add(2 * time.Hour)
		stop := a.controller(t, func(int) time.Time { return instant })
		defer stop()
		pass(time.Until(instant) + 10*time.Millisecond)
		if len(a.writes) == 0 || a.writes[0].at.Before(instant) {
			t.Errorf("%d requests 10 ms after the expiry", len(a.writes))
		}
	})
}

// TestHeldCostsNothing: a held object takes no worker and makes no attempt, and is deleted at once
// when the pause ends.
func TestHeldCostsNothing(t *testing.T) {
	for name, namespaces := range map[string][]string{"everything": nil, "namespaces": {"team-*"}} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI()
			for i := range objects {
				a.jobs[fmt.Sprintf("j%04d", i)] = true
			}
			a.pauses["stop"] = v1alpha1.DeletionPauseSpec{Reason: "x", Namespaces: namespaces}
			instant := time.Now().Add(10 * time.Second)
			stop := a.controller(t, func(int) time.Time { return instant })
			defer stop()
			pass(10 * time.Minute)
			if a.attempts > 0 || len(a.writes) > 0 || a.count() > 700 {
				t.Errorf("%d attempts, %d requests, %d reads in ten minutes", a.attempts, len(a.writes), a.count())
			}
			a.locked(func() { clear(a.pauses) })
			pass(2 * time.Second)
			if n := len(a.jobs); n > 0 {
				t.Errorf("%d objects are left 2 s after the pause", n)
			}
		})
	}
}
