package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// gateConfig is the file of the gate's rows, of the goals of the documentation, and of the code that
// each bench measures.
const gateConfig = "test/bench/gate.yaml"

type gateFile struct {
	Rows  []gateRow           `json:"rows"`
	Goals []goal              `json:"goals"`
	Code  map[string][]string `json:"code"`
}

// gateRow is one number that may not get worse unnoticed.
type gateRow struct {
	Row     string `json:"row"`
	Bench   string `json:"bench"`
	Objects int    `json:"objects"`
	Rounds  int    `json:"rounds"`
	// Result is the name of the bench's result that counts.
	Result string `json:"result"`
	// Always: it is measured whatever has changed.
	Always bool `json:"always,omitempty"`
	// Reached is the ratio that was measured when the limit was set.
	Reached float64 `json:"reached"`
	limit
}

// limit is what a ratio has to keep: one of the two.
type limit struct {
	AtLeast float64 `json:"atLeast,omitempty"`
	AtMost  float64 `json:"atMost,omitempty"`
}

// Where other processes took more than crowded of the machine, each limit is crowdedSlack times
// wider. Noise breaks the narrow limit there. A lost factor breaks the wide one as well.
const crowded, crowdedSlack = 0.25, 2

// holds reports whether a ratio keeps the limit. Other processes took the given share of the
// machine.
func (l limit) holds(ratio, others float64) bool {
	slack := 1.0
	if others > crowded {
		slack = crowdedSlack
	}
	if l.AtLeast > 0 {
		return ratio >= l.AtLeast/slack
	}
	return ratio <= l.AtMost*slack
}

func (l limit) String() string {
	if l.AtLeast > 0 {
		return fmt.Sprintf("at least %g", l.AtLeast)
	}
	return fmt.Sprintf("at most %g", l.AtMost)
}

// check demands a limit 1.1 to 2 times worse than what was reached, so that noise passes and a lost
// factor does not.
func (r gateRow) check() error {
	slack := r.AtMost / r.Reached
	if r.AtLeast > 0 {
		slack = r.Reached / r.AtLeast
	}
	switch {
	case r.Reached <= 0 || r.Rounds < 1 || r.Objects < 2:
		return fmt.Errorf("row %s: give rounds, objects, and in reached what was measured", r.Row)
	case (r.AtLeast > 0) == (r.AtMost > 0):
		return fmt.Errorf("row %s: give one of atLeast and atMost", r.Row)
	case slack < 1.1 || slack > 2:
		return fmt.Errorf("row %s: %s is %.2f times worse than the %g that was reached: let it be 1.1 to 2 times", r.Row, r.limit, slack, r.Reached)
	}
	_, err := choose(r.Bench)
	return err
}

// Args are the command line that measures a row.
func (r gateRow) Args() string {
	return fmt.Sprintf("-only %s -contestants limit,curfew -objects %d -rounds %d", r.Bench, r.Objects, r.Rounds)
}

func readGate(root string) (file gateFile, err error) {
	data, err := os.ReadFile(filepath.Join(root, gateConfig))
	if err != nil {
		return file, fmt.Errorf("read the gate: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return file, fmt.Errorf("%s: %w", gateConfig, err)
	}
	for _, row := range file.Rows {
		err = errors.Join(err, row.check())
	}
	return file, err
}

// gateRows are the rows to judge; none where the gate is not asked for. Without -rows and -all these
// are the ones that are always judged, and those whose code has changed.
func (e *environment) gateRows(ctx context.Context) ([]gateRow, error) {
	if !e.options.gate {
		return nil, nil
	}
	file, err := readGate(e.root)
	if err != nil || e.all && e.rows == "" {
		return file.Rows, err
	}
	if e.rows != "" {
		return pick("-rows", e.rows, file.Rows, func(r gateRow) string { return r.Row })
	}
	changed, err := changedFiles(ctx, e.root, e.base)
	if err != nil {
		fmt.Fprintf(e.out, "all rows are judged, since it is not known what has changed: %v\n", err)
		return file.Rows, nil
	}
	chosen, left := due(file, changed)
	if len(left) > 0 {
		fmt.Fprintf(e.out, "not judged, since their code has not changed (-all judges all): %s\n", strings.Join(left, ", "))
	}
	return chosen, nil
}

// due returns the rows to judge after a change, and the names of the others. Files of the benches
// concern every row.
func due(file gateFile, changed []string) (chosen []gateRow, left []string) {
	for _, row := range file.Rows {
		code := append([]string{"test/bench"}, file.Code[row.Bench]...)
		touched := slices.ContainsFunc(changed, func(name string) bool {
			return !strings.HasSuffix(name, "_test.go") && slices.ContainsFunc(code, func(folder string) bool { return strings.HasPrefix(name, folder+"/") })
		})
		if row.Always || touched {
			chosen = append(chosen, row)
		} else {
			left = append(left, row.Row)
		}
	}
	return chosen, left
}

// changedFiles are those that differ from the base: the merge base with main if none is given, and on
// main the commit before.
func changedFiles(ctx context.Context, root, base string) ([]string, error) {
	if base == "" {
		head, err := git(ctx, root, "rev-parse", "HEAD")
		if err != nil {
			return nil, fmt.Errorf("find the commit: %w", err)
		}
		if base, err = git(ctx, root, "merge-base", "HEAD", "main"); err != nil {
			return nil, fmt.Errorf("find the merge base with main: %w", err)
		}
		if base == head {
			base = "HEAD~"
		}
	}
	names, err := git(ctx, root, "diff", "--name-only", base)
	if err != nil {
		return nil, fmt.Errorf("compare with %s: %w", base, err)
	}
	return strings.Split(names, "\n"), nil
}

// git runs a command of git in the repository and returns what it prints, without the line's end.
func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
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
	gateRow
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"`
	// Last is the last attempt's result.
	Last result `json:"last"`
	// Ratios has one ratio for each attempt.
	Ratios []float64 `json:"ratios"`
	// Others is the share of the machine, 0 to 1, that other processes took in the last attempt.
	Others float64 `json:"others"`
	// Seconds is how long the attempts took that began for this row.
	Seconds float64 `json:"seconds"`
}

