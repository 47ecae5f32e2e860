package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// gateRow is one number that may not get worse unnoticed.
type gateRow struct {
	name string
	// args are the command line that measures it: a bench of the registry, smaller and shorter. Rows
	// with the same args are measured together.
	args string
	// result is the name of the bench's result that counts.
	result string
}

// gateRows lists all, in the order in which they are measured: the first wants a control plane
// without finished Jobs, the last leave some.
var gateRows = []gateRow{
	{"lateness", "-only lateness -contestants limit,curfew -lateness-rounds 5 -lateness-seconds 8", "lateness.p99_ms.vs_limit"},
	{"drain", "-only drain -contestants limit,curfew -calls 64 -jobs 3000 -rounds 2", "drain.jobs.3k.vs_limit"},
	{"label_drain", "-only label_drain -contestants limit,curfew -calls 64 -label_drain-objects 5000 -label_drain-rounds 1", "label.drain.5k.vs_limit"},
	{"cleanup", "-only cleanup -contestants limit,curfew -calls 64 -cleanup-objects 10000 -cleanup-rounds 1", "cleanup.drain.10k.vs_limit"},
	{"tally", "-only tally -calls 32 -tally-pods 2000 -tally-rounds 2", "tally.count.vs_limit"},
	{"deadline", "-only deadline -contestants limit,curfew -calls 64 -deadline-objects 1000 -deadline-rounds 3", "deadline.mark.1k.vs_limit"},
	{"admission", admissionGate, "admission.p50.10.vs_noop"},
	{"admission_allocations", admissionGate, "admission.allocs.10"},
	{"cli_list", "-only cli_list -cli_list-jobs 5000 -cli_list-rounds 5", "cli.expiring.5k.vs_get"},
	{"memory", "-only memory_many -memory_many-jobs 0 -memory_many-replayed 20000 -memory-calm 2s", "memory.jobs.bytes_per_object.20k"},
}

const admissionGate = "-only admission -rounds 3 -admission-policies 10 -admission-creates 0"

// chooseRows returns the rows that a comma-separated list names, all if it is empty.
func chooseRows(names string) ([]gateRow, error) {
	if names == "" {
		return gateRows, nil
	}
	var chosen []gateRow
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(gateRows, func(r gateRow) bool { return r.name == name })
		if i < 0 {
			var all []string
			for _, r := range gateRows {
				all = append(all, r.name)
			}
			return nil, fmt.Errorf("-rows %q: there is no row %q, take some of %s", names, name, strings.Join(all, ","))
		}
		chosen = append(chosen, gateRows[i])
	}
	return chosen, nil
}

// Verdicts.
const (
	gatePassed   = "ok"
	gateRepeated = "ok, repeated"
	gateFailed   = "FAILED"
	gateMissing  = "MISSING" // the bench has no such result
	gateBroken   = "ERROR"   // the bench did not come to an end
)

// gateOutcome is what became of a row. It is written to .bench/gate.json.
type gateOutcome struct {
	Row     string    `json:"row"`
	Limit   gateLimit `json:"limit"`
	Verdict string    `json:"verdict"`
	Error   string    `json:"error,omitempty"`
	// Result is the last attempt's.
	Result result `json:"result"`
	// Ratios has one ratio for each attempt.
	Ratios []float64 `json:"ratios"`
	// Others is the share of the machine, 0 to 1, that other processes took in the last attempt.
	Others float64 `json:"others"`
	// Seconds is how long the attempts took that began for this row.
	Seconds float64 `json:"seconds"`
}

