package fieldpath

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"curfew.dev/curfew/policy/quote"
)

// FieldPath leads from the root of an object to a field: names of map keys, and "*" for every item
// of a list.
type FieldPath []string

// maxFieldPath is the longest path, as in the CRDs.
const maxFieldPath = 512

// ParseFieldPath reads a path as users write it: spec.template, spec.replicatedJobs[*].template. A
// leading dot is allowed.
func ParseFieldPath(text string) (FieldPath, error) {
	if len(text) > maxFieldPath {
		return nil, fmt.Errorf("%q is not a field path: it has more than %d characters", quote.Shorten(text), maxFieldPath)
	}
	trimmed := strings.TrimPrefix(text, ".")
	if trimmed == "" {
		return nil, fmt.Errorf("%q is not a field path: write names joined by dots, such as spec.template", quote.Shorten(text))
	}
	var path FieldPath
	for _, part := range strings.Split(trimmed, ".") {
		name, list := strings.CutSuffix(part, "[*]")
		if name == "" || strings.ContainsAny(name, "[]* ") {
			return nil, fmt.Errorf("%q is not a field path: %q is neither a name nor a name followed by [*]", quote.Shorten(text), quote.Shorten(part))
		}
		path = append(path, name)
		if list {
			path = append(path, "*")
		}
	}
	return path, nil
}

// MustFieldPath is [ParseFieldPath] for the constants of built-in profiles. An unreadable path is
// nil, which a test of those profiles catches.
func MustFieldPath(text string) FieldPath {
	path, err := ParseFieldPath(text)
	if err != nil {
		return nil
	}
	return path
}

// String writes the path as [ParseFieldPath] reads it.
func (p FieldPath) String() string {
	var out strings.Builder
	for i, part := range p {
		switch {
		case part == "*":
			out.WriteString("[*]")
		case i == 0:
			out.WriteString(part)
		default:
			out.WriteString("." + part)
		}
	}
	return out.String()
}

// Pointer is the path as a JSON Pointer (RFC 6901); "" for a path through a list, which has none.
func (p FieldPath) Pointer() string {
	if slices.Contains(p, "*") {
		return ""
	}
	var out strings.Builder
	for _, part := range p {
		out.WriteString("/" + escapePointer.Replace(part))
	}
	return out.String()
}

// escapePointer escapes one key for use in a JSON Pointer (RFC 6901, section 3).
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// Child is the path of a field below this one. The receiver is not changed.
func (p FieldPath) Child(names ...string) FieldPath {
	return append(slices.Clone(p), names...)
}

// Get returns the value at the path; false if a part is absent or has another shape, or if the path
// leads through a list. Nothing is at an empty path.
func (p FieldPath) Get(object map[string]any) (any, bool) {
	var value any = object
	for _, part := range p {
		next, ok := value.(map[string]any)
		if !ok || part == "*" {
			return nil, false
		}
		if value, ok = next[part]; !ok {
			return nil, false
		}
	}
	return value, value != nil && len(p) > 0
}

// Walk calls visit for every value at the path, with its concrete path
// (spec.replicatedJobs[0].template).
func (p FieldPath) Walk(object map[string]any, visit func(path string, value any)) {
	walkPath(object, p, "", visit)
}

func walkPath(node any, rest FieldPath, path string, visit func(string, any)) {
	if len(rest) == 0 {
		visit(path, node)
		return
	}
	if rest[0] == "*" {
		items, _ := node.([]any)
		for i, item := range items {
			walkPath(item, rest[1:], path+"["+strconv.Itoa(i)+"]", visit)
		}
		return
	}
	fields, _ := node.(map[string]any)
	value, ok := fields[rest[0]]
	if !ok || value == nil {
		return
	}
	if path != "" {
		path += "."
	}
	walkPath(value, rest[1:], path+rest[0], visit)
}

// Names splits a field path. Text in brackets is one name, including dots.
func Names(field string) []string {
	var out []string
	for field != "" {
		if rest, ok := strings.CutPrefix(field, "["); ok {
			name, after, found := strings.Cut(rest, "]")
			if !found {
				return out
			}
			out, field = append(out, name), after
			continue
		}
		field = strings.TrimPrefix(field, ".")
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			end = len(field)
		}
		if end > 0 {
			out = append(out, field[:end])
		} else if field != "" && field[0] == '.' {
			return out
		}
		field = field[end:]
	}
	return out
}
