package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/client-go/kubernetes"
)

// runDrain lets all contestants delete the same number of Jobs that fall due at once.
func runDrain(ctx context.Context, e *environment) ([]result, error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	d := &contest{env: e, name: "drain", cargo: load{client: client}, field: []contestant{bareLoop, curfew, unbound, throttled}}
	if err := d.cargo.prepare(ctx); err != nil {
		return nil, err
	}
	if d.bystander, err = newBystander(ctx, e, client); err != nil {
		return nil, err
	}
	all, err := d.runAll(ctx)
	return summarizeDrain(all, e.objects), err
}

func summarizeDrain(all []measurement, jobs int) []result {
	rates := series(all, perSecond)
	p99 := series(all, func(m measurement) float64 { return m.BystanderP99 })
	prefix := "drain.jobs." + sizeName(jobs) + ".vs_"
	return slices.Concat(
		against(prefix+"limit", "deletes/s", rates, theCurfew, bareLoop),
		against(prefix+theUnbound, "deletes/s", rates, theCurfew, unbound),
		against(prefix+theDefault, "deletes/s", rates, theCurfew, throttled),
		against("drain.bystander_p99.vs_intree", "ms", p99, theCurfew, unbound))
}

// sizeName is how a number stands in a result's name: 10k for 10,000.
func sizeName(n int) string {
	switch {
	case n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "m"
	case n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	default:
		return strconv.Itoa(n)
	}
}

// The lateness: so many Jobs fall due in each second.
const latenessPerSecond = 100

var latenessField = []contestant{curfew, bareLoop, unbound}

// runLateness measures how late Jobs are deleted that fall due second by second. The bare loop shows
// the best that is possible: its time for as many calls. The in-tree controller at its defaults
// would fall behind.
func runLateness(ctx context.Context, e *environment) ([]result, error) {
	if err := e.backlog(ctx, 0); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	d := &contest{env: e, name: "lateness", cargo: load{client: client}, field: latenessField, perSecond: latenessPerSecond}
	all, err := d.runAll(ctx)
	return summarizeLateness(all), err
}

func summarizeLateness(all []measurement) []result {
	p50 := series(all, func(m measurement) float64 { return m.P50 })
	p99 := series(all, func(m measurement) float64 { return m.P99 })
	return slices.Concat(
		against("lateness.p99_ms.vs_limit", "ms", p99, theCurfew, bareLoop),
		against("lateness.p99_ms", "ms", p99, theCurfew, unbound),
		against("lateness.p50_ms", "ms", p50, theCurfew, unbound))
}
