package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// writeGitHub writes findings as workflow commands of GitHub Actions, which shows them as
// annotations.
func writeGitHub(report *lint.Report, out io.Writer) error {
	for i := range report.Findings {
		finding := &report.Findings[i]
		command := "warning"
		if finding.Severity == policy.Deny {
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
