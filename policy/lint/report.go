package lint

import (
	"errors"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
)

// Finding is a finding about one object, with its place in the source.
type Finding struct {
	Object Ref `json:"object"`
	rules.Finding
	// File is the name of the source; empty for standard input and request bodies.
	File string `json:"file,omitempty"`
	// Line is the line of the field, or of its nearest existing parent.
	Line int `json:"line,omitempty"`
}

// Default is a value that was filled into an object.
type Default struct {
	Object Ref `json:"object"`
	// Field is the name of the field or the key of the annotation.
	Field string `json:"field"`
	// Value as people read it: "86400 (1d)" for native fields, "1d" for annotations.
	Value string `json:"value"`
	// Source is the origin of the value, such as namespace/ci.
	Source string `json:"source"`
	// DryRun means that the namespace is in dry-run, so that it is not filled in.
	DryRun bool `json:"dryRun,omitempty"`
	// File is the name of the source; empty for standard input and request bodies.
	File string `json:"file,omitempty"`
	// Line is where the object begins.
	Line int `json:"line,omitempty"`
}

// String is the announcement, as kubectl shows it.
func (d Default) String() string {
	return resolution.Default{Field: d.Field, Value: d.Value, Source: lifetime.ParseSource(d.Source), DryRun: d.DryRun}.String()
}

// Report has the results for all documents, as the command line and the HTTP endpoints show them.
type Report struct {
	// Allowed means that nothing would be denied.
	Allowed bool `json:"allowed"`
	// Objects is the number of objects that were judged.
	Objects  int       `json:"objects"`
	Defaults []Default `json:"defaults"`
	Findings []Finding `json:"findings"`
}

// NewReport collects results.
func NewReport(results []*Result, unreadable ...error) *Report {
	report := &Report{Allowed: true, Defaults: []Default{}, Findings: []Finding{}}
	for _, result := range results {
		report.Add(result)
	}
	report.Unreadable(unreadable...)
	return report
}

// Unreadable puts the errors of unreadable documents before all other findings.
func (r *Report) Unreadable(errs ...error) {
	first := []Finding{} // No findings are an empty list in JSON.
	for _, err := range errs {
		first = append(first, unreadableFinding(err))
	}
	r.Findings, r.Allowed = append(first, r.Findings...), r.Allowed && len(errs) == 0
}

// Add adds a result. The report does not keep its document.
func (r *Report) Add(result *Result) {
	r.Objects++
	for _, finding := range result.Findings {
		r.Findings = append(r.Findings, finding)
		r.Allowed = r.Allowed && finding.Severity != rules.Deny
	}
	for _, filled := range result.Defaults {
		r.Defaults = append(r.Defaults, Default{
			Object: result.Object, Field: filled.Field, Value: filled.Value, Source: filled.Source.String(), DryRun: filled.DryRun,
			File: result.Document.File, Line: result.Document.Line,
		})
	}
}

// Count is the number of findings of a severity.
func (r *Report) Count(severity rules.Severity) int {
	count := 0
	for i := range r.Findings {
		if r.Findings[i].Severity == severity {
			count++
		}
	}
	return count
}

func unreadableFinding(err error) Finding {
	finding := Finding{Finding: rules.Finding{Rule: RuleReadable, Severity: rules.Deny, Message: err.Error()}}
	if document := (*DocumentError)(nil); errors.As(err, &document) {
		finding.Object.Document = document.Index
		finding.File, finding.Line, finding.Message = document.File, document.Line, document.Err.Error()
	}
	if limit := (*LimitError)(nil); errors.As(err, &limit) {
		without := *limit
		without.File = ""
		finding.File, finding.Message = limit.File, without.Error()
	}
	return finding
}
