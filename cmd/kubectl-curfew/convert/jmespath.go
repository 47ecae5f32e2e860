package convert

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// node is an expression of the part of JMESPath that can be converted: paths, literals, functions,
// comparisons, and, or, and not.
type node struct {
	kind nodeKind
	// text is a field, an operator or the name of a function.
	text string
	// value of a literal.
	value any
	args  []*node
}

type nodeKind uint8

const (
	kindField   nodeKind = iota // text of args[0]; of the root if there are none
	kindIndex                   // element value of args[0]
	kindFlatten                 // args[0][], or args[0][*]
	kindLiteral
	kindNot
	kindAnd
	kindOr
	kindCompare
	kindCall
)

// maxLength bounds the recursion of the parser, which has no limit of its own.
const maxLength = 4096

// parseJMESPath parses an expression, or names what cannot be converted.
func parseJMESPath(text string) (*node, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("is longer than %d bytes", maxLength)
	}
	if strings.Contains(text, `\\`) {
		// The parser reads it as one backslash in 'strings', Kyverno and kube-janitor as two.
		return nil, fmt.Errorf(`\\ is not supported`)
	}
	tree, err := parsing.NewParser().Parse(text)
	if syntax := (parsing.SyntaxError{}); errors.As(err, &syntax) {
		if syntax.Offset >= len(text) {
			return nil, fmt.Errorf("the expression ends too early")
		}
		return nil, fmt.Errorf("%.20q is not supported", text[syntax.Offset:])
	}
	if err != nil {
		return nil, err
	}
	return simplify(&tree, nil)
}

// kinds are the nodes whose arguments are converted one by one.
var kinds = map[any]nodeKind{parsing.ASTNotExpression: kindNot, parsing.ASTAndExpression: kindAnd, parsing.ASTOrExpression: kindOr,
	parsing.ASTComparator: kindCompare, parsing.ASTFunctionExpression: kindCall}

var operators = map[any]string{parsing.TOKEQ: "==", parsing.TOKNE: "!=", parsing.TOKLT: "<", parsing.TOKLTE: "<=",
	parsing.TOKGT: ">", parsing.TOKGTE: ">="}

// symbols name what cannot be converted, as its author wrote it.
var symbols = map[any]string{parsing.ASTFilterProjection: "[?", parsing.ASTPipe: `"|"`,
	parsing.ASTCurrentNode: `"@"`, parsing.ASTKeyValPair: `"{"`}

// simplify converts a tree of the parser. Its paths begin at base, or at the root if base is nil.
func simplify(tree *parsing.ASTNode, base *node) (*node, error) {
	switch tree.NodeType {
	case parsing.ASTIdentity:
		return base, nil
	case parsing.ASTField:
		return after(base, &node{kind: kindField, text: tree.Value.(string)})
	case parsing.ASTIndex:
		return after(base, &node{kind: kindIndex, value: int64(tree.Value.(int))})
	case parsing.ASTSubexpression, parsing.ASTIndexExpression:
		left, err := simplify(&tree.Children[0], base)
		if err != nil {
			return nil, err
		}
		return simplify(&tree.Children[1], left)
	case parsing.ASTProjection:
		return projection(tree, base)
	case parsing.ASTLiteral:
		return &node{kind: kindLiteral, value: tree.Value}, nil
	}
	kind, ok := kinds[tree.NodeType]
	if !ok {
		return nil, unsupported(tree)
	}
	if base != nil {
		return nil, fmt.Errorf("a function is not supported after a dot")
	}
	out := &node{kind: kind, text: operators[tree.Value]}
	if kind == kindCall {
		out.text = tree.Value.(string)
	}
	for i := range tree.Children {
		arg, err := simplify(&tree.Children[i], nil)
		if err != nil {
			return nil, err
		}
		out.args = append(out.args, arg)
	}
	return out, nil
}

// projection converts LIST[] and LIST[*].
func projection(tree *parsing.ASTNode, base *node) (*node, error) {
	list := &tree.Children[0]
	if tree.Children[1].NodeType != parsing.ASTIdentity {
		return nil, fmt.Errorf("a path after [] or [*] is not supported")
	}
	if list.NodeType == parsing.ASTFlatten {
		list = &list.Children[0]
	}
	left, err := simplify(list, base)
	if err != nil {
		return nil, err
	}
	return after(left, &node{kind: kindFlatten})
}

// after appends a step to a path.
func after(base, step *node) (*node, error) {
	switch {
	case base == nil && step.kind == kindField:
		return step, nil
	case base == nil:
		return nil, fmt.Errorf("[ is not supported without a field before it")
	case base.kind != kindField && base.kind != kindIndex:
		return nil, fmt.Errorf("a path is not supported after a list, operator, function or literal")
	case step.kind == kindIndex && step.value.(int64) < 0:
		return nil, fmt.Errorf("[%d] is not supported", step.value)
	}
	step.args = append([]*node{base}, step.args...)
	return step, nil
}

