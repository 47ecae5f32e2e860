package main

import (
	"context"
	"os"
	"runtime/debug"
)

// gcPercent is how much the heap may grow between two collections once all is known. What Curfew keeps holds few pointers and is
// quickly gone through, so that collecting twice as often as Go does by itself costs little and keeps little garbage in memory.
const gcPercent = 50

// worthwhile is how many objects a list has that is worth a collection. Most kinds have few.
const worthwhile = 1000

// giveBack returns a function that is told of lists and gives memory back to the system after long ones, beside its caller, and
// once for calls that come together.
func giveBack(ctx context.Context) func(objects int) {
	asked := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
				trim(os.Getenv("GOGC"))
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

// trim gives the system back what reading a whole kind took: what is kept of an object is a small part of what came over the
// wire, and Go would hold on to the room for the rest for minutes. Whoever sets GOGC knows better how much the heap may grow.
func trim(gogc string) {
	if gogc == "" {
		debug.SetGCPercent(gcPercent)
	}
	debug.FreeOSMemory()
}
