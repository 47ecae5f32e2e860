package rules

import (
	"fmt"
	"slices"
	"strings"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// Severity is the effect of a finding on the request.
type Severity string

// The severities.
const (
	Deny Severity = "error"
	Warn Severity = "warning"
)

// Finding is a fault that one rule finds in one field.
type Finding struct {
	// Rule is the name of the rule, as files and documentation name it.
	Rule string `json:"rule"`
	// Field is the path of the field, from the root of the object.
	Field string `json:"field"`
	// Value is the text at the field. Two findings about the same value are the same finding.
	Value string `json:"-"`
	// Severity is the effect on the request.
	Severity Severity `json:"severity"`
	// Level is where the violated limit is set, if known. A namespace's mode softens only limits of
	// its own.
	Level lifetime.Level `json:"-"`
	// Retry means that the same request may be allowed a moment later.
	Retry bool `json:"-"`
	// Message names the fault and the fix; it does not repeat the field.
	Message string `json:"message"`
}

// String is the finding as one line of kubectl output.
func (f Finding) String() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// Decision is the outcome of a review: a plain value. Only the edge turns it into an
// AdmissionResponse, JSON or a table row.
type Decision struct {
	Findings []Finding
	// Defaults that the object was given, or in dry-run would be given.
	Defaults []resolution.Default
	// ByRuntime says when the runtime of a new object deletes it; empty where it does not.
	ByRuntime string
	// Source is the effective TTL's source, for the audit log; empty where there is none.
	Source string
}

// Allowed reports whether nothing denies the request.
func (d *Decision) Allowed() bool {
	return !slices.ContainsFunc(d.Findings, func(finding Finding) bool { return finding.Severity == Deny })
}

// Denials are the findings that deny the request.
func (d *Decision) Denials() []Finding {
	var out []Finding
	for _, finding := range d.Findings {
		if finding.Severity == Deny {
			out = append(out, finding)
		}
	}
	return out
}

// Reason is all denials in one line, each with its field.
func (d *Decision) Reason() string {
	var lines []string
	for _, finding := range d.Denials() {
		lines = append(lines, finding.String())
	}
	return strings.Join(lines, "; ")
}

// Rules are the names of the rules that found something, each once.
func (d *Decision) Rules() []string {
	var names []string
	for _, finding := range d.Findings {
		if !slices.Contains(names, finding.Rule) {
			names = append(names, finding.Rule)
		}
	}
	return names
}

// SeeHelp begins the line that leads people to the help on the rules that found something.
const SeeHelp = "see: kubectl curfew explain rule/"

// Help is that line; empty where no rule found anything.
func (d *Decision) Help() string {
	names := d.Rules()
	if len(names) == 0 {
		return ""
	}
	return SeeHelp + strings.Join(names, " rule/")
}

// Warnings are the lines that kubectl prints. Defaults, and what the runtime does, are announced to
// people only, and not if the request is denied.
func (d *Decision) Warnings(toPerson bool) []string {
	var out []string
	if toPerson && d.Allowed() {
		for _, filled := range d.Defaults {
			out = append(out, fmt.Sprintf("curfew: %s", filled))
		}
		if d.ByRuntime != "" {
			out = append(out, "curfew: "+d.ByRuntime)
		}
	}
	for _, finding := range d.Findings {
		if finding.Severity == Warn {
			out = append(out, "curfew: "+finding.String())
		}
	}
	return out
}

// Soften turns denials by the namespace's own settings into warnings unless its mode is enforce.
// Denials by a policy or by Curfew stay: otherwise anyone who can update a Namespace could lift the
// platform's rules.
func (d *Decision) Soften(mode resolution.Mode) {
	if mode == resolution.ModeEnforce {
		return
	}
	for i := range d.Findings {
		if d.Findings[i].Severity == Deny && d.Findings[i].Level == lifetime.LevelNamespace {
			d.Findings[i].Severity = Warn
			d.Findings[i].Message = fmt.Sprintf("would be refused (mode %s): %s", mode, d.Findings[i].Message)
		}
	}
}

// wouldBeRefused begins the warnings about what a policy in dry-run would reject.
const wouldBeRefused = "would be refused (mode DryRun): "
