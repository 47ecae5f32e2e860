package monitoring_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// node is a part of a PromQL expression. A metric has matchers, a call or an operator has operands.
type node struct {
	name     string // of a metric, function, aggregation or operator; a number
	operands []*node
	matching string   // by, without, on, ignoring, or ""
	labels   []string // of matching
	matchers []matcher
	metric   bool
	ranged   bool   // [5m] follows
	function string // around a metric, "" where there is none
}

type matcher struct{ label, op, value string }

// functions and aggregations are those that the queries here use. A word that is neither here nor a
// metric fails, so a misspelt function is found as well.
var (
	aggregations = []string{"sum", "max", "min", "count"}
	functions    = []string{"rate", "increase", "present_over_time", "histogram_quantile", "absent", "abs", "time"}
	groupings    = []string{"by", "without"}
	// operators by precedence: each level binds closer than the one before it.
	operators = [][]string{{"or"}, {"and", "unless"}, {"==", "!=", ">", "<", ">=", "<="}, {"+", "-"}, {"*", "/"}}

	token  = regexp.MustCompile(`^(?:\s+|"(?:[^"\\]|\\.)*"|\[(?:[0-9]+[smhd]|\$__rate_interval)\]|[A-Za-z_:][A-Za-z0-9_:]*|[0-9]+(?:\.[0-9]+)?|=~|!~|!=|>=|<=|==|[(){},=<>+*/-])`)
	word   = regexp.MustCompile(`^[A-Za-z_:]`)
	number = regexp.MustCompile(`^[0-9]`)
	text   = regexp.MustCompile(`^"`)
)

// scanner has the tokens that are left.
type scanner struct{ rest []string }

// scan parses a query. It knows less than PromQL, and fails on what it does not know.
func scan(expr string) (out *node, err error) {
	s := &scanner{}
	for rest := expr; rest != ""; {
		next := token.FindString(rest)
		if next == "" {
			return nil, fmt.Errorf("cannot read on at %q", rest)
		}
		if strings.TrimSpace(next) != "" {
			s.rest = append(s.rest, next)
		}
		rest = rest[len(next):]
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v before %q", fault, s.rest)
		}
	}()
	if out = s.expression(0); len(s.rest) > 0 {
		panic("no operator")
	}
	return out, nil
}

func (s *scanner) peek() string { return append(s.rest, "")[0] }

// take removes the next token, which is one of the accepted ones or matches the pattern.
func (s *scanner) take(pattern *regexp.Regexp, accepted ...string) string {
	next := s.peek()
	if !slices.Contains(accepted, next) && (pattern == nil || !pattern.MatchString(next)) {
		panic(fmt.Sprintf("want %q or %v", accepted, pattern))
	}
	s.rest = s.rest[1:]
	return next
}

// list reads what each reads, by commas, up to an end.
func (s *scanner) list(end string, each func()) {
	for s.peek() != end {
		each()
		if s.peek() != end {
			s.take(nil, ",")
		}
	}
	s.take(nil, end)
}

// names reads labels in brackets after one of the words, if that is next.
func (s *scanner) names(n *node, words ...string) {
	if slices.Contains(words, s.peek()) {
		n.matching = s.take(word)
		s.take(nil, "(")
		s.list(")", func() { n.labels = append(n.labels, s.take(word)) })
	}
}

func (s *scanner) expression(level int) *node {
	if level == len(operators) {
		return s.operand()
	}
	left := s.expression(level + 1)
	for slices.Contains(operators[level], s.peek()) {
		n := &node{name: s.take(nil, operators[level]...)}
		if s.peek() == "bool" {
			s.take(word)
		}
		s.names(n, "on", "ignoring")
		n.operands = []*node{left, s.expression(level + 1)}
		left = n
	}
	return left
}

func (s *scanner) operand() *node {
	if s.peek() == "(" {
		s.take(nil, "(")
		inner := s.expression(0)
		s.take(nil, ")")
		return inner
	}
	n := &node{name: s.take(regexp.MustCompile(`^[A-Za-z0-9_:]`))}
	aggregates := slices.Contains(aggregations, n.name)
	switch {
	case number.MatchString(n.name):
	case aggregates || slices.Contains(functions, n.name):
		if aggregates {
			s.names(n, groupings...)
		}
		s.take(nil, "(")
		s.list(")", func() {
			inner := s.expression(0)
			if inner.metric {
				inner.function = n.name
			}
			n.operands = append(n.operands, inner)
		})
	default:
		n.metric = true
		if s.peek() == "{" {
			s.take(nil, "{")
			s.list("}", func() {
				n.matchers = append(n.matchers, matcher{s.take(word), s.take(nil, "=", "!=", "=~", "!~"), strings.Trim(s.take(text), `"`)})
			})
		}
		if n.ranged = strings.HasPrefix(s.peek(), "["); n.ranged {
			s.rest = s.rest[1:]
		}
	}
	return n
}

// each calls f for the node and all below it.
func (n *node) each(f func(*node)) {
	f(n)
	for _, inner := range n.operands {
		inner.each(f)
	}
}
