package convert

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// node is an expression of the part of JMESPath that can be converted: paths, literals, functions,
// comparisons, and, or, not, and the projection of a list on a path.
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
	kindProject                 // args[1] of each element of args[0]
	kindLiteral
	kindNot
	kindAnd
	kindOr
	kindCompare
	kindCall
)

// maxDepth bounds the recursion of the parser.
const maxDepth = 64

// parseJMESPath parses an expression, or names what cannot be converted.
func parseJMESPath(text string) (*node, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	out, err := p.or()
	if err == nil && p.peek() != "" {
		err = fmt.Errorf("%q is not supported", p.peek())
	}
	return out, err
}

type parser struct {
	tokens []string
	depth  int
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) accept(token string) bool {
	if p.peek() != token {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *parser) expect(token string) error {
	if !p.accept(token) {
		return fmt.Errorf("%q is not supported here; %q is expected", p.peek(), token)
	}
	return nil
}

func (p *parser) or() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("is nested too deeply")
	}
	defer func() { p.depth-- }()
	return p.chain(kindOr, "||", func() (*node, error) { return p.chain(kindAnd, "&&", p.compare) })
}

// chain parses operands of one operator.
func (p *parser) chain(kind nodeKind, operator string, operand func() (*node, error)) (*node, error) {
	left, err := operand()
	for err == nil && p.accept(operator) {
		var right *node
		right, err = operand()
		left = &node{kind: kind, args: []*node{left, right}}
	}
	return left, err
}

func (p *parser) compare() (*node, error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	switch operator := p.peek(); operator {
	case "==", "!=", "<", "<=", ">", ">=":
		p.accept(operator)
		right, err := p.unary()
		return &node{kind: kindCompare, text: operator, args: []*node{left, right}}, err
	}
	return left, nil
}

func (p *parser) unary() (*node, error) {
	nots := 0
	for p.accept("!") {
		nots++
	}
	out, err := p.postfix()
	if nots%2 == 1 {
		out = &node{kind: kindNot, args: []*node{out}}
	} else if nots > 0 {
		err = fmt.Errorf("a double ! is not supported")
	}
	return out, err
}

// postfix parses a value and the path behind it.
func (p *parser) postfix() (*node, error) {
	out, err := p.primary()
	for err == nil {
		switch {
		case p.accept("."):
			out, err = p.field(out)
		case p.accept("["):
			out, err = p.bracket(out)
		default:
			return out, nil
		}
	}
	return nil, err
}

func (p *parser) field(of *node) (*node, error) {
	name := p.peek()
	if !isName(name) {
		return nil, fmt.Errorf("%q is not supported after a dot", name)
	}
	p.accept(name)
	field := &node{kind: kindField, text: unquote(name), args: []*node{of}}
	switch of.kind {
	case kindFlatten:
		return &node{kind: kindProject, args: []*node{of.args[0], {kind: kindField, text: field.text}}}, nil
	case kindProject:
		field.args[0] = of.args[1]
		return &node{kind: kindProject, args: []*node{of.args[0], field}}, nil
	case kindField, kindIndex:
		return field, nil
	}
	return nil, fmt.Errorf("a field of %q is not supported", of.text)
}

func (p *parser) bracket(of *node) (*node, error) {
	token := p.peek()
	if of.kind != kindField && of.kind != kindIndex {
		return nil, fmt.Errorf("[%s] is not supported here", token)
	}
	if token == "]" || token == "*" {
		p.accept("*")
		return &node{kind: kindFlatten, args: []*node{of}}, p.expect("]")
	}
	index, err := strconv.ParseUint(token, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("[%s is not supported", token)
	}
	p.accept(token)
	return &node{kind: kindIndex, value: int64(index), args: []*node{of}}, p.expect("]")
}

func (p *parser) primary() (*node, error) {
	token := p.peek()
	switch {
	case token == "":
		return nil, fmt.Errorf("the expression ends too early")
	case p.accept("("):
		out, err := p.or()
		if err != nil {
			return nil, err
		}
		return out, p.expect(")")
	case token[0] == '\'':
		p.accept(token)
		return &node{kind: kindLiteral, value: strings.ReplaceAll(token[1:len(token)-1], `\'`, "'")}, nil
	case token[0] == '`':
		p.accept(token)
		return literal(token[1 : len(token)-1])
	case !isName(token):
		return nil, fmt.Errorf("%q is not supported", token)
	}
	p.accept(token)
	if token[0] != '"' && p.accept("(") {
		return p.call(token)
	}
	return &node{kind: kindField, text: unquote(token)}, nil
}

func (p *parser) call(name string) (*node, error) {
	out := &node{kind: kindCall, text: name}
	for !p.accept(")") {
		if len(out.args) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		arg, err := p.or()
		if err != nil {
			return nil, err
		}
		out.args = append(out.args, arg)
	}
	return out, nil
}

// literal is JSON between backquotes. Old versions of JMESPath take anything else as a string.
func literal(text string) (*node, error) {
	var value any
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &value); err != nil {
		return nil, fmt.Errorf("`%s` is not JSON", text)
	}
	return &node{kind: kindLiteral, value: value}, nil
}

func isName(token string) bool {
	return token != "" && (token[0] == '"' || token[0] == '_' || token[0] >= 'a' && token[0] <= 'z' || token[0] >= 'A' && token[0] <= 'Z')
}

func unquote(name string) string {
	if text, err := strconv.Unquote(name); name[0] == '"' && err == nil {
		return text
	}
	return strings.Trim(name, `"`)
}
