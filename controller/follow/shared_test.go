package follow

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// counter is a thing that changes, and that takes a second to be read: an answer is what it was at
// some time during the read, here at its beginning, which is the oldest that it may be.
type counter struct {
	mu    sync.Mutex
	value int
	reads int
}

func (c *counter) set(value int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value = value
}

func (c *counter) read(ctx context.Context) (int, error) {
	c.mu.Lock()
	c.reads++
	value := c.value
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(time.Second):
		return value, nil
	}
}

// No caller gets an answer that was read before it asked, however many share it (S1).
func TestSharedIsNeverOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newShared[int](), &counter{}
		var asking sync.WaitGroup
		for i := range 1000 {
			c.set(i)
			asking.Go(func() {
				got, err := s.get(t.Context(), "ci", c.read)
				if err != nil || got < i {
					t.Errorf("asked when it was %d, got %d, %v", i, got, err)
				}
			})
			<-time.After(10 * time.Millisecond)
		}
		asking.Wait()
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		// Ten seconds of asking, and a read takes one.
		if c.reads > 13 {
			t.Errorf("%d reads for 1000 questions, want about one a second", c.reads)
		}
		if len(s.calls) != 0 {
			t.Errorf("%d keys are left behind", len(s.calls))
		}
	})
}

// Only the callers that share a read get its error. One that gives up leaves the others alone, and
// so does another key.
func TestSharedErrorsAndGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newShared[int](), &counter{value: 7}
		broken := errors.New("the API server is away")
		if _, err := s.get(t.Context(), "ci", func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := s.get(ctx, "ci", c.read); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that it was given up", err)
			}
		})
		synctest.Wait()
		asking.Go(func() {
			if got, err := s.get(t.Context(), "ci", c.read); err != nil || got != 7 {
				t.Errorf("got %d, error %v; want 7", got, err)
			}
		})
		began := time.Now()
		got, err := s.get(t.Context(), "lab", func(context.Context) (int, error) { return 8, nil })
		if took := time.Since(began); err != nil || got != 8 || took > 0 {
			t.Errorf("another key: got %d, error %v after %s; want 8 at once", got, err, took)
		}
		cancel()
		asking.Wait()
	})
}

// An answer is good for a second from when its read was sent, and no longer than until a change is
// known. No two reads are sent within a second. A failure is for those who wait for it.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []time.Duration
		var broken error
		known, began := 0, time.Now()
		r := newRecent(clock.RealClock{}, func(context.Context) (int, error) {
			sent = append(sent, time.Since(began))
			<-time.After(100 * time.Millisecond)
			return len(sent), broken
		}, func() any { return known })
		expect := func(when string, want int, wantErr error, took time.Duration) {
			t.Helper()
			from := time.Now()
			got, err := r.get(t.Context())
			if got != want || !errors.Is(err, wantErr) || time.Since(from) != took {
				t.Errorf("%s: answer %d, %v after %s; want %d, %v after %s", when, got, err, time.Since(from), want, wantErr, took)
			}
		}
		const read = 100 * time.Millisecond
		expect("the first", 1, nil, read)
		<-time.After(800 * time.Millisecond)
		expect("900ms after it was sent", 1, nil, 0)
		<-time.After(200 * time.Millisecond)
		expect("1.1s after it was sent", 2, nil, read)
		known++
		expect("after a change: the next one may be sent in 900ms", 3, nil, 900*time.Millisecond+read)
		expect("once more", 3, nil, 0)
		<-time.After(time.Second)
		var asking sync.WaitGroup
		asking.Go(func() { expect("before a change", 4, nil, read) })
		synctest.Wait()
		known++
		expect("after a change during the read", 5, nil, time.Second+read)
		asking.Wait()
		<-time.After(time.Second)
		broken = errors.New("the API server is away")
		expect("a failure", 6, broken, read)
		broken = nil
		expect("after a failure", 7, nil, 900*time.Millisecond+read)
		for i, d := range sent[1:] {
			if d-sent[i] < time.Second {
				t.Errorf("sent at %v: want a second between reads", sent)
			}
		}
	})
}
