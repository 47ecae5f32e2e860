package lint

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/rules"
)

// writeGitHub writes findings as workflow commands of GitHub Actions, which shows them as
// annotations.
func writeGitHub(report *lint.Report, out io.Writer) error {
	for i := range report.Findings {
		finding := &report.Findings[i]
		command := "warning"
		if finding.Severity == rules.Deny {
			command = "error"
		}
		var properties []string
		if finding.File != "" {
			properties = append(properties, "file="+property(finding.File))
			if finding.Line > 0 {
				properties = append(properties, "line="+strconv.Itoa(finding.Line))
			}
		}
		properties = append(properties, "title="+property("curfew "+finding.Rule))
		message := finding.Finding.String()
		if finding.Object.Kind != "" {
			message = finding.Object.String() + ": " + message
		}
		if _, err := fmt.Fprintf(out, "::%s %s::%s\n", command, strings.Join(properties, ","), commandData.Replace(message)); err != nil {
			return err
		}
	}
	return nil
}

// Workflow commands need these escapes (actions/toolkit, packages/core, command.ts).
var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func property(text string) string { return commandProperty.Replace(text) }

// lintReport is a report with the files and documents that lint skipped.
type lintReport struct {
	*lint.Report
	skipped []folders.Skipped
}

// skippedText counts the skipped files and documents by reason; "" for none.
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
	table := console.NewTable("WHERE", "SEVERITY", "OBJECT", "RULE", "MESSAGE")
	for i := range report.Findings {
		finding := &report.Findings[i]
		console.AddRow(table, nil, console.Where(finding.File, finding.Line), string(finding.Severity), objectName(finding.Object), finding.Rule, finding.Finding.String())
	}
	if wide {
		for _, filled := range report.Defaults {
			console.AddRow(table, nil, console.Where(filled.File, filled.Line), "default", objectName(filled.Object), "-", filled.String())
		}
		for _, each := range report.skipped {
			console.AddRow(table, nil, console.Where(each.File, each.Line), "skipped", "-", "-", each.Reason)
		}
	}
	if err := console.PrintTable(table, options, out); err != nil {
		return err
	}
	counts := []string{console.Count(report.Count(rules.Deny), "error"), console.Count(report.Count(rules.Warn), "warning"), console.Count(len(report.Defaults), "default")}
	if skipped := report.skippedText(); skipped != "" {
		counts = append(counts, skipped)
	}
	_, err := fmt.Fprintf(diagnostics, "%s: %s\n", console.Count(report.Objects, "object"), strings.Join(counts, ", "))
	return err
}

// objectName is a dash for a document that could not be read.
func objectName(object lint.Ref) string {
	if object.Kind == "" {
		return "-"
	}
	return object.String()
}
