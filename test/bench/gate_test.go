package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGateLimits(t *testing.T) {
	rows := []gateRow{{name: "drain"}, {name: "lateness"}}
	for name, c := range map[string]struct{ file, want string }{
		"good":                 {"limits: {drain: {reached: 0.9, atLeast: 0.6}, lateness: {reached: 1, atMost: 1.5}}", ""},
		"a row without limit":  {"limits: {lateness: {reached: 1, atMost: 1.5}}", "row drain has no limit"},
		"a limit without row":  {"limits: {drain: {reached: 0.9, atLeast: 0.6}, lateness: {reached: 1, atMost: 1.5}, nap: {reached: 1, atMost: 1.5}}", "there is no row nap"},
		"a misspelt word":      {"limits: {drain: {reached: 0.9, atleast: 0.6}, lateness: {reached: 1, atMax: 1.5}}", `unknown field "atMax"`},
		"both":                 {"limits: {drain: {reached: 0.9, atLeast: 0.6, atMost: 1}, lateness: {reached: 1, atMost: 1.5}}", "row drain: give one of atLeast and atMost"},
		"neither":              {"limits: {drain: {reached: 0.9}, lateness: {reached: 1, atMost: 1.5}}", "row drain: give one of atLeast and atMost"},
		"nothing reached":      {"limits: {drain: {atLeast: 0.6}, lateness: {reached: 1, atMost: 1.5}}", "row drain: say in reached what was measured"},
		"a tight limit":        {"limits: {drain: {reached: 0.9, atLeast: 0.8}, lateness: {reached: 1, atMost: 1.5}}", "row drain: at least 0.8 is 1.12 times worse than the 0.9 that was reached: let it be 1.25 to 2 times"},
		"a loose limit":        {"limits: {drain: {reached: 0.9, atLeast: 0.6}, lateness: {reached: 1, atMost: 9}}", "row lateness: at most 9 is 9.00 times worse than the 1 that was reached: let it be 1.25 to 2 times"},
		"a limit that is none": {"limits: {drain: {reached: 0.9, atLeast: -1}, lateness: {reached: 1, atMost: 1.5}}", "row drain: give one of atLeast and atMost"},
	} {
		_, err := parseLimits([]byte(c.file), rows)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got %s, want %q", name, got, c.want)
		}
	}
}

// The limits that are shipped are read, and each row's bench exists and knows its flags.
func TestGateRows(t *testing.T) {
	if _, err := readLimits("gate.yaml", gateRows); err != nil {
		t.Error(err)
	}
	defer func() { _, _ = parse(nil) }()
	for _, row := range gateRows {
		o, err := parse(strings.Fields(row.args))
		if err != nil {
			t.Errorf("row %s: %v", row.name, err)
			continue
		}
		if chosen, err := choose(o.only); err != nil || len(chosen) != 1 {
			t.Errorf("row %s: %d benches, %v: want one", row.name, len(chosen), err)
		}
	}
	if _, err := chooseRows("drain,nap"); err == nil || !strings.HasPrefix(err.Error(), `-rows "drain,nap": there is no row "nap", take some of lateness,drain,`) {
		t.Errorf("got %v", err)
	}
	if rows, err := chooseRows("memory,drain"); err != nil || len(rows) != 2 || rows[0].name != "memory" {
		t.Errorf("got %v, %v", rows, err)
	}
}

