package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func TestGateLimits(t *testing.T) {
	for name, c := range map[string]struct {
		reached float64
		limit   limit
		want    string
	}{
		"good":                 {0.9, limit{AtLeast: 0.6}, ""},
		"both":                 {0.9, limit{AtLeast: 0.6, AtMost: 1}, "row a: give one of atLeast and atMost"},
		"neither":              {0.9, limit{}, "row a: give one of atLeast and atMost"},
		"a limit that is none": {0.9, limit{AtLeast: -1}, "row a: give one of atLeast and atMost"},
		"nothing reached":      {0, limit{AtLeast: 0.6}, "row a: give rounds, objects, and in reached what was measured"},
		"a tight limit":        {0.9, limit{AtLeast: 0.85}, "row a: at least 0.85 is 1.06 times worse than the 0.9 that was reached: let it be 1.1 to 2 times"},
		"a loose limit":        {1, limit{AtMost: 9}, "row a: at most 9 is 9.00 times worse than the 1 that was reached: let it be 1.1 to 2 times"},
	} {
		err := gateRow{Row: "a", Bench: "drain", Objects: 2, Rounds: 1, Reached: c.reached, limit: c.limit}.check()
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%s: got %s, want %q", name, got, c.want)
		}
	}
}

// The shipped file is read. Each bench has code, each row's number is one that its bench gives, and
// after a change the rows are judged whose code it touches.
func TestGateRows(t *testing.T) {
	file, err := readGate(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range benches {
		for _, folder := range append(file.Code[b.name], "") {
			if found, err := filepath.Glob(filepath.Join("..", "..", folder)); err != nil || len(found) == 0 || len(file.Code[b.name]) == 0 {
				t.Errorf("bench %s: the folder %q of its code is not there", b.name, folder)
			}
		}
	}
	pair := []measurement{{Contestant: theLimit, PerSecond: 1, P99: 1}, {Contestant: theCurfew, PerSecond: 1, P99: 1}}
	memory := []memoryRun{{Contestant: theCurfew}, {Contestant: theUnbound}, {Contestant: theCurfew, Jobs: 20000}, {Contestant: theUnbound, Jobs: 20000}}
	var names []string
	for _, row := range file.Rows {
		names = append(names, row.Row)
		results := map[string][]result{
			"lateness":    summarizeLateness(pair),
			"drain":       summarizeDrain(pair, row.Objects),
			"label_drain": summarizeRate("label.drain", pair, row.Objects),
			"cleanup":     summarizeRate("cleanup.drain", pair, row.Objects),
			"tally":       {{Name: "tally.count.vs_limit"}},
			"deadline":    summarizeMarks(pair, bareLoop, row.Objects),
			"admission":   summarizeAdmission([]reviewMeasurement{{Contestant: answerNoop}, {Contestant: theCurfew}}),
			"create":      {{Name: "admission.create_added_p50.vs_map"}},
			"cli_list":    {{Name: "cli.expiring." + sizeName(row.Objects) + ".vs_get"}},
			"memory":      memoryResults(memory),
		}[row.Bench]
		if !slices.ContainsFunc(results, func(r result) bool { return r.Name == row.Result }) {
			t.Errorf("row %s: no result %s in %+v", row.Row, row.Result, results)
		}
	}
	always := []string{"lateness", "drain", "label_drain", "cleanup", "admission", "admission_allocations", "memory"}
	for name, c := range map[string]struct{ changed, want []string }{
		"nothing":            {[]string{""}, always},
		"a page and a test":  {[]string{"docs/a.md", "controller/tally/a_test.go", "controller/tallying/a.go"}, always},
		"the tallies":        {[]string{"controller/tally/a.go"}, append([]string{"tally"}, always...)},
		"what many share":    {[]string{"policy/a.go"}, append([]string{"deadline", "create", "cli_list"}, always...)},
		"the benches' files": {[]string{"test/bench/gate.yaml"}, names},
	} {
		var got []string
		chosen, left := due(file, c.changed)
		for _, row := range chosen {
			got = append(got, row.Row)
		}
		if slices.Sort(c.want); !reflect.DeepEqual(slices.Sorted(slices.Values(got)), c.want) || len(got)+len(left) != len(names) {
			t.Errorf("%s: got %v, without %v, want %v", name, got, left, c.want)
		}
	}
}

// attempts answers measurements one after the other.
type attempts [][]result

// measure is an attempt while other processes take a share of the machine.
func (a *attempts) measure(others float64) func(gateRow) attempt {
	return func(gateRow) attempt {
		if len(*a) == 0 {
			return attempt{err: errors.New("a Job was deleted 1s before it was due")}
		}
		next := (*a)[0]
		*a = (*a)[1:]
		return attempt{results: next, others: others, seconds: 20}
	}
}

func TestGateVerdicts(t *testing.T) {
	measured := func(ratios ...float64) (all attempts) {
		for _, ratio := range ratios {
			all = append(all, []result{{Name: "r", Ratio: ratio}})
		}
		return all
	}
	least, most := limit{AtLeast: 0.6}, limit{AtMost: 1.5}
	for name, c := range map[string]struct {
		limit   limit
		results attempts
		verdict string
		ratios  []float64
		others  float64
	}{
		"kept":                       {least, measured(0.6), gatePassed, []float64{0.6}, 0},
		"broken twice":               {least, measured(0.17, 0.18, 0.9), gateFailed, []float64{0.17, 0.18}, 0},
		"broken once":                {least, measured(0.3, 0.9), gateRepeated, []float64{0.3, 0.9}, 0},
		"less is better":             {most, measured(1.5), gatePassed, []float64{1.5}, 0},
		"no such result":             {least, attempts{{{Name: "other", Ratio: 1}}}, gateMissing, nil, 0},
		"an error":                   {least, nil, gateBroken, nil, 0},
		"an error in the repetition": {least, measured(0.3), gateBroken, []float64{0.3}, 0},
		"no number":                  {most, measured(math.NaN()), gateBroken, nil, 0},
		"others take a fifth":        {least, measured(0.5, 0.5), gateFailed, []float64{0.5, 0.5}, 0.2},
		"others take half":           {least, measured(0.3), gatePassed, []float64{0.3}, 0.5},
		"others take half, broken":   {least, measured(0.29, 0.1), gateFailed, []float64{0.29, 0.1}, 0.5},
		"others take half, less":     {most, measured(3), gatePassed, []float64{3}, 0.5},
	} {
		row := gateRow{Row: "row", Bench: "drain", Result: "r", limit: c.limit}
		got := judgeRows([]gateRow{row}, c.results.measure(c.others))
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
	rows := []gateRow{{Row: "p50", Result: "p50", limit: limit{AtMost: 1.5}}, {Row: "allocations", Result: "allocs", limit: limit{AtMost: 7}}}
	first := []result{{Name: "p50", Ratio: 1}, {Name: "allocs", Ratio: 8}}
	all := attempts{first, {{Name: "p50", Ratio: 3}, {Name: "allocs", Ratio: 6}}}
	got := judgeRows(rows, all.measure(0))
	if got[0].Verdict != gatePassed || got[1].Verdict != gateRepeated {
		t.Errorf("the verdicts are %s and %s, want %s and %s", got[0].Verdict, got[1].Verdict, gatePassed, gateRepeated)
	}
	if left := len(all); left != 0 {
		t.Errorf("%d attempts were not made", left)
	}
	if got[0].Seconds != 20 || got[1].Seconds != 20 {
		t.Errorf("they took %v and %v, want 20 s for both attempts", got[0].Seconds, got[1].Seconds)
	}
}
