package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// gateResults holds what the last run of the gate came to.
const gateResults = "gate.json"

type gateReport struct {
	Source     string        `json:"source"` // the commit that was measured
	Date       time.Time     `json:"date"`
	Kubernetes string        `json:"kubernetes"`
	Seconds    float64       `json:"seconds"`
	Rows       []gateOutcome `json:"rows"`
}

// disturbed is the share of the machine above which other processes distort a measurement.
const disturbed = 0.1

// ratios shows the ratio of each attempt.
func (o gateOutcome) ratios() string {
	var all []string
	for _, ratio := range o.Ratios {
		all = append(all, strconv.FormatFloat(ratio, 'g', 3, 64))
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ", then ")
}

func (r gateReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tRATIO\tLIMIT\tREACHED\tVERDICT\tOTHERS\tTOOK\tVALUE\tBASELINE")
	for _, o := range r.Rows {
		value, baseline := "", ""
		if o.Last.Name != "" {
			value, baseline = show(o.Last.Value)+" "+o.Last.Unit, show(o.Last.BaselineValue)+", "+o.Last.Baseline
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%g\t%s\t%.0f%%\t%.0f s\t%s\t%s\n", o.Row, o.ratios(), o.limit, o.Reached, o.Verdict, o.Others*100, o.Seconds, value, baseline)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	fmt.Fprintf(out, "%s on Kubernetes %s, %.0f s\n", r.Source, r.Kubernetes, r.Seconds)
	return nil
}

// failure is nil if all rows passed. It names each that did not, and how to repeat it alone.
func (r gateReport) failure() error {
	var errs []error
	for _, o := range r.Rows {
		var problem string
		switch o.Verdict {
		case gatePassed, gateRepeated:
			continue
		case gateFailed:
			problem = fmt.Sprintf("%s of %s (%s), the limit is %s", o.ratios(), o.Last.Baseline, o.Last.Name, o.limit)
			if o.Others > disturbed {
				problem += fmt.Sprintf("; other processes took %.0f%% of the machine", o.Others*100)
			}
		default:
			problem = o.Error
		}
		errs = append(errs, fmt.Errorf("gate: row %s: %s; repeat it with: make bench-gate ROWS=%s", o.Row, problem, o.Row))
	}
	return errors.Join(errs...)
}
