package main

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// busyFrom is what share of one processor is so much that all are wanted, calmBelow what leaves room enough on one.
	busyFrom, calmBelow = 0.75, 0.4
	// calmFor is how long it must have been calm before one processor has to do. What begins is not held up for longer than a look,
	// and lists follow each other at a start.
	calmFor = 10 * time.Second
	// lookEvery is how often it is looked at.
	lookEvery = time.Second
)

// thrift lets the process run on one processor as long as that is enough. With more, Go wakes a second thread for almost
// everything that happens, which looks for work and finds none: that took a seventh of what a deletion takes, from the very
// processors on which an API server may run. A list of many objects is read with all that there are.
type thrift struct {
	used func() time.Duration // the processor time so far
	set  func(one bool)
	one  bool // as was set last
	calm time.Duration
	at   time.Duration // used at the last look
}

// saveProcessors does so until ctx is done, unless GOMAXPROCS says how many.
func saveProcessors(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	t := &thrift{used: processorTime, set: func(one bool) {
		if one {
			runtime.GOMAXPROCS(1)
		} else {
			runtime.SetDefaultGOMAXPROCS()
		}
	}}
	go t.run(ctx)
}

func (t *thrift) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	t.at = t.used()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			t.look(now.Sub(last))
			last = now
		}
	}
}

// look decides by what was used in the time since the last look.
func (t *thrift) look(elapsed time.Duration) {
	used := t.used()
	share := float64(used-t.at) / float64(max(elapsed, time.Millisecond))
	t.at = used
	switch {
	case share >= busyFrom:
		t.calm = 0
		if t.one {
			t.one = false
			t.set(false)
		}
	case share >= calmBelow:
		t.calm = 0
	default:
		if t.calm += elapsed; !t.one && t.calm >= calmFor {
			t.one = true
			t.set(true)
		}
	}
}

// processorTime is what this process has used, in user and system mode.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // It takes no other arguments, and cannot fail with these.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
