package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// writeTable is for people: a row a finding, and a summary beside it.
func writeTable(report *lint.Report, out, diagnostics io.Writer) error {
	if len(report.Findings) > 0 {
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "WHERE\tSEVERITY\tOBJECT\tRULE\tMESSAGE")
		for i := range report.Findings {
			finding := &report.Findings[i]
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n",
				where(finding), finding.Severity, objectName(finding), finding.Rule, oneLine(finding.Finding.String()))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(diagnostics, "%s: %s, %s, %s\n", count(report.Objects, "object"),
		count(report.Count(policy.Deny), "error"), count(report.Count(policy.Warn), "warning"), count(len(report.Defaults), "default"))
	return err
}

// where is file:line, as editors and terminals understand it.
func where(finding *lint.Finding) string {
	file := finding.File
	if file == "" {
		file = "-"
	}
	if finding.Line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(finding.Line)
}

// objectName is empty for a document that could not be read.
func objectName(finding *lint.Finding) string {
	if finding.Object.Kind == "" {
		return "-"
	}
	return oneLine(finding.Object.String())
}

// oneLine keeps a text from breaking out of its row.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
