package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"
)

// idleOptions are the flags of the idle bench.
var idleOptions struct{ jobs, windows int }

func init() {
	register(bench{
		name: "idle", about: "processor time with many Jobs tracked and none due", run: runIdle, position: 80,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&idleOptions.jobs, "idle-jobs", 1_000_000, "how many Jobs of a recorded watch are tracked")
			fs.IntVar(&idleOptions.windows, "idle-windows", 2, "how many minutes are measured; the busiest counts. Go collects garbage at least every second minute")
		},
	})
}

// idleWindow is the time over which the processor time is told.
const idleWindow = time.Minute

func runIdle(ctx context.Context, e *environment) ([]result, error) {
	if idleOptions.windows < 1 {
		return nil, fmt.Errorf("-idle-windows %d: give at least 1", idleOptions.windows)
	}
	replay, err := recordAndReplay(ctx, e, idleOptions.jobs)
	if err != nil {
		return nil, err
	}
	defer replay.close()
	m := &memory{env: e, replay: replay}
	kubeconfig, err := m.towards(e.curfewConfig)
	if err != nil {
		return nil, err
	}
	c, err := e.launchCurfew(ctx, e.logPath("idle"), kubeconfig)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	if err := c.awaitTracked(ctx, idleOptions.jobs, memoryPatience); err != nil {
		return nil, err
	}
	if err := pause(ctx, memoryOptions.calm); err != nil {
		return nil, err
	}
	var shares []float64
	for n := 1; n <= idleOptions.windows; n++ {
		share, err := busy(ctx, c.process, idleWindow)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(e.out, "  minute %d of %d: %.2f%% of a core\n", n, idleOptions.windows, share*100)
		shares = append(shares, share*100)
	}
	if err := e.writeRuns("idle", shares); err != nil {
		return nil, err
	}
	return []result{compare("idle.cpu_"+sizeName(idleOptions.jobs), "% of a core", []float64{slices.Max(shares)}, "the limit", []float64{0.5})}, nil
}

// busy tells which share of one processor a process takes.
func busy(ctx context.Context, p *process, during time.Duration) (float64, error) {
	pids := []int{p.cmd.Process.Pid}
	from, err := clock(pids)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := pause(ctx, during); err != nil {
		return 0, err
	}
	to, err := clock(pids)
	if err != nil {
		return 0, err
	}
	return float64(to.ours-from.ours) * float64(tick) / float64(time.Since(began)), nil
}
