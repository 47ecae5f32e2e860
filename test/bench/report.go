package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// result is one line of the table and one object in results.json.
type result struct {
	// Name is a dotted path that stays the same from release to release.
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value and BaselineValue are medians over the rounds.
	Value         float64 `json:"value"`
	Baseline      string  `json:"baseline"`
	BaselineValue float64 `json:"baselineValue"`
	// Ratio is the median of the rounds' own ratios, which is not the ratio of the medians.
	Ratio float64 `json:"ratio"`
	// Low and High are the least and the greatest ratio of a round.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// compare makes the result of two series that were measured in the same rounds.
func compare(name, unit string, values []float64, baseline string, baselineValues []float64) result {
	ratios := make([]float64, len(values))
	for i := range values {
		ratios[i] = values[i] / baselineValues[i]
	}
	return result{
		Name: name, Unit: unit, Value: round(median(values)), Baseline: baseline, BaselineValue: round(median(baselineValues)),
		Ratio: round(median(ratios)), Low: round(slices.Min(ratios)), High: round(slices.Max(ratios)),
	}
}

func printTable(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVALUE\tUNIT\tBASELINE\tBASELINE VALUE\tRATIO\tRANGE")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s - %s\n", r.Name, show(r.Value), r.Unit, r.Baseline, show(r.BaselineValue),
			show(r.Ratio), show(r.Low), show(r.High))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// show writes a number with two or three digits that mean something.
func show(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v > 0 && v < 0.1:
		return fmt.Sprintf("%.2g", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// resultsFile holds what the last run came to.
const resultsFile = "results.json"

// writeRuns keeps every single measurement of a bench, in a file of its own.
func (e *environment) writeRuns(bench string, all any) error {
	return writeJSON(filepath.Join(e.dir, "runs-"+bench+".json"), all)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// median of the values, 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// percentile is the least value that at least the share p (0 to 1) of the values do not exceed
// (nearest rank), 0 if there are none.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p * float64(len(s))))
	return s[min(len(s), max(1, rank))-1]
}

// round cuts off digits that mean nothing.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }
