package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// dialect is where an expression of JMESPath stands.
type dialect uint8

const (
	// kyverno reads the object as target. A field that is absent keeps the object.
	kyverno dialect = iota
	// janitor reads the object itself. A field that is absent is null.
	janitor
)

// typ is the type of a CEL expression, as far as the translation knows it.
type typ uint8

const (
	typAny typ = iota
	typString
	typBool
	typNumber
	typList
	typTime
	typDuration
)

// code is a CEL expression.
type code struct {
	text string
	typ  typ
}

// paths are the expressions that may read a field of an object.
var paths = []any{parsing.ASTField, parsing.ASTSubexpression, parsing.ASTIndexExpression, parsing.ASTProjection}

// value translates an expression to its value.
func (d dialect) value(n *node) (code, error) {
	switch n.NodeType {
	case parsing.ASTLiteral:
		return d.literal(n.Value)
	case parsing.ASTOrExpression, parsing.ASTAndExpression:
		left, literal := &n.Children[0], &n.Children[1]
		if n.NodeType == parsing.ASTOrExpression && literal.NodeType == parsing.ASTLiteral && slices.Contains(paths, any(left.NodeType)) {
			return d.orDefault(left, literal)
		}
		if d == janitor {
			return code{}, fmt.Errorf("&& and || are not supported inside other operators, unless a literal follows ||")
		}
	case parsing.ASTFunctionExpression:
		return d.call(n)
	case parsing.ASTNotExpression, parsing.ASTComparator:
	default:
		return d.read(n)
	}
	text, err := d.truth(n, false)
	return code{"(" + text + ")", typBool}, err
}

// literal is a string, number, bool, null or list. A string can be another variable of Kyverno.
func (d dialect) literal(value any) (code, error) {
	if d == kyverno {
		if out, ok, err := variableCode(value); ok {
			return out, err
		}
	}
	return literalCode(value)
}

// variableCode translates a text that is a variable of Kyverno; ok is false for another value.
func variableCode(value any) (out code, ok bool, err error) {
	text, _ := value.(string)
	inner, ok := variable(text)
	if !ok {
		return code{}, false, nil
	}
	n, err := parseJMESPath(inner)
	if err == nil {
		out, err = kyverno.value(n)
	}
	return out, true, err
}

func literalCode(value any) (code, error) {
	switch v := value.(type) {
	case nil:
		return code{"null", typAny}, nil
	case string:
		return code{strconv.Quote(v), typString}, nil
	case bool:
		return code{strconv.FormatBool(v), typBool}, nil
	case int64:
		return code{strconv.FormatInt(v, 10), typNumber}, nil
	case float64:
		if whole := int64(v); float64(whole) == v { // Objects have whole numbers as int.
			return literalCode(whole)
		}
		return code{strconv.FormatFloat(v, 'g', -1, 64), typNumber}, nil
	case []any:
		items := make([]string, len(v))
		for i := range v {
			item, err := literalCode(v[i])
			if err != nil || item.typ == typList {
				return code{}, fmt.Errorf("a list of lists or objects is not supported")
			}
			items[i] = item.text
		}
		return code{"[" + strings.Join(items, ", ") + "]", typList}, nil
	}
	return code{}, fmt.Errorf("an object is not supported as a value")
}

// variable returns what stands between the braces of a variable of Kyverno that is the whole text.
func variable(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{{") || !strings.HasSuffix(text, "}}") {
		return "", false
	}
	return strings.TrimSpace(text[2 : len(text)-2]), true
}

// path returns the way from the object to a value.
func (d dialect) path(n *node) ([]step, error) {
	out, err := steps(n)
	if err != nil {
		return nil, err
	}
	root := out[0].field
	switch {
	case d == kyverno && root == "target":
		out = out[1:]
	case d == kyverno:
		return nil, fmt.Errorf("variable %q is not supported: only target is", root)
	case root == "_context":
		return nil, fmt.Errorf("_context is supported for unused PersistentVolumeClaims only")
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the whole object is not supported as a value")
	}
	return out, nil
}

// read is the value of a path. If it is absent, that is an error in Kyverno's dialect, and null in
// kube-janitor's.
func (d dialect) read(n *node) (code, error) {
	path, err := d.path(n)
	if err != nil {
		return code{}, err
	}
	if d == janitor && !alwaysThere(path) {
		return code{optional(path) + ".orValue(dyn(null))", typAny}, nil
	}
	return code{strict(path), typOf(path)}, nil
}

func (d dialect) orDefault(n, literal *node) (code, error) {
	path, err := d.path(n)
	if err != nil {
		return code{}, err
	}
	fallback, err := literalCode(literal.Value)
	if typOf(path) == typString && fallback.typ == typString {
		return code{fmt.Sprintf(`(%[1]s.orValue("") != "" ? %[1]s.orValue("") : %[2]s)`, optional(path), fallback.text), typString}, err
	}
	value := optional(path) + ".orValue(dyn(null))"
	return code{fmt.Sprintf("(%s ? %s : dyn(%s))", truthy(value, false), value, fallback.text), typAny}, err
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// reserved are words that CEL does not take as a field.
var reserved = []string{"false", "in", "null", "true"}

// strict reads a path; CEL fails if it is absent.
func strict(path []step) string { return reading(path, "") }

// optional reads a path as an optional value. All objects have metadata.
func optional(path []step) string { return reading(path, "?") }

func reading(path []step, mark string) string {
	out := "object"
	for i, s := range path {
		switch {
		case s.field == "":
			out += fmt.Sprintf("[%s%d]", mark, s.index)
		case i == 0 && s.field == "metadata" && len(path) > 1:
			out += ".metadata"
		case identifier.MatchString(s.field) && !slices.Contains(reserved, s.field):
			out += "." + mark + s.field
		default:
			out += "[" + mark + strconv.Quote(s.field) + "]"
		}
	}
	return out
}

// join is the path in the notation of JMESPath without quotes.
func join(path []step) string {
	return strings.Join(console.Map(path, func(s step) string { return s.field }), ".")
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
