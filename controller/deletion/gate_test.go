package deletion_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

var everything = v1alpha1.DeletionPauseSpec{Reason: "incident 7"}

// inBubble runs a test in a bubble, whose time is synthetic.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// pass lets synthetic time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestAge: what counts is when a read was sent. What was accepted while its answer was on the way
// is not in it.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		a.delay = 3 * time.Second
		gate, stop := a.gate(t)
		defer stop()
		pass(2900 * time.Millisecond) // The first read was sent at 0, and the next one is due at 30 s.
		a.locked(func() { a.failing = 503 })
		pass(1500 * time.Millisecond)
		if view, known := gate.View(); !known || view.Holds(policy.TriggerTTL, "ci") {
			t.Errorf("after 4.4 s: %+v, %t", view, known)
		}
		pass(200 * time.Millisecond)
		if _, known := gate.View(); known {
			t.Error("a read that was sent 4.6 s ago permits a deletion")
		}
	})
}

// TestSlowAnswers: an overloaded API server holds nothing, since reads overlap.
func TestSlowAnswers(t *testing.T) {
	for name, delay := range map[string]func(tick int) time.Duration{
		"0.3 to 1.5 s": func(tick int) time.Duration { return time.Duration(300+tick*7%13*100) * time.Millisecond },
		"3 s":          func(int) time.Duration { return 3 * time.Second },
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI()
			a.delay = delay(0)
			gate, stop := a.gate(t)
			defer stop()
			for tick := range 600 {
				a.locked(func() { a.delay = delay(tick) })
				gate.Want()
				pass(100 * time.Millisecond)
				if view, known := gate.View(); tick >= 30 && (!known || view.HoldsAll(policy.TriggerTTL)) {
					t.Fatalf("after %d ms: view %+v, known %t", tick*100, view, known)
				}
			}
		})
	}
}

// TestUnreadable: what cannot be read holds everything, with the reason.
func TestUnreadable(t *testing.T) {
	for name, test := range map[string]struct {
		failing int
		body    string
		reason  string
	}{
		"no CRD":         {failing: 404, reason: "CustomResourceDefinition deletionpauses.curfew.dev is not installed"},
		"an error":       {failing: 503, reason: "503 Service Unavailable: broken"},
		"no answer":      {failing: -1, reason: "context deadline exceeded"},
		"another answer": {body: `{}`, reason: "the answer is not a DeletionPauseList"},
		"no JSON":        {body: `<html>`, reason: "the answer is not a DeletionPauseList"},
		"too many":       {body: `{"kind":"DeletionPauseList","metadata":{"continue":"x"}}`, reason: "there are more than 500: delete those that have ended"},
		"too large":      {body: strings.Repeat(" ", 5<<20), reason: "the answer is larger than 4194304 bytes"},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI()
			a.failing, a.body = test.failing, test.body
			gate, stop := a.gate(t)
			defer stop()
			gate.Want()
			pass(5 * time.Second) // A read times out after four.
			if view, known := gate.View(); !known || !view.HoldsAll(policy.TriggerDeadline) || !strings.Contains(view.Unread, test.reason) {
				t.Errorf("view %+v, known %t; want it known, all triggers held, because of %q", view, known, test.reason)
			}
			a.locked(func() { a.failing, a.body = 0, "" })
			gate.Want()
			pass(1500 * time.Millisecond)
			if view, known := gate.View(); !known || view.HoldsAll(policy.TriggerDeadline) {
				t.Errorf("afterwards: %+v, %t", view, known)
			}
		})
	}
}

// TestReads: they are frequent only while something is due, and one failure is no pause.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		gate, stop := a.gate(t)
		defer stop()
		pass(5 * time.Minute)
		if n := a.count(); n < 5 || n > 12 {
			t.Errorf("%d reads in 5 idle minutes", n)
		}
		before := a.count()
		for range 10 {
			gate.Want()
			pass(time.Second)
			if _, known := gate.View(); !known {
				t.Fatal("not known while something is due")
			}
		}
		if n := a.count() - before; n < 9 || n > 12 {
			t.Errorf("%d reads in 10 s", n)
		}
		for _, code := range []int{500, 429} {
			a.locked(func() { a.failing = code })
			pass(1010 * time.Millisecond)
			a.locked(func() { a.failing = 0 })
			if view, known := gate.View(); !known || view.Unread != "" {
				t.Errorf("after one %d: %+v, %t", code, view, known)
			}
			gate.Want()
			pass(time.Second)
		}
	})
}

// TestUntil: a pause ends by the clock of the API server.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		spec := everything
		spec.Until = &metav1.Time{Time: time.Now().Add(10 * time.Second)}
		a.pauses["short"] = spec
		gate, stop := a.gate(t)
		defer stop()
		for second := range 14 {
			gate.Want()
			pass(time.Second)
			view, known := gate.View()
			if !known {
				t.Fatalf("second %d: not known", second)
			}
			if held := view.HoldsAll(policy.TriggerTTL); second < 9 && !held || second > 12 && held {
				t.Errorf("second %d: %t", second, held)
			}
		}
	})
}

// TestTransport: the last check is in the transport. Reads pass, and a request without a mark
// passes unless it is a DELETE.
func TestTransport(t *testing.T) {
	label := everything
	label.Triggers = []v1alpha1.PauseTrigger{v1alpha1.PauseTrigger(policy.TriggerLabel)}
	label.Namespaces = []string{"c*"}
	for name, test := range map[string]struct {
		pause   *v1alpha1.DeletionPauseSpec
		method  string
		trigger policy.Trigger // "" is not marked
		scope   string
		held    bool
	}{
		"nothing is paused":       {nil, http.MethodDelete, policy.TriggerTTL, "ci", false},
		"everything is":           {&everything, http.MethodDelete, policy.TriggerTTL, "ci", true},
		"a stop marks":            {&everything, http.MethodPatch, policy.TriggerDeadline, "ci", true},
		"a stop reads":            {&everything, http.MethodGet, policy.TriggerDeadline, "ci", false},
		"a count":                 {&everything, http.MethodPatch, "", "", false},
		"a DELETE of what":        {&label, http.MethodDelete, "", "", true},
		"the label's":             {&label, http.MethodDelete, policy.TriggerLabel, "ci", true},
		"another trigger":         {&label, http.MethodDelete, policy.TriggerTTL, "ci", false},
		"another namespace":       {&label, http.MethodDelete, policy.TriggerLabel, "x", false},
		"a cluster-scoped object": {&label, http.MethodDelete, policy.TriggerLabel, "", false},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI()
			a.jobs["one"] = true
			gate, stop := a.gate(t)
			defer stop()
			pass(10 * time.Second)
			if test.pause != nil {
				a.pauses["stop"] = *test.pause
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if test.trigger != "" {
				ctx, _ = deletion.WithMark(ctx, test.trigger, test.scope)
			}
			err := send(ctx, a.config(gate), test.method, "one")
			if held := errors.Is(err, deletion.ErrHeld); held != test.held || err != nil && !held || deletion.HeldIn(ctx) != (held && test.trigger != "") {
				t.Errorf("error %v, held in the context %t; want held: %t", err, deletion.HeldIn(ctx), test.held)
			}
			if sent := len(a.writes) > 0; sent == test.held && test.method != http.MethodGet {
				t.Errorf("sent: %t", sent)
			}
		})
	}
}
