package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// writes counts what reaches the API server.
type writes struct {
	resourcelock.Interface
	count int
	err   error
}

func (*writes) Identity() string { return "me" }

func (w *writes) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	w.count++
	return w.err
}

// The lease is looked at often and renewed seldom. To give it up is written at once, and so is the
// renewal after one that failed: a leader that believed in it would outstay its lease.
func TestLeaseIsRenewedSeldom(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	below := &writes{}
	l := &lease{Interface: below, clock: clk, every: 2 * time.Second}
	update := func(holder string, want int) {
		t.Helper()
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}); !errors.Is(err, below.err) {
			t.Errorf("error %v, want %v", err, below.err)
		}
		if below.count != want {
			t.Errorf("%d writes, want %d", below.count, want)
		}
	}
	update("me", 1)
	update("me", 1)
	clk.SetTime(clk.Now().Add(1999 * time.Millisecond))
	update("me", 1)
	clk.SetTime(clk.Now().Add(time.Millisecond))
	update("me", 2)
	update("", 3) // released
	update("me", 4)
	clk.SetTime(clk.Now().Add(3 * time.Second))
	below.err = errors.New("conflict")
	update("me", 5)
	update("me", 6)
	below.err = nil
	update("me", 7)
	update("me", 7)
	clk.SetTime(clk.Now().Add(-time.Hour))
	update("me", 8)
	update("me", 8)
}

// All other clients share the config. The timeout of the lease's requests would end each of their
// watches, and each list that takes longer (S3).
func TestLeaseLeavesTheSharedConfigAlone(t *testing.T) {
	shared := &rest.Config{Host: "http://127.0.0.1:1", UserAgent: "curfew"}
	if _, err := newLease(shared, defaultOptions(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if shared.Timeout != 0 || shared.UserAgent != "curfew" {
		t.Errorf("the shared config has timeout %s and user agent %q, want 0s and %q", shared.Timeout, shared.UserAgent, "curfew")
	}
}
