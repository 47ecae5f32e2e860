package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// reserved are words that CEL does not take as a field.
var reserved = []string{"false", "in", "null", "true"}

func plain(field string) bool {
	return identifier.MatchString(field) && !slices.Contains(reserved, field)
}

// strict reads a path; CEL fails if it is absent.
func strict(path []step) string {
	out := "object"
	for _, s := range path {
		switch {
		case s.field == "":
			out += fmt.Sprintf("[%d]", s.index)
		case plain(s.field):
			out += "." + s.field
		default:
			out += "[" + strconv.Quote(s.field) + "]"
		}
	}
	return out
}

// optional reads a path as an optional value. All objects have metadata.
func optional(path []step) string {
	out := "object"
	for i, s := range path {
		switch {
		case s.field == "":
			out += fmt.Sprintf("[?%d]", s.index)
		case i == 0 && s.field == "metadata" && len(path) > 1:
			out += ".metadata"
		case plain(s.field):
			out += ".?" + s.field
		default:
			out += "[?" + strconv.Quote(s.field) + "]"
		}
	}
	return out
}

// join is the path in the notation of JMESPath without quotes.
func join(path []step) string {
	var out []string
	for _, s := range path {
		out = append(out, s.field)
	}
	return strings.Join(out, ".")
}

// typOf is the type of a value in every object that has it.
func typOf(path []step) typ {
	n := len(path)
	switch {
	case n > 2 && path[n-3].field == "metadata" && (path[n-2].field == "labels" || path[n-2].field == "annotations") && path[n-1].field != "":
		return typString
	case alwaysThere(path), join(path) == "metadata.namespace":
		return typString
	}
	return typAny
}

func alwaysThere(path []step) bool {
	return slices.Contains([]string{"apiVersion", "kind", "metadata.name", "metadata.uid", "metadata.creationTimestamp"}, join(path))
}
