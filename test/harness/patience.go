package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Patience bounds each wait of a test. It is no measure of speed: only what hangs takes as long,
	// however busy the machine is.
	Patience = 10 * time.Minute
	// saysEvery is how often a wait reports that it is not over.
	saysEvery = 30 * time.Second
)

// Waiting bounds a wait by [Patience], and prints from time to time what it waits for, until its
// end is called.
func Waiting(ctx context.Context, what string) (limited context.Context, end context.CancelFunc) {
	limited, end = context.WithTimeoutCause(ctx, Patience, fmt.Errorf("waited %s for %s", Patience, what))
	began := time.Now()
	go func() {
		ticker := time.NewTicker(saysEvery)
		defer ticker.Stop()
		for {
			select {
			case <-limited.Done():
				return
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "waiting for %s, %s so far\n", what, time.Since(began).Round(time.Second))
			}
		}
	}()
	return limited, end
}

// Poll asks every moment until the answer is yes or an error, or the patience is over. A broken
// connection is no answer.
func Poll(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	limited, end := Waiting(ctx, what)
	defer end()
	err := wait.PollUntilContextCancel(limited, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		yes, err := condition(ctx)
		if broken := (*url.Error)(nil); errors.As(err, &broken) {
			fmt.Fprintf(os.Stderr, "waiting for %s, asks again after %v\n", what, err)
			return false, nil
		}
		return yes, err
	})
	if cause := context.Cause(limited); err != nil && cause != nil {
		return cause
	}
	return err
}