// unsupported names the first part of the tree that cannot be converted.
func unsupported(tree *parsing.ASTNode) error {
	if len(tree.Children) > 0 {
		if _, err := simplify(&tree.Children[0], nil); err != nil {
			return err
		}
	}
	name := cmp.Or(symbols[tree.NodeType], strings.TrimPrefix(tree.NodeType.String(), "AST"))
	return fmt.Errorf("%s is not supported", name)
}

// functions are the functions of JMESPath with their CEL. Kyverno adds functions with a regular
// expression or with times; the arguments of the latter are instants.
var functions = map[string]struct {
	args    int
	text    string
	typ     typ
	kyverno bool
}{
	"length":       {1, "size(%s)", typNumber, false},
	"starts_with":  {2, "%s.startsWith(%s)", typBool, false},
	"ends_with":    {2, "%s.endsWith(%s)", typBool, false},
	"contains":     {2, "(type(%[1]s) == list ? %[2]s in %[1]s : %[1]s.contains(%[2]s))", typBool, false},
	"regex_match":  {2, "%[2]s.matches(%[1]s)", typBool, true},
	"time_now":     {0, "now", typTime, true},
	"time_now_utc": {0, "now", typTime, true},
	"time_diff":    {2, "%[2]s - %[1]s", typDuration, true},
	"time_after":   {2, "%s > %s", typBool, true},
	"time_before":  {2, "%s < %s", typBool, true},
}

// call translates a function.
func (d dialect) call(n *node) (code, error) {
	ofTime := d == kyverno && strings.HasPrefix(n.text, "time_")
	switch {
	case ofTime && n.text == "time_since":
		return d.timeSince(n)
	case ofTime && n.text == "time_add":
		return d.timeAdd(n)
	}
	of, ok := functions[n.text]
	if !ok || of.kyverno && d != kyverno {
		return code{}, fmt.Errorf("function %s is not supported", n.text)
	}
	if ofTime && len(n.args) < of.args {
		return code{}, fmt.Errorf("function %s has too few arguments", n.text)
	}
	if !ofTime && len(n.args) != of.args {
		return code{}, fmt.Errorf("function %s has %d arguments, not %d", n.text, len(n.args), of.args)
	}
	first, args := typAny, []any{}
	for i := range of.args {
		var arg code
		var err error
		if ofTime {
			arg.text, err = d.time(n.args[i])
		} else {
			arg, err = d.value(n.args[i])
		}
		if err != nil {
			return code{}, err
		}
		if i == 0 {
			first = arg.typ
		}
		args = append(args, arg.text)
	}
	switch {
	case n.text == "contains" && first == typString:
		of.text = "%s.contains(%s)"
	case n.text == "contains" && first == typList:
		of.text = "%[2]s in %[1]s"
	case of.args == 0:
		return code{of.text, of.typ}, nil
	}
	return code{fmt.Sprintf(of.text, args...), of.typ}, nil
}

func (d dialect) timeSince(n *node) (code, error) {
	if len(n.args) != 3 || n.args[0].kind != kindLiteral || n.args[0].value != "" {
		return code{}, fmt.Errorf("time_since is supported without a layout only: time_since('', START, '')")
	}
	start, err := d.time(n.args[1])
	end := "now"
	if last := n.args[2]; err == nil && (last.kind != kindLiteral || last.value != "") {
		end, err = d.time(last)
	}
	return code{end + " - " + start, typDuration}, err
}

func (d dialect) timeAdd(n *node) (code, error) {
	if len(n.args) == 0 {
		return code{}, fmt.Errorf("function %s has too few arguments", n.text)
	}
	start, err := d.time(n.args[0])
	if err != nil {
		return code{}, err
	}
	if len(n.args) == 2 && n.args[1].kind == kindLiteral {
		if text, ok := n.args[1].value.(string); ok && isDuration(text) {
			return code{fmt.Sprintf("(%s + duration(%q))", start, text), typTime}, nil
		}
	}
	return code{}, fmt.Errorf("time_add is supported with a constant duration such as '4h' only")
}

// time translates an argument that is an instant.
func (d dialect) time(n *node) (string, error) {
	value, err := d.value(n)
	switch {
	case err != nil:
		return "", err
	case value.typ == typTime:
		return value.text, nil
	case n.kind == kindLiteral && value.typ == typString && strings.HasPrefix(value.text, `"`):
		text, _ := strconv.Unquote(value.text)
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return "", fmt.Errorf("%q is not a time", text)
		}
	case value.typ != typString && value.typ != typAny:
		return "", fmt.Errorf("%s is not a time", value.text)
	}
	return "timestamp(" + value.text + ")", nil
}

// isDuration reports whether Kyverno and CEL read the text as a duration.
func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil
}
