package loop

import (
	"context"
	"time"

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
