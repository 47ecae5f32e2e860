package coverage

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// node is a place in two states of an object, in CEL: what the request leaves there, and what was there before. Both are plain
// values, or optionals that have no value where nothing is there.
//
// The API server takes an expression that fails for "do not call" (or, where validation fails closed, for a denial). Optional
// selection fails on nothing but a list, and where a list or a map is expected and the schema does not say so, it is asked.
//
// Not by optMap or optFlatMap: those are macros that write what they stand behind twice, so that a chain of them takes the API
// server time and memory without end to compile. And not by many comprehensions in a row, which take it the square of their number.
//
// Evaluating costs the same however much an object holds (S9): keys are looked up, lists are walked up to a limit, and only scalars
// are compared. What would take more is sent.
type node struct {
	is, was string
	// typed objects have the shape of their Go types.
	typed bool
	// schema says what can stand there; nil where nothing is known.
	schema *expression.Schema
	// depth of lists around it: their variables have different names.
	depth int
}

// names that CEL reserves; they cannot be selected with a dot.
var reserved = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while"}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// field is what a name leads to.
func (n node) field(name string) node {
	step := ".?" + name
	if !identifier.MatchString(name) || slices.Contains(reserved, name) {
		step = "[?" + quote(name) + "]"
	}
	return node{is: n.is + step, was: n.was + step, typed: n.typed, schema: n.schema.At(name), depth: n.depth}
}

// versus lets a condition compare the new object with the old one, which is empty on CREATE: what is there then is new. It also binds
// the lists that the condition needs, which would otherwise stand in it many times.
func versus(condition string) string {
	out := "[request.operation == \"CREATE\" ? {} : oldObject].exists(old,\n" + indent(condition) + ")"
	for _, list := range []struct{ name, text string }{{"keys", quoted(policy.ObjectKeys)}, {"few", indexes(maxInnerItems)}, {"many", indexes(maxItems)}} {
		if strings.Contains(condition, list.name+".exists(") {
			out = "[" + list.text + "].exists(" + list.name + ",\n" + out + ")"
		}
	}
	return out
}

// maxItems and maxInnerItems are how many items of a list, and of a list in an item, a condition looks at. An object with more is
// always sent.
const (
	maxItems      = 32
	maxInnerItems = 8
)

func indexes(limit int) string {
	out := make([]string, 0, limit)
	for i := range limit {
		out = append(out, strconv.Itoa(i))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// each asks whether a condition holds for an item of a list, beside the item that was at its place before.
func (n node) each(condition func(node) string) string {
	lists, at := variable("l", n.depth), variable("i", n.depth)
	limit, indexes := maxItems, "many"
	if n.depth > 0 {
		limit, indexes = maxInnerItems, "few"
	}
	list := func(text string) string {
		if n.typed || n.schema.Shape() == expression.ShapeList {
			return text + ".orValue([])"
		}
		return "type(" + text + ".orValue(null)) == list ? " + text + ".value() : []"
	}
	item := node{is: lists + "[0][?" + at + "]", was: lists + "[1][?" + at + "]", typed: n.typed, schema: n.schema.At("*"), depth: n.depth + 1}
	return fmt.Sprintf("[[%s, %s]].exists(%s, size(%[3]s[0]) > %[4]d || size(%[3]s[1]) > %[4]d ||\n  %[5]s.exists(%[6]s, (%[6]s < size(%[3]s[0]) || %[6]s < size(%[3]s[1])) && (%[7]s)))",
		list(n.is), list(n.was), lists, limit, indexes, at, condition(item))
}

func variable(name string, depth int) string {
	if depth > 0 {
		name += strconv.Itoa(depth + 1)
	}
	return name
}

// pairs of values, new and old.
func pairs(places []node) string {
	texts := make([]string, 0, len(places))
	for _, place := range places {
		texts = append(texts, "["+place.is+", "+place.was+"]")
	}
	return strings.Join(texts, ",\n  ")
}

// keyed asks whether a request adds, changes or removes one of a list of keys, in one of several maps. A value that is no string is never
// compared, since it can be of any size.
func keyed(maps []node, keys string) string {
	return "[\n  " + pairs(maps) + "\n].exists(pair, [pair.map(m, type(m.orValue(null)) == map ? m.value() : {})].exists(m,\n  " +
		keys + ".exists(k,\n" +
		"    k in m[0] ? !(k in m[1]) || type(m[0][k]) != string || m[0][k] != m[1][k] : k in m[1])))"
}

// quoted is a list of strings.
func quoted(texts []string) string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, quote(text))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// objectKeys are the keys by which an object concerns Curfew, as [versus] binds them.
const objectKeys = "keys"

// metadata are the maps of keys in some metadata.
func metadata(of node) []node { return []node{of.field("annotations"), of.field("labels")} }

// scalars asks whether one of several fields differs. A field whose schema does not say that it is a scalar may hold a map or a list
// of any size, and is not compared then.
func scalars(fields []node) []string {
	var out []string
	var open []node
	for _, field := range fields {
		if field.typed || field.schema.Shape() == expression.ShapeScalar {
			out = append(out, field.is+" != "+field.was)
		} else {
			open = append(open, field)
		}
	}
	if len(open) > 0 {
		out = append(out, "["+pairs(open)+"].exists(f, type(f[0].orValue(null)) == list || type(f[0].orValue(null)) == map || f[0] != f[1])")
	}
	return out
}

// quote writes a string as CEL reads it.
func quote(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}
