package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	defer replay.proxy.Close()
	c, err := (&replayOf{e, replay}).launchCurfew(ctx, "idle")
	if err != nil {
		return nil, err
	}
	defer c.stop()
	if err := pause(ctx, e.calm); err != nil {
		return nil, err
	}
	var shares, requests []float64
	for n := 1; n <= e.rounds; n++ {
		before, err := c.requests(ctx)
		from, _ := cpuTime(c.PID)
		if err == nil {
			err = pause(ctx, idleWindow)
		}
		if err != nil {
			return nil, err
		}
		to, _ := cpuTime(c.PID)
		after, err := c.requests(ctx)
		if err != nil {
			return nil, err
		}
		share := 100 * float64(to-from) / float64(idleWindow)
		fmt.Fprintf(e.out, "  minute %d of %d: %.2f%% of a core, %.0f requests\n", n, e.rounds, share, after-before)
		shares, requests = append(shares, share), append(requests, after-before)
	}
	if err := e.writeRuns("idle", shares); err != nil {
		return nil, err
	}
	return []result{
		compare("idle.cpu_"+sizeName(e.objects), "% of a core", []float64{slices.Max(shares)}, "the limit", []float64{0.1}),
		compare("idle.requests", "requests a minute", []float64{slices.Max(requests)}, "the limit", []float64{60}),
	}, nil
}

// requests is how many the controller has sent to the API server.
func (c *curfewProcess) requests(ctx context.Context) (sum float64, err error) {
	samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
	for series, value := range samples {
		if strings.HasPrefix(series, "rest_client_requests_total{") {
			sum += value
		}
	}
	return sum, err
}
