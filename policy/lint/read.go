package lint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// Limits bound the input. Zero means the default.
type Limits struct {
	// Bytes of one source.
	Bytes int
	// Documents of one source, items of lists included.
	Documents int
	// Nodes of one source, counted by punctuation: a parser needs a few hundred bytes for each.
	Nodes int
}

// The defaults, generous enough for the files of a repository. An object in a cluster has 1.5 MB at
// most.
const (
	DefaultMaxBytes     = 16 << 20
	DefaultMaxDocuments = 10000
	DefaultMaxNodes     = 2000000
)

func (l Limits) withDefaults() Limits {
	l.Bytes = cmp.Or(l.Bytes, DefaultMaxBytes)
	l.Documents = cmp.Or(l.Documents, DefaultMaxDocuments)
	l.Nodes = cmp.Or(l.Nodes, DefaultMaxNodes)
	return l
}

// LimitError is a limit that a source exceeds. Nothing of such a source is read.
type LimitError struct {
	File string
	// What names the counted thing. Have and Max are its count and its limit.
	What      string
	Have, Max int
}

// Error names the limit and the fix.
func (e *LimitError) Error() string {
	where := ""
	if e.File != "" {
		where = e.File + ": "
	}
	return fmt.Sprintf("%s%d %s are too many: split it, %d is the most", where, e.Have, e.What, e.Max)
}

// Read returns the objects of a source in their order, and an error for each document that cannot
// be read. A single [*LimitError] replaces everything else.
func Read(source Input, limits Limits) ([]*Document, []error) {
	limits = limits.withDefaults()
	if err := limits.check(source); err != nil {
		return nil, []error{err}
	}
	r := reader{file: source.Name, limits: limits}
	switch {
	case source.JSON:
		r.readJSON(source.Data)
	case !looksLikeJSON(source.Data) || !r.tryJSON(source.Data):
		r.readYAML(source.Data)
	}
	if r.full {
		return nil, []error{&LimitError{File: source.Name, What: "documents", Have: limits.Documents + 1, Max: limits.Documents}}
	}
	return r.documents, r.errs
}

func (l Limits) check(source Input) error {
	if have := len(source.Data); have > l.Bytes {
		return &LimitError{File: source.Name, What: "bytes", Have: have, Max: l.Bytes}
	}
	nodes := 0
	for _, b := range source.Data {
		switch b {
		case '\n', ',', ':', '-', '[', '{', '?':
			nodes++
		}
	}
	if nodes > l.Nodes {
		return &LimitError{File: source.Name, What: "nodes", Have: nodes, Max: l.Nodes}
	}
	return nil
}

// reader collects the documents of one source.
type reader struct {
	file      string
	limits    Limits
	index     int
	documents []*Document
	errs      []error
	full      bool
}

// begin counts a document, readable or not, and reports false beyond the limit.
func (r *reader) begin() bool {
	r.index++
	r.full = r.full || r.index > r.limits.Documents
	return !r.full
}

func (r *reader) fail(line int, err error) {
	r.errs = append(r.errs, &DocumentError{File: r.file, Index: r.index, Line: line, Err: err})
}

// failForeign is fail for a document that may be no Kubernetes object.
func (r *reader) failForeign(line int, err error, foreign bool) {
	r.errs = append(r.errs, &DocumentError{File: r.file, Index: r.index, Line: line, Err: err, Foreign: foreign})
}

var (
	claimsVersion = regexp.MustCompile(`(?m)^[ \t{,-]*"?apiVersion"?[ \t]*:`)
	claimsKind    = regexp.MustCompile(`(?m)^[ \t{,-]*"?kind"?[ \t]*:`)
)

// Foreign reports whether a text that cannot be parsed does not claim to be a Kubernetes object, or
// is a template of one.
func Foreign(text []byte) bool {
	return bytes.Contains(text, []byte("{{")) || !claimsVersion.Match(text) || !claimsKind.Match(text)
}

// add takes a parsed value: an object, a list of objects, or an error.
func (r *reader) add(value any, document Document) {
	if r.full {
		return
	}
	switch value := value.(type) {
	case []any:
		document.text, document.root = nil, nil
		for i, item := range value {
			r.addItem(item, document, sequence(document.node), i)
		}
	case map[string]any:
		items, ok := value["items"].([]any)
		kind, _ := value["kind"].(string)
		if !ok || !strings.HasSuffix(kind, "List") {
			document.Object = value
			r.addObject(document)
			return
		}
		document.text, document.root = nil, nil
		nodes := sequence(child(document.node, "items"))
		for i, item := range items {
			r.addItem(typed(item, value["apiVersion"], strings.TrimSuffix(kind, "List")), document, nodes, i)
		}
	default:
		r.failForeign(document.Line, fmt.Errorf("%s is not an object: write apiVersion, kind and metadata", describe(value)), true)
	}
}

