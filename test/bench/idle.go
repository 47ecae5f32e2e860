package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// idleWindow is the time over which the processor time is told.
const idleWindow = time.Minute

// runIdle counts the processor time of a controller that tracks many Jobs. None is due. The
// busiest minute counts: Go collects garbage at least every second minute.
func runIdle(ctx context.Context, e *environment) ([]result, error) {
	replay, err := recordAndReplay(ctx, e, e.objects)
	if err != nil {
		return nil, err
	}
	defer replay.close()
	c, err := (&replayOf{e, replay}).launchCurfew(ctx, "idle")
	if err != nil {
		return nil, err
	}
	defer c.stop()
	if err := pause(ctx, e.calm); err != nil {
		return nil, err
	}
	var shares []float64
	for n := 1; n <= e.rounds; n++ {
		from, _ := cpuTime(c.cmd.Process.Pid)
		if err := pause(ctx, idleWindow); err != nil {
			return nil, err
		}
		to, _ := cpuTime(c.cmd.Process.Pid)
		share := 100 * float64(to-from) / float64(idleWindow)
		fmt.Fprintf(e.out, "  minute %d of %d: %.2f%% of a core\n", n, e.rounds, share)
		shares = append(shares, share)
	}
	if err := e.writeRuns("idle", shares); err != nil {
		return nil, err
	}
	return []result{compare("idle.cpu_"+sizeName(e.objects), "% of a core", []float64{slices.Max(shares)}, "the limit", []float64{0.5})}, nil
}
