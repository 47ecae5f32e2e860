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

// node is an expression of JMESPath.
type node = parsing.ASTNode

// maxLength bounds the recursion of the parser, which has no limit of its own.
const maxLength = 4096

// parseJMESPath parses an expression.
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
	return &tree, err
}

var operators = map[any]string{parsing.TOKEQ: "==", parsing.TOKNE: "!=", parsing.TOKLT: "<", parsing.TOKLTE: "<=",
	parsing.TOKGT: ">", parsing.TOKGTE: ">="}

// symbols name what cannot be converted, as its author wrote it.
var symbols = map[any]string{parsing.ASTFilterProjection: "[?", parsing.ASTPipe: `"|"`,
	parsing.ASTCurrentNode: `"@"`, parsing.ASTMultiSelectHash: `"{"`, parsing.ASTFunctionExpression: "a function after a dot",
	parsing.ASTNotExpression: "a path after !"}

// step is a field, or an index if the field is empty.
type step struct {
	field string
	index int
}

// steps is the path that an expression is, or an error that names what cannot be converted.
func steps(n *node) ([]step, error) {
	switch n.NodeType {
	case parsing.ASTField:
		return []step{{field: n.Value.(string)}}, nil
	case parsing.ASTIndex:
		if index := n.Value.(int); index >= 0 {
			return []step{{index: index}}, nil
		}
		return nil, fmt.Errorf("[%d] is not supported", n.Value)
	case parsing.ASTProjection: // LIST[] and LIST[*] are the list.
		list := &n.Children[0]
		if list.NodeType == parsing.ASTFlatten {
			list = &list.Children[0]
		}
		if n.Children[1].NodeType != parsing.ASTIdentity || list.NodeType == parsing.ASTProjection {
			return nil, fmt.Errorf("a path after [] or [*] is not supported")
		}
		return steps(list)
	case parsing.ASTSubexpression, parsing.ASTIndexExpression:
		if n.Children[0].NodeType == parsing.ASTProjection {
			return nil, fmt.Errorf("a path after [] or [*] is not supported")
		}
		left, err := steps(&n.Children[0])
		if err != nil {
			return nil, err
		}
		right, err := steps(&n.Children[1])
		return append(left, right...), err
	}
	return nil, fmt.Errorf("%s is not supported", cmp.Or(symbols[n.NodeType], strings.TrimPrefix(n.NodeType.String(), "AST")))
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
	name, _ := n.Value.(string)
	ofTime := d == kyverno && strings.HasPrefix(name, "time_")
	switch {
	case ofTime && name == "time_since":
		return d.timeSince(n)
	case ofTime && name == "time_add":
		return d.timeAdd(n)
	}
	function, ok := functions[name]
	if !ok || function.kyverno && d != kyverno {
		return code{}, fmt.Errorf("function %s is not supported", name)
	}
	if ofTime && len(n.Children) < function.args {
		return code{}, fmt.Errorf("function %s has too few arguments", name)
	}
	if !ofTime && len(n.Children) != function.args {
		return code{}, fmt.Errorf("function %s has %d arguments, not %d", name, len(n.Children), function.args)
	}
	first, args := typAny, []any{}
	for i := range function.args {
		var arg code
		var err error
		if ofTime {
			arg.text, err = d.time(&n.Children[i])
		} else {
			arg, err = d.value(&n.Children[i])
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
	case name == "contains" && first == typString:
		function.text = "%s.contains(%s)"
	case name == "contains" && first == typList:
		function.text = "%[2]s in %[1]s"
	case function.args == 0:
		return code{function.text, function.typ}, nil
	}
	return code{fmt.Sprintf(function.text, args...), function.typ}, nil
}

func (d dialect) timeSince(n *node) (code, error) {
	if len(n.Children) != 3 || n.Children[0].NodeType != parsing.ASTLiteral || n.Children[0].Value != "" {
		return code{}, fmt.Errorf("time_since is supported without a layout only: time_since('', START, '')")
	}
	start, err := d.time(&n.Children[1])
	end := "now"
	if last := &n.Children[2]; err == nil && (last.NodeType != parsing.ASTLiteral || last.Value != "") {
		end, err = d.time(last)
	}
	return code{end + " - " + start, typDuration}, err
}

func (d dialect) timeAdd(n *node) (code, error) {
	if len(n.Children) == 0 {
		return code{}, fmt.Errorf("function time_add has too few arguments")
	}
	start, err := d.time(&n.Children[0])
	if err != nil {
		return code{}, err
	}
	if len(n.Children) == 2 && n.Children[1].NodeType == parsing.ASTLiteral {
		if text, ok := n.Children[1].Value.(string); ok && isDuration(text) {
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
	case n.NodeType == parsing.ASTLiteral && value.typ == typString && strings.HasPrefix(value.text, `"`):
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
