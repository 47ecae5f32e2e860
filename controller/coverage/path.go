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

// node is a place in an object, in CEL: a plain value, or an optional that has no value where nothing is there.
//
// The API server takes an expression that fails for "do not call" (or, where validation fails closed, for a refusal). Optional
// selection fails on nothing but a list, and where a list or a map is expected and the schema does not say so, it is asked.
//
// Not by optMap or optFlatMap: those are macros that write what they stand behind twice, so that a chain of them takes the API
// server time and memory without end to compile. And not by many comprehensions in a row, which take it the square of their number.
type node struct {
	text     string
	optional bool
	// typed objects have the shape of their Go types.
	typed bool
	// schema says what can stand there; nil where nothing is known.
	schema *expression.Schema
	// depth of comprehensions around it: their variables have different names.
	depth int
}

// names that CEL reserves; they cannot be selected with a dot.
var reserved = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while"}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// field is what a name leads to.
func (n node) field(name string) node {
	out := node{text: n.text + ".?" + name, optional: true, typed: n.typed, schema: n.schema.At(name), depth: n.depth}
	if !identifier.MatchString(name) || slices.Contains(reserved, name) {
		out.text = n.text + "[?" + quote(name) + "]"
	}
	return out
}

// each asks whether a condition holds for an item of a list.
func (n node) each(condition func(node) string) string {
	list := n.text
	if n.optional {
		list += ".orValue([])"
	}
	if n.typed || n.schema.Shape() == expression.ShapeList {
		item := node{text: variable("i", n.depth), typed: n.typed, schema: n.schema.At("*"), depth: n.depth + 1}
		return fmt.Sprintf("%s.exists(%s, %s)", list, item.text, condition(item))
	}
	all := variable("l", n.depth)
	item := node{text: variable("i", n.depth), schema: n.schema.At("*"), depth: n.depth + 1}
	return fmt.Sprintf("[%s].exists(%s, type(%[2]s) == list && %[2]s.exists(%s, %s))", list, all, item.text, condition(item))
}

func variable(name string, depth int) string {
	if depth > 0 {
		name += strconv.Itoa(depth + 1)
	}
	return name
}

// present asks whether there is a value.
func (n node) present() string {
	if !n.optional {
		return "true"
	}
	return n.text + ".hasValue()"
}

// keyed asks whether one of several places is metadata that carries a key of Curfew's.
func keyed(places []node) string {
	texts := make([]string, 0, len(places))
	for _, place := range places {
		texts = append(texts, place.text+".?annotations", place.text+".?labels")
	}
	return "[" + strings.Join(texts, ", ") + `].exists(m, type(m.orValue(null)) == map && m.value().exists(k, k.startsWith("` + policy.Prefix + `")))`
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
