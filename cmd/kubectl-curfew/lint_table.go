package main

import (
	"fmt"
	"io"
	"strconv"

	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// writeFindings writes a row for each finding, and with defaults one for each of those, and a
// summary to diagnostics.
func writeFindings(report *lint.Report, defaults bool, options printers.PrintOptions, out, diagnostics io.Writer) error {
	table := newTable("WHERE", "SEVERITY", "OBJECT", "RULE", "MESSAGE")
	for i := range report.Findings {
		finding := &report.Findings[i]
		addRow(table, nil, where(finding.File, finding.Line), string(finding.Severity), objectName(finding.Object), finding.Rule, finding.Finding.String())
	}
	if defaults {
		for _, filled := range report.Defaults {
			addRow(table, nil, where(filled.File, filled.Line), "default", objectName(filled.Object), "-", filled.String())
		}
	}
	if err := printTable(table, options, out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(diagnostics, "%s: %s, %s, %s\n", count(report.Objects, "object"),
		count(report.Count(policy.Deny), "error"), count(report.Count(policy.Warn), "warning"), count(len(report.Defaults), "default"))
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
