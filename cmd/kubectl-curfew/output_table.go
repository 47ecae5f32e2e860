package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// writeTable is for people: a row a finding, and a summary beside it.
func writeTable(report *lint.Report, out, diagnostics io.Writer) error {
	return writeRows(report, false, out, diagnostics)
}

// writeWide has a row for each default as well.
func writeWide(report *lint.Report, out, diagnostics io.Writer) error {
	return writeRows(report, true, out, diagnostics)
}

func writeRows(report *lint.Report, defaults bool, out, diagnostics io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	header := "WHERE\tSEVERITY\tOBJECT\tRULE\tMESSAGE\n"
	row := func(at, severity string, object lint.Ref, rule, message string) {
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\n", header, at, severity, objectName(object), rule, oneLine(message))
		header = ""
	}
	for i := range report.Findings {
		finding := &report.Findings[i]
		row(where(finding.File, finding.Line), string(finding.Severity), finding.Object, finding.Rule, finding.Finding.String())
	}
	if defaults {
		for _, filled := range report.Defaults {
			row(where(filled.File, filled.Line), "default", filled.Object, "-", filled.String())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(diagnostics, "%s: %s, %s, %s\n", count(report.Objects, "object"),
		count(report.Count(policy.Deny), "error"), count(report.Count(policy.Warn), "warning"), count(len(report.Defaults), "default"))
	return err
}

// where is file:line, as editors and terminals understand it.
func where(file string, line int) string {
	if file == "" {
		file = "-"
	}
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
	return oneLine(object.String())
}

// oneLine keeps a text from breaking out of its row, and from telling a terminal what to do: some take U+009B for an escape.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
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