// Each row's bench gives a result of the name that counts, where both contestants took part.
func TestGateResults(t *testing.T) {
	defer func() { _, _ = parse(nil) }()
	pair := []string{theLimit, theCurfew}
	for _, row := range gateRows {
		o, err := parse(strings.Fields(row.args))
		if err != nil {
			t.Fatal(err)
		}
		var drains []measurement
		var marks []markRun
		var late []latenessRun
		for _, who := range pair {
			drains = append(drains, measurement{Contestant: who, PerSecond: 1})
			marks = append(marks, markRun{Contestant: who, PerSecond: 1})
			late = append(late, latenessRun{Contestant: who, P99: 1})
		}
		var reviews []reviewMeasurement
		for _, who := range []string{answerNoop, theCurfew} {
			reviews = append(reviews, reviewMeasurement{Contestant: who, Policies: admissionFlags.policies, P50: 1, Allocations: 1})
		}
		var runs []memoryRun
		for _, who := range []string{theCurfew, theUnbound} {
			runs = append(runs, memoryRun{Contestant: who}, memoryRun{Contestant: who, Jobs: memoryOptions.replayed, Heap: 1})
		}
		results := map[string][]result{
			"lateness":    latenessResults(late),
			"drain":       summarize(drains, contestants, o.jobs),
			"label_drain": summarizeLabelDrain(drains, labelDrainOptions.objects),
			"cleanup":     summarizeCleanup(drains, cleanupOptions.objects, nil),
			"tally":       {{Name: tallyResult}},
			"deadline":    markResults(marks, deadlineOptions.objects),
			"admission":   summarizeAdmission(reviews, nil),
			"cli_list":    {{Name: cliListResult(cliListOptions.jobs)}},
			"memory_many": memoryResults(runs, false),
		}[o.only]
		if !slices.ContainsFunc(results, func(r result) bool { return r.Name == row.result }) {
			t.Errorf("row %s: no result %s in %+v", row.name, row.result, results)
		}
	}
}

// attempts answers a row's measurements one after the other.
type attempts map[string][][]result

// measure is an attempt while other processes take a share of the machine.
func (a attempts) measure(others float64) func(args string) attempt {
	return func(args string) attempt {
		if len(a[args]) == 0 {
			return attempt{err: errors.New("a Job was deleted 1s before it was due")}
		}
		next := a[args][0]
		a[args] = a[args][1:]
		return attempt{results: next, others: others, seconds: 20}
	}
}

func TestGateVerdicts(t *testing.T) {
	at := func(ratios ...float64) (all [][]result) {
		for _, ratio := range ratios {
			all = append(all, []result{{Name: "r", Ratio: ratio}})
		}
		return all
	}
	least, most := gateLimit{Reached: 0.9, AtLeast: 0.6}, gateLimit{Reached: 1, AtMost: 1.5}
	for name, c := range map[string]struct {
		limit   gateLimit
		results [][]result
		verdict string
		ratios  []float64
		others  float64
	}{
		"kept":                           {least, at(0.6), gatePassed, []float64{0.6}, 0},
		"broken twice":                   {least, at(0.17, 0.18, 0.9), gateFailed, []float64{0.17, 0.18}, 0},
		"broken once":                    {least, at(0.3, 0.9), gateRepeated, []float64{0.3, 0.9}, 0},
		"less is better":                 {most, at(1.5), gatePassed, []float64{1.5}, 0},
		"less is better, broken":         {most, at(9.2, 8), gateFailed, []float64{9.2, 8}, 0},
		"no such result":                 {least, [][]result{{{Name: "other", Ratio: 1}}}, gateMissing, nil, 0},
		"no result":                      {least, [][]result{nil}, gateMissing, nil, 0},
		"an error":                       {least, nil, gateBroken, nil, 0},
		"an error in the repetition":     {least, at(0.3), gateBroken, []float64{0.3}, 0},
		"no number":                      {most, at(math.NaN()), gateBroken, nil, 0},
		"a baseline of nothing":          {least, at(math.Inf(1)), gateBroken, nil, 0},
		"no such result the second time": {least, append(at(0.3), nil), gateMissing, []float64{0.3}, 0},
		"others take a fifth":            {least, at(0.5, 0.5), gateFailed, []float64{0.5, 0.5}, 0.2},
		"others take half":               {least, at(0.3), gatePassed, []float64{0.3}, 0.5},
		"others take half, broken":       {least, at(0.29, 0.1), gateFailed, []float64{0.29, 0.1}, 0.5},
		"others take half, less":         {most, at(3), gatePassed, []float64{3}, 0.5},
		"others take half, less, broken": {most, at(9.2, 8), gateFailed, []float64{9.2, 8}, 0.5},
	} {
		row := gateRow{name: "row", args: "bench", result: "r"}
		got := judgeRows([]gateRow{row}, map[string]gateLimit{"row": c.limit}, attempts{"bench": c.results}.measure(c.others))
		if len(got) != 1 || got[0].Verdict != c.verdict || !reflect.DeepEqual(got[0].Ratios, c.ratios) {
			t.Errorf("%s: got %+v, want %s, %v", name, got, c.verdict, c.ratios)
		}
		failed := gateReport{Rows: got}.failure() != nil
		if passed := c.verdict == gatePassed || c.verdict == gateRepeated; failed == passed {
			t.Errorf("%s: the gate failed: %v", name, failed)
		}
	}
}

