package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// lintReport is a report with what was skipped.
type lintReport struct {
	*lint.Report
	skipped []skipped
}

// skippedText counts what was skipped by reason; "" for nothing.
func (r *lintReport) skippedText() string {
	counts := map[string]int{}
	for _, each := range r.skipped {
		counts[each.Reason]++
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%d skipped (%s)", len(r.skipped), strings.Join(parts, ", "))
}

// writeFindings writes a row for each finding, if wide one for each default and each skipped file
// too, and a summary to diagnostics.
func writeFindings(report *lintReport, wide bool, options printers.PrintOptions, out, diagnostics io.Writer) error {
	table := newTable("WHERE", "SEVERITY", "OBJECT", "RULE", "MESSAGE")
	for i := range report.Findings {
		finding := &report.Findings[i]
		addRow(table, nil, where(finding.File, finding.Line), string(finding.Severity), objectName(finding.Object), finding.Rule, finding.Finding.String())
	}
	if wide {
		for _, filled := range report.Defaults {
			addRow(table, nil, where(filled.File, filled.Line), "default", objectName(filled.Object), "-", filled.String())
		}
		for _, each := range report.skipped {
			addRow(table, nil, where(each.File, each.Line), "skipped", "-", "-", each.Reason)
		}
	}
	if err := printTable(table, options, out); err != nil {
		return err
	}
	counts := []string{count(report.Count(policy.Deny), "error"), count(report.Count(policy.Warn), "warning"), count(len(report.Defaults), "default")}
	if skipped := report.skippedText(); skipped != "" {
		counts = append(counts, skipped)
	}
	_, err := fmt.Fprintf(diagnostics, "%s: %s\n", count(report.Objects, "object"), strings.Join(counts, ", "))
	return err
}

// where is file:line, as editors and terminals understand it.
func where(file string, line int) string {
	file = orDash(file)
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// objectName is a dash for a document that could not be read.
func objectName(object lint.Ref) string {
	if object.Kind == "" {
		return "-"
	}
	return object.String()
}
