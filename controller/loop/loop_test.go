package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/loop"
)

// Signals that come together are one attempt; a failure is tried again, and what Do asks for
// happens without a signal.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var durations []time.Duration
		answers := []error{errors.New("first"), errors.New("second"), nil, nil, nil}
		failed := 0
		worker := loop.Worker{
			Clock: clock.RealClock{}, Signal: loop.NewSignal(), Gather: time.Second, Backoff: loop.NewBackoffOf(10*time.Second, time.Minute),
			Do: func(context.Context) (time.Duration, error) {
				err := answers[len(durations)]
				durations = append(durations, time.Since(began))
				if len(durations) == 4 {
					return 0, err
				}
				return time.Hour, err
			},
			Failed: func(error, time.Duration) { failed++ },
		}
		done := make(chan struct{})
		go func() { worker.Run(ctx); close(done) }()
		time.Sleep(time.Minute)
		if len(durations) > 0 {
			t.Fatalf("ran %d times without a signal", len(durations))
		}
		for range 10 {
			worker.Signal.Set()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(3 * time.Hour)
		worker.Signal.Set()
		time.Sleep(time.Minute)
		cancel()
		<-done
		if len(durations) != 5 || failed != 2 {
			t.Fatalf("ran at %v and reported %d failures, want 5 runs and 2 failures", durations, failed)
		}
		for i, want := range [][2]time.Duration{{time.Second, time.Second}, {10 * time.Second, 15 * time.Second}, {20 * time.Second, 30 * time.Second}, {time.Hour, time.Hour}} {
			before := time.Minute
			if i > 0 {
				before = durations[i-1]
			}
			if wait := durations[i] - before; wait < want[0] || wait > want[1] {
				t.Errorf("run %d came after %s, want %s to %s", i, wait, want[0], want[1])
			}
		}
	})
}

// A backoff reaches its longest wait and stays there for ever.
func TestBackoff(t *testing.T) {
	backoff := loop.NewBackoff()
	for range 10_000 {
		if wait := backoff.Next(); wait < 200*time.Millisecond || wait > 15*time.Second {
			t.Fatalf("waits %s", wait)
		}
	}
	if wait := backoff.Next(); wait < 10*time.Second {
		t.Errorf("waits %s after many failures, want 10s or more", wait)
	}
	backoff.Reset()
	if wait := backoff.Next(); wait > 300*time.Millisecond {
		t.Errorf("waits %s after a success, want the first wait", wait)
	}
}

// A name waits once, in order, until it is removed.
func TestQueue(t *testing.T) {
	queue := loop.NewRetryQueue(clock.RealClock{}, time.Minute)
	for _, name := range []string{"a", "b", "a", "c"} {
		queue.Add(name)
	}
	queue.Remove("b")
	queue.Remove("unknown")
	var got []string
	for range 2 {
		name, ok := queue.Next(t.Context())
		got = append(got, fmt.Sprint(name, ok))
	}
	if want := []string{"atrue", "ctrue"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if name, ok := queue.Next(ctx); ok {
		t.Errorf("got %q of an empty queue", name)
	}
}

// A group of many names delays no other, wherever they wait in line.
func TestFairQueue(t *testing.T) {
	queue := loop.NewFairQueue(clock.RealClock{}, time.Minute, func(name string) string { return name[:1] })
	for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1", "a1"} {
		queue.Add(name)
	}
	queue.Remove("b2")
	queue.Remove("c1")
	pop := func() string { name, _ := queue.Pop(); return name }
	got := []string{pop(), pop(), pop()}
	queue.Add("b3")
	queue.Add("a1")
	for name := pop(); name != ""; name = pop() {
		got = append(got, name)
	}
	if want := []string{"a1", "b1", "a2", "a3", "b3", "a4", "a1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A name whose work failed comes again after a wait and delays no other. The end of the context
// ends the work although it fails.
func TestWorkOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, began := loop.NewRetryQueue(clock.RealClock{}, time.Minute), time.Now()
		queue.Add("a")
		queue.Add("b")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		queue.Work(ctx, func(_ context.Context, name string) time.Duration {
			got = append(got, name)
			switch {
			case name == "b" && time.Since(began) > 0:
				t.Error("b waits for a")
			case len(got) == 4:
				cancel()
			case name == "b":
				return 0
			}
			return 200 * time.Millisecond
		})
		if want := []string{"a", "b", "a", "a"}; !slices.Equal(got, want) {
			t.Errorf("worked on %v, want %v", got, want)
		}
		if took := time.Since(began); took != 600*time.Millisecond {
			t.Errorf("three failures took %s, want a wait of 200ms, and one twice as long", took)
		}
	})
}

// A name has one worker at a time. What was added during its work is worked on after it, once.
func TestNamesUnderWork(t *testing.T) {
	queue := loop.NewRetryQueue(clock.RealClock{}, time.Minute)
	if !queue.Begin("a") || !queue.Begin("b") || queue.Begin("a") || queue.Begin("a") {
		t.Error("want one worker for each name")
	}
	if name, ok := queue.Pop(); ok {
		t.Errorf("%s has two workers", name)
	}
	queue.End("b")
	queue.End("a")
	if name, ok := queue.Pop(); !ok || name != "a" {
		t.Errorf("%q, want a again", name)
	}
	if name, ok := queue.Pop(); ok || !queue.Begin("a") {
		t.Errorf("%q, want no more work, and a free", name)
	}
}

// A name that waits delays no other, and a clock that is set back makes it wait no longer than the
// maximum.
func TestRetryQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := loop.NewRetryQueue(clock.RealClock{}, time.Minute)
		began := time.Now()
		queue.AddAfter("late", time.Hour)
		queue.AddAfter("gone", time.Second)
		queue.AddAfter("soon", time.Second)
		queue.Add("now")
		queue.Remove("gone")
		if !queue.Delayed("late") || queue.Delayed("now") {
			t.Error("want late to wait, and now not to")
		}
		for _, want := range []string{"now 0s", "soon 1s", "late 1m0s"} {
			name, _ := queue.Next(t.Context())
			if got := fmt.Sprint(name, " ", time.Since(began)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		queue := loop.NewRetryQueue(clock.RealClock{}, 5*time.Second)
		began := time.Now()
		next := func(want string) {
			t.Helper()
			name, _ := queue.Next(t.Context())
			if got := fmt.Sprint(name, " ", time.Since(began)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for _, want := range []string{"a 1s", "a 3s", "a 7s", "a 12s", "a 17s"} { // Twice as long each time, up to the maximum.
			queue.Retry("a", time.Second)
			next(want)
		}
		queue.Retry("b", time.Second) // Failures of one name do not count for another.
		next("b 18s")
		queue.Done("a")
		queue.Retry("a", time.Second)
		next("a 19s")
		queue.Retry("a", time.Second)
		queue.Retry("b", time.Second)
		queue.Remove("a")
		queue.Remove("unknown")
		next("b 21s")
		queue.Retry("a", time.Second)
		next("a 22s")
	})
	past := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	queue := loop.NewRetryQueue(past, time.Minute)
	queue.AddAfter("a", time.Minute)
	past.SetTime(time.Unix(0, 0))
	if name, ok := queue.Next(t.Context()); name != "a" || !ok {
		t.Errorf("got %q, %v after the clock was set back", name, ok)
	}
}