// judgeRows measures all rows and holds them against their limits. A row that fails is measured
// once more, at once, and the second time counts. A bench that ends with an error is not repeated:
// an object that was deleted too early is no noise.
func judgeRows(rows []gateRow, limits map[string]gateLimit, measure func(args string) attempt) []gateOutcome {
	measured := map[string]attempt{}
	var outcomes []gateOutcome
	for _, row := range rows {
		o := gateOutcome{Row: row.name, Limit: limits[row.name]}
		for again := range 2 {
			a, known := measured[row.args]
			if !known || again > 0 {
				a = measure(row.args)
				measured[row.args] = a
				o.Seconds = round(o.Seconds + a.seconds)
			}
			if o.take(row, a); o.Verdict != gateFailed {
				break
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// attempt is one run of a bench.
type attempt struct {
	results []result
	others  float64 // the share of the machine that other processes took
	seconds float64
	err     error
}

// take judges one attempt.
func (o *gateOutcome) take(row gateRow, a attempt) {
	o.Others = a.others
	i := slices.IndexFunc(a.results, func(r result) bool { return r.Name == row.result })
	switch {
	case a.err != nil:
		o.Verdict, o.Error = gateBroken, a.err.Error()
		return
	case i < 0:
		o.Verdict = gateMissing
		return
	case math.IsNaN(a.results[i].Ratio) || math.IsInf(a.results[i].Ratio, 0):
		o.Verdict, o.Error = gateBroken, fmt.Sprintf("%s is %g of %s", row.result, a.results[i].Ratio, a.results[i].Baseline)
		return
	}
	o.Result = a.results[i]
	o.Ratios = append(o.Ratios, o.Result.Ratio)
	switch {
	case !o.Limit.holds(o.Result.Ratio, o.Others):
		o.Verdict = gateFailed
	case len(o.Ratios) > 1:
		o.Verdict = gateRepeated
	default:
		o.Verdict = gatePassed
	}
}

// gate measures the rows in the control plane that runs, and returns an error that names each row
// that failed.
func (e *environment) gate(ctx context.Context, rows []gateRow, limits map[string]gateLimit) error {
	began, own := time.Now(), e.options
	defer func() { e.options = own }()
	outcomes := judgeRows(rows, limits, func(args string) attempt { return e.attempt(ctx, own, args) })
	if ctx.Err() != nil {
		return fmt.Errorf("the gate was interrupted: %w", ctx.Err())
	}
	report := gateReport{
		Source: e.source(ctx), Date: began.UTC().Truncate(time.Second), Kubernetes: e.state.Versions["kubernetes"],
		Seconds: round(time.Since(began).Seconds()), Rows: outcomes,
	}
	if err := writeJSON(filepath.Join(own.dir, gateFile), report); err != nil {
		return err
	}
	fmt.Fprintln(e.out)
	return errors.Join(report.print(e.out), report.failure())
}

// attempt runs the bench that args name, with the folder and the build of own.
func (e *environment) attempt(ctx context.Context, own options, args string) (a attempt) {
	o, err := parse(strings.Fields(args))
	if err := errors.Join(ctx.Err(), err); err != nil {
		return attempt{err: err}
	}
	chosen, err := choose(o.only)
	if err != nil {
		return attempt{err: err}
	}
	o.dir, o.curfew, o.keep = own.dir, own.curfew, own.keep
	e.options, e.parallel = o, 0
	fmt.Fprintf(e.out, "\n== %s: %s\n", chosen[0].name, args)
	began := time.Now()
	from, err := e.clockOfRow()
	if err != nil {
		return attempt{err: err}
	}
	a.results, a.err = chosen[0].run(ctx, e)
	a.seconds = time.Since(began).Seconds()
	if to, err := e.clockOfRow(); err == nil {
		a.others = round(others(from, to))
	}
	return a
}

// gateRows are the rows to judge and all limits; none where the gate is not asked for.
func (o options) gateRows(root string) ([]gateRow, map[string]gateLimit, error) {
	if !o.gate {
		return nil, nil, nil
	}
	rows, err := chooseRows(o.rows)
	if err != nil {
		return nil, nil, err
	}
	limits, err := readLimits(cmp.Or(o.limits, filepath.Join(root, gateLimits)), gateRows)
	return rows, limits, err
}
