package loop

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Signal wakes one loop. Signals that have not been received yet count as one.
type Signal chan struct{}

// NewSignal makes a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the loop. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Clear drops a signal that has not been received yet.
func (s Signal) Clear() {
	select {
	case <-s:
	default:
	}
}

// Wait returns at the next signal, and after atMost unless that is 0. It returns false once ctx is
// done.
func (s Signal) Wait(ctx context.Context, clock clock.Clock, atMost time.Duration) bool {
	var over <-chan time.Time
	if atMost > 0 {
		timer := clock.NewTimer(atMost)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-s:
	case <-over:
	}
	return ctx.Err() == nil
}

// Pause waits. It returns false once ctx is done.
func Pause(ctx context.Context, clock clock.Clock, d time.Duration) bool {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
