package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
)

const (
	// gcPercent is how much the heap may grow between two collections once a long list has come.
	// What Curfew keeps holds few pointers and is quickly gone through, so that collecting twice as
	// often as Go does by itself costs little and keeps little garbage in memory. gcAtFirst is Go's
	// own.
	gcPercent = 50
	gcAtFirst = 100
	// gcLeast is how many bytes it may grow at least. Half of a small heap is full several times a
	// second while much is deleted, and each collection takes the processors from the API server
	// beside it.
	gcLeast = 16 << 20
)

// worthwhile is how many objects a list has that is worth a collection. Most kinds have few.
const worthwhile = 1000

// giveBack returns a function that is told of lists and gives memory back to the system after long
// ones, beside its caller, and once for calls that come together. Until ctx is done it also sees to
// how often is collected, unless GOGC says so.
func giveBack(ctx context.Context) func(objects int) {
	pace := &pacer{percent: gcAtFirst}
	if os.Getenv("GOGC") == "" {
		pace.follow(ctx)
	}
	asked := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
				pace.trim()
			}
		}
	}()
	return func(objects int) {
		if objects < worthwhile {
			return
		}
		select {
		case asked <- struct{}{}:
		default: // another waits already
		}
	}
}

// pacer sets how much the heap may grow, anew after each collection, by what is in use then.
type pacer struct {
	mu sync.Mutex
	// percent is what it may grow by where that is more than gcLeast.
	percent int
	// set is what was set last, 0 before: setting it stops all goroutines for a moment.
	set int
	// following is whether anything is set at all: whoever sets GOGC knows better.
	following bool
}

// follow adjusts now, and after each collection until ctx is done.
func (p *pacer) follow(ctx context.Context) {
	p.mu.Lock()
	p.following = true
	p.mu.Unlock()
	p.adjust()
	p.afterNext(ctx)
}

// collected is what nobody refers to, so that the next collection finds it.
type collected struct{ *pacer }

func (p *pacer) afterNext(ctx context.Context) {
	runtime.SetFinalizer(&collected{p}, func(*collected) {
		if ctx.Err() == nil {
			p.adjust()
			p.afterNext(ctx)
		}
	})
}

// trim gives the system back what reading a whole kind took: what is kept of an object is a small
// part of what came over the wire, and Go would hold on to the room for the rest for minutes.
func (p *pacer) trim() {
	debug.FreeOSMemory()
	p.mu.Lock()
	p.percent = gcPercent
	p.mu.Unlock()
	p.adjust()
}

func (p *pacer) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	p.mu.Lock()
	defer p.mu.Unlock()
	if percent := growth(live[0].Value.Uint64(), p.percent); p.following && percent != p.set {
		debug.SetGCPercent(percent)
		p.set = percent
	}
}

// growth is the percentage by which a heap may grow of which so many bytes are in use.
func growth(live uint64, percent int) int {
	// Go counts from 4 MiB where less is in use.
	return max(percent, int(100*gcLeast/max(live, 4<<20)))
}

// cgroupLimits are the files that hold the memory limit of the container, of cgroup v2 and v1.
var cgroupLimits = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// limitMemory has Go collect garbage before the container's memory limit is reached, unless
// GOMEMLIMIT says when. The rest is for what Go does not count.
func limitMemory(files []string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// "max", or a number near the largest, where there is none.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 && limit < 1<<50 {
			debug.SetMemoryLimit(limit / 10 * 9)
		}
		return
	}
}

// memoryLimit is how much memory the process may take; 0 where nobody says.
func memoryLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < 1<<50 {
		return limit
	}
	return 0
}
