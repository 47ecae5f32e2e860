package policy

import (
	"fmt"
	"strings"
)

// Severity says what a finding does to the request.
type Severity string

// The severities.
const (
	Deny Severity = "error"
	Warn Severity = "warning"
)

// Finding is what one rule has to say about one field.
type Finding struct {
	// Rule is the name of the rule, as files and documentation name it.
	Rule string `json:"rule"`
	// Field is the path of the field, from the root of the object.
	Field string `json:"field"`
	// Value is what stands there, as text; two findings about the same value are the same finding.
	Value string `json:"-"`
	// Severity is what the finding does.
	Severity Severity `json:"severity"`
	// Level is where the limit that the finding is about was written, where that is known: what a namespace sets itself, its mode
	// softens.
	Level Level `json:"-"`
	// Message says what is wrong and what to do; it does not repeat the field.
	Message string `json:"message"`
}

// String is the finding as one line of kubectl output.
func (f Finding) String() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// Decision is the outcome of a review: a plain value, which only the edge turns into an AdmissionResponse, a JSON body or
// a row of a table.
type Decision struct {
	Findings []Finding
	// Defaults that the object was given, or in dry-run would be given.
	Defaults []Default
	// Source is the effective TTL's source, for the audit log; empty where there is none.
	Source string
}

// Allowed reports whether nothing denies the request.
func (d *Decision) Allowed() bool {
	for i := range d.Findings {
		if d.Findings[i].Severity == Deny {
			return false
		}
	}
	return true
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

// Warnings are the lines that kubectl prints. Defaults are announced to people alone, and not where the object is refused.
func (d *Decision) Warnings(toPerson bool) []string {
	var out []string
	if toPerson && d.Allowed() {
		for _, filled := range d.Defaults {
			out = append(out, fmt.Sprintf("curfew: %s", filled))
		}
	}
	for _, finding := range d.Findings {
		if finding.Severity == Warn {
			out = append(out, "curfew: "+finding.String())
		}
	}
	return out
}

// Soften turns denials by the namespace's own settings into warnings where its mode does not enforce. What a policy or Curfew itself
// denies stays denied: anyone who can update a Namespace could otherwise lift the platform's rules.
func (d *Decision) Soften(mode Mode) {
	if mode == ModeEnforce {
		return
	}
	for i := range d.Findings {
		if d.Findings[i].Severity == Deny && d.Findings[i].Level == LevelNamespace {
			d.Findings[i].Severity = Warn
			d.Findings[i].Message = fmt.Sprintf("would be refused (mode %s): %s", mode, d.Findings[i].Message)
		}
	}
}