// attempt is one run of a bench.
type attempt struct {
	results []result
	others  float64 // the share of the machine that other processes took
	seconds float64
	err     error
}

// judgeRows measures all rows and holds them against their limits. Rows with the same arguments are
// measured together. A row that fails is measured once more, at once, and the second time counts. A
// bench that ends with an error is not repeated: an object that was deleted too early is no noise.
func judgeRows(rows []gateRow, measure func(row gateRow) attempt) []gateOutcome {
	measured := map[string]attempt{}
	var outcomes []gateOutcome
	for _, row := range rows {
		o := gateOutcome{gateRow: row}
		for again := range 2 {
			a, known := measured[row.Args()]
			if !known || again > 0 {
				a = measure(row)
				measured[row.Args()] = a
				o.Seconds = round(o.Seconds + a.seconds)
			}
			if o.take(a); o.Verdict != gateFailed {
				break
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// take judges one attempt.
func (o *gateOutcome) take(a attempt) {
	o.Others = a.others
	i := slices.IndexFunc(a.results, func(r result) bool { return r.Name == o.Result })
	switch {
	case a.err != nil:
		o.Verdict, o.Error = gateBroken, a.err.Error()
		return
	case i < 0:
		o.Verdict, o.Error = gateMissing, "the bench gave no result "+o.Result
		return
	case math.IsNaN(a.results[i].Ratio) || math.IsInf(a.results[i].Ratio, 0):
		o.Verdict, o.Error = gateBroken, fmt.Sprintf("%s is %g of %s", o.Result, a.results[i].Ratio, a.results[i].Baseline)
		return
	}
	o.Last = a.results[i]
	o.Ratios = append(o.Ratios, o.Last.Ratio)
	switch {
	case !o.holds(o.Last.Ratio, o.Others):
		o.Verdict = gateFailed
	case len(o.Ratios) > 1:
		o.Verdict = gateRepeated
	default:
		o.Verdict = gatePassed
	}
}

// gate measures the rows in the control plane that runs, and returns an error that names each row
// that failed.
func (e *environment) gate(ctx context.Context, rows []gateRow) error {
	began := time.Now()
	outcomes := judgeRows(rows, func(row gateRow) attempt { return e.attempt(ctx, row) })
	if ctx.Err() != nil {
		return fmt.Errorf("the gate was interrupted: %w", ctx.Err())
	}
	report := gateReport{
		Source: e.source(ctx), Date: began.UTC().Truncate(time.Second), Kubernetes: e.state.Versions["kubernetes"],
		Seconds: round(time.Since(began).Seconds()), Rows: outcomes,
	}
	if err := writeJSON(filepath.Join(e.dir, gateResults), report); err != nil {
		return err
	}
	fmt.Fprintln(e.out)
	return errors.Join(report.print(e.out), report.failure())
}

// attempt runs the bench of a row.
func (e *environment) attempt(ctx context.Context, row gateRow) (a attempt) {
	own := e.options
	defer func() { e.options = own }()
	chosen, err := choose(row.Bench)
	if err := errors.Join(ctx.Err(), err); err != nil {
		return attempt{err: err}
	}
	e.contestants, e.objects, e.rounds, e.calm = "limit,curfew", row.Objects, row.Rounds, 2*time.Second
	fmt.Fprintf(e.out, "\n== %s: %s\n", row.Row, row.Args())
	began := time.Now()
	since, err := startMeter(e.processes())
	if err != nil {
		return attempt{err: err}
	}
	a.results, a.err = e.measure(ctx, chosen[0])
	a.seconds = time.Since(began).Seconds()
	if _, others, err := since.read(1); err == nil {
		a.others = others
	}
	return a
}
