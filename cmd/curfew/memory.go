package main

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"curfew.dev/curfew/controller/loop"
)

// gcPercent is how much the heap may grow between two collections once a long list has come. What
// Curfew keeps holds few pointers, so that collecting twice as often as Go does by itself costs
// little and keeps little garbage in memory.
const gcPercent = 50

// worthwhile is how many objects a list has that is worth a collection. Most kinds have few.
const worthwhile = 1000

// giveBack returns a function that feeds call after each list. It never blocks. After a long list,
// and once for several of them, memory is given back to the system.
func giveBack(ctx context.Context) func(objects int) {
	asked := loop.NewSignal()
	go func() {
		for asked.Wait(ctx, nil, 0) {
			trim()
		}
	}()
	return func(objects int) {
		if objects >= worthwhile {
			asked.Set()
		}
	}
}

// trim gives the system back what reading a whole kind took: what is kept of an object is a small
// part of what came over the wire, and Go would hold on to the room for the rest for minutes. GOGC
// in the environment takes precedence.
func trim() {
	debug.FreeOSMemory()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
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