// Rows of one bench are measured together, and one that fails does not give the others another try.
func TestGateMeasuresABenchOnce(t *testing.T) {
	rows := []gateRow{{"p50", "admission", "p50"}, {"allocations", "admission", "allocs"}}
	limits := map[string]gateLimit{"p50": {Reached: 1, AtMost: 1.5}, "allocations": {Reached: 5, AtMost: 7}}
	first := []result{{Name: "p50", Ratio: 1}, {Name: "allocs", Ratio: 8}}
	all := attempts{"admission": {first, {{Name: "p50", Ratio: 3}, {Name: "allocs", Ratio: 6}}}}
	got := judgeRows(rows, limits, all.measure(0))
	if got[0].Verdict != gatePassed || got[1].Verdict != gateRepeated {
		t.Errorf("the verdicts are %s and %s, want %s and %s", got[0].Verdict, got[1].Verdict, gatePassed, gateRepeated)
	}
	if left := len(all["admission"]); left != 0 {
		t.Errorf("%d attempts were not made", left)
	}
	if got[0].Seconds != 20 || got[1].Seconds != 20 {
		t.Errorf("they took %v and %v, want 20 s for both attempts", got[0].Seconds, got[1].Seconds)
	}
}

func TestGateReport(t *testing.T) {
	r := gateReport{Source: "0123456789ab", Date: time.Unix(0, 0), Kubernetes: "v1.36.3", Seconds: 500, Rows: []gateOutcome{
		{Row: "memory", Limit: gateLimit{Reached: 0.032, AtMost: 0.05}, Verdict: gatePassed, Ratios: []float64{0.0321}, Seconds: 21,
			Result: result{Name: "m", Unit: "B", Value: 160, BaselineValue: 5200, Baseline: "in-tree", Ratio: 0.0321}},
		{Row: "drain", Limit: gateLimit{Reached: 0.96, AtLeast: 0.64}, Verdict: gateFailed, Ratios: []float64{0.17, 0.18}, Others: 0.9,
			Result: result{Name: "drain.jobs.3k.vs_limit", Unit: "deletes/s", Value: 250, BaselineValue: 1500, Baseline: "bare loop", Ratio: 0.18}},
		{Row: "tally", Limit: gateLimit{Reached: 0.97, AtLeast: 0.64}, Verdict: gateMissing},
		{Row: "cleanup", Limit: gateLimit{Reached: 0.57, AtLeast: 0.38}, Verdict: gateBroken, Error: "create: refused"},
	}}
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	want := `ROW      RATIO            LIMIT          REACHED  VERDICT  OTHERS  TOOK  VALUE          BASELINE
memory   0.0321           at most 0.05   0.032    ok       0%      21 s  160 B          5200, in-tree
drain    0.17, then 0.18  at least 0.64  0.96     FAILED   90%     0 s   250 deletes/s  1500, bare loop
tally    -                at least 0.64  0.97     MISSING  0%      0 s                  
cleanup  -                at least 0.38  0.57     ERROR    0%      0 s                  
0123456789ab on Kubernetes v1.36.3, 500 s
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	errText := `gate: row drain: 0.17, then 0.18 of bare loop (drain.jobs.3k.vs_limit), the limit is at least 0.64; other processes took 90% of the machine; repeat it with: make bench-gate ROWS=drain
gate: row tally: the bench gave no such result: at least 0.64 is demanded; repeat it with: make bench-gate ROWS=tally
gate: row cleanup: create: refused; repeat it with: make bench-gate ROWS=cleanup`
	if err := r.failure(); err == nil || err.Error() != errText {
		t.Errorf("got\n%v\nwant\n%s", err, errText)
	}
}

func TestGateFlags(t *testing.T) {
	defer func() { _, _ = parse(nil) }()
	for _, args := range []string{"-rows drain", "-limits x", "-gate -only drain"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	if o, err := parse([]string{"-gate", "-rows", "drain"}); err != nil || o.rows != "drain" {
		t.Errorf("got %+v, %v", o, err)
	}
}
