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
	conflict := errors.New("conflict")
	for i, step := range []struct {
		after  time.Duration
		holder string
		err    error
		writes int
	}{
		{0, "me", nil, 1}, {0, "me", nil, 1}, {1999 * time.Millisecond, "me", nil, 1}, {time.Millisecond, "me", nil, 2},
		{0, "", nil, 3}, {0, "me", nil, 4}, // released
		{3 * time.Second, "me", conflict, 5}, {0, "me", conflict, 6}, {0, "me", nil, 7}, {0, "me", nil, 7},
		{-time.Hour, "me", nil, 8}, {0, "me", nil, 8},
	} {
		clk.SetTime(clk.Now().Add(step.after))
		below.err = step.err
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: step.holder}); !errors.Is(err, step.err) || below.count != step.writes {
			t.Errorf("step %d: error %v, want %v; %d writes, want %d", i, err, step.err, below.count, step.writes)
		}
	}
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
