package loop

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// Worker runs a step at each signal, again while it fails, and when Do asks for it.
type Worker struct {
	Clock  clock.Clock
	Signal Signal
	// Gather is how long a signal waits for others: installing an operator brings many at once.
	Gather time.Duration
	// Backoff after failures; nil means the usual one.
	Backoff *Backoff
	// Do makes one attempt. It returns after how long it should run again without a signal; 0 means
	// that it need not.
	Do func(ctx context.Context) (again time.Duration, err error)
	// Failed reports an error, and after how long Do runs again. It may be nil.
	Failed func(err error, again time.Duration)
}

// Run works until ctx is done. A signal ends any wait but the one for other signals.
func (w Worker) Run(ctx context.Context) {
	backoff, next := w.Backoff, time.Duration(0)
	if backoff == nil {
		backoff = NewBackoff()
	}
	for w.wait(ctx, next) {
		again, err := w.Do(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			backoff.Reset()
			next = again
		default:
			next = backoff.Next()
			if w.Failed != nil {
				w.Failed(err, next)
			}
		}
	}
}

// wait returns when there is something to do, and false once ctx is done.
func (w Worker) wait(ctx context.Context, next time.Duration) bool {
	var over <-chan time.Time
	if next > 0 {
		timer := w.Clock.NewTimer(next)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-over:
		return true
	case <-w.Signal:
	}
	if w.Gather > 0 {
		if !Pause(ctx, w.Clock, w.Gather) {
			return false
		}
		w.Signal.Clear()
	}
	return true
}

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

// Backoff doubles from a first wait to a longest one and stays there: nothing is ever given up
// (S3).
type Backoff struct {
	first, most time.Duration
	next        *wait.Backoff // nil before the first failure
}

// jitter spreads what failed at the same moment, for example when the API server restarts.
const jitter = 0.5

// NewBackoff makes a backoff with the usual bounds: an outage of the API server ends at most ten
// seconds before it is noticed.
func NewBackoff() *Backoff { return NewBackoffOf(200*time.Millisecond, 10*time.Second) }

// NewBackoffOf makes a backoff with bounds of its own.
func NewBackoffOf(first, most time.Duration) *Backoff { return &Backoff{first: first, most: most} }

// Next returns how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	if b.next == nil {
		b.next = &wait.Backoff{Duration: b.first, Factor: 2, Jitter: jitter, Steps: 1 << 30, Cap: b.most}
	}
	return b.next.Step()
}

// Reset begins again at the first wait.
func (b *Backoff) Reset() { b.next = nil }
