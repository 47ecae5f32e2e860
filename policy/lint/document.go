package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	sigsyaml "sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
)

// Input is a text with manifests in it.
type Input struct {
	// Name is the file's name, as findings repeat it; empty for standard input and request bodies.
	Name string
	Data []byte
	// JSON allows nothing but JSON.
	JSON bool
}

// Document is one object of a source. Lists are taken apart: each item is a document of its own,
// with the index of the list.
type Document struct {
	// File is the name of the source.
	File string
	// Index counts the documents of a source from 1.
	Index int
	// Line is where the object begins, counted from 1.
	Line int
	// Object is the manifest in its JSON form, with int64 and float64 for numbers.
	Object map[string]any

	// item counts the objects of a source from 0.
	item int
	// text is the document as written; nil for items of a list and for JSON.
	text []byte
	// node is the same object as YAML nodes, with comments and lines; nil if there is none.
	node *yaml.Node
	// root has the comments around node, if the object is the whole document.
	root *yaml.Node
	// offset is added to the lines of nodes.
	offset int
}

// Kind is the group, version and kind that the document claims.
func (d *Document) Kind() schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: d.Object}).GroupVersionKind()
}

// DocumentError is a document that cannot be read.
type DocumentError struct {
	File        string
	Index, Line int
	Err         error
	// Foreign means that the text does not claim to be a Kubernetes object, which has an apiVersion
	// and a kind.
	Foreign bool
}

// Error names the document by file, index and line.
func (e *DocumentError) Error() string {
	where := fmt.Sprintf("document %d (line %d)", e.Index, e.Line)
	if e.File != "" {
		where = e.File + ": " + where
	}
	return fmt.Sprintf("%s: %v", where, e.Err)
}

// Unwrap returns the cause.
func (e *DocumentError) Unwrap() error { return e.Err }

// Ref names an object in reports.
type Ref struct {
	// Document counts from 1 within its source.
	Document   int    `json:"document"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	// Name may be empty; where the API server is to make one it is the prefix and an asterisk.
	Name string `json:"name,omitempty"`
}

// String is the object as people name it: Job ci/build.
func (r Ref) String() string {
	name := r.Name
	if name == "" {
		name = fmt.Sprintf("(document %d)", r.Document)
	}
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.Kind + " " + name
}

func (d *Document) ref(namespace string) Ref {
	u := unstructured.Unstructured{Object: d.Object}
	name := u.GetName()
	if name == "" && u.GetGenerateName() != "" {
		name = u.GetGenerateName() + "*"
	}
	return Ref{Document: d.Index, APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: namespace, Name: name}
}

// MarshalYAML writes a value as YAML, with the field names of its JSON form.
func MarshalYAML(value any) ([]byte, error) {
	text, err := MarshalJSON(value)
	if err != nil {
		return nil, err
	}
	return sigsyaml.JSONToYAML(text)
}

// MarshalJSON writes a value as JSON that is also YAML: it escapes the characters that YAML does
// not allow.
func MarshalJSON(value any) ([]byte, error) {
	var text, out bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	for _, r := range strings.TrimSuffix(text.String(), "\n") {
		// Such characters stand nowhere but in strings, where JSON and YAML escape them alike.
		if r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes(), nil
}

// assign sets or removes one field of an object and creates missing parents.
func assign(object map[string]any, assignment resolution.Assignment) error {
	parent := object
	path := assignment.Path
	for i, name := range path[:len(path)-1] {
		switch next := parent[name].(type) {
		case map[string]any:
			parent = next
		case nil:
			if assignment.Value == nil {
				return nil
			}
			made := map[string]any{}
			parent[name] = made
			parent = made
		default:
			return fmt.Errorf("%s is %s and not an object, so that %s cannot be set", path[:i+1], describe(next), path)
		}
	}
	if name := path[len(path)-1]; assignment.Value == nil {
		delete(parent, name)
	} else {
		parent[name] = assignment.Value
	}
	return nil
}

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