func (r *reader) addItem(item any, list Document, nodes []*yaml.Node, i int) {
	list.node = nil
	if i < len(nodes) {
		list.node = nodes[i]
		list.Line = nodes[i].Line + list.offset
	}
	r.add(item, list)
}

// typed gives an item of a typed list, such as a JobList, the kind of the list's items.
func typed(item, apiVersion any, kind string) any {
	object, ok := item.(map[string]any)
	if !ok || kind == "" {
		return item
	}
	if _, ok := object["kind"]; !ok {
		object["kind"] = kind
		if _, ok := object["apiVersion"]; !ok {
			object["apiVersion"] = apiVersion
		}
	}
	return item
}

func (r *reader) addObject(document Document) {
	for _, field := range []string{"apiVersion", "kind"} {
		if text, ok := document.Object[field].(string); !ok || text == "" {
			foreign := document.Object["apiVersion"] == nil || document.Object["kind"] == nil
			r.failForeign(document.Line, fmt.Errorf("%s is %s: give one, such as %s", field, describe(document.Object[field]), examples[field]),
				foreign)
			return
		}
	}
	if metadata, ok := document.Object["metadata"]; ok && metadata != nil {
		if _, ok := metadata.(map[string]any); !ok {
			r.fail(document.Line, fmt.Errorf("metadata is %s: write an object with a name", describe(metadata)))
			return
		}
	}
	if len(r.documents) >= r.limits.Documents {
		r.full = true
		return
	}
	document.item = len(r.documents)
	r.documents = append(r.documents, &document)
}

var examples = map[string]string{"apiVersion": "batch/v1", "kind": "Job"}

func describe(value any) string {
	if value == nil {
		return "absent"
	}
	return quote.Describe(value)
}

func looksLikeJSON(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff")
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// tryJSON reads a text that may also be YAML in flow style, and reports false if that is more
// likely.
func (r *reader) tryJSON(data []byte) bool {
	attempt := reader{file: r.file, limits: r.limits}
	attempt.readJSON(data)
	for _, err := range attempt.errs {
		if syntax := (*jsonSyntaxError)(nil); errors.As(err, &syntax) {
			return false
		}
	}
	*r = attempt
	return true
}

// chunk is a part of a text between two document markers.
type chunk struct {
	text []byte
	// line is that of its first byte, counted from 1.
	line int
}

// split cuts YAML at the lines that begin with "---", as kubectl does, or "...", so that an error
// in one document does not affect the others. Text after the marker on its line belongs to the
// document. Chunks without content are left out.
func split(data []byte) []chunk {
	var out []chunk
	current := chunk{line: 1}
	start, line := 0, 1
	for i := 0; i < len(data); line++ {
		end := len(data)
		if newline := bytes.IndexByte(data[i:], '\n'); newline >= 0 {
			end = i + newline + 1
		}
		if isMarker(data[i:end]) {
			current.text = data[start:i]
			out = appendChunk(out, current)
			start, current = i+len("---"), chunk{line: line}
		}
		i = end
	}
	current.text = data[start:]
	return appendChunk(out, current)
}

func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

func appendChunk(chunks []chunk, next chunk) []chunk {
	for line := range bytes.Lines(next.text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' && trimmed[0] != '%' {
			return append(chunks, next)
		}
	}
	return chunks
}

// notStrings returns Curfew's annotations and labels whose value is no string, such as a duration
// without quotes. The API server rejects the object without naming the fix.
func notStrings(object map[string]any) []rules.Finding {
	metadata, _ := object["metadata"].(map[string]any)
	var out []rules.Finding
	for _, name := range []string{"annotations", "labels"} {
		values, _ := metadata[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !strings.HasPrefix(key, wellknown.Prefix) && key != wellknown.LabelKyvernoTTL {
				continue
			}
			finding := rules.Finding{Rule: RuleSchema, Field: fmt.Sprintf("metadata.%s[%s]", name, key), Severity: rules.Deny}
			switch value := values[key].(type) {
			case string:
				continue
			case bool, int64, float64:
				finding.Message = fmt.Sprintf(`%v is not a string: write it in quotes: "%[1]v"`, value)
			default:
				finding.Message = quote.Describe(value) + " is not a string"
			}
			out = append(out, finding)
		}
	}
	return out
}
