package monitoring_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// selector is one metric in a query, with its matchers and the function right around it.
type selector struct {
	metric   string
	matchers []matcher
	function string // "" where there is none
	ranged   bool   // [5m] follows
}

type matcher struct{ label, op, value string }

// query is what the checks need of a PromQL expression.
type query struct {
	selectors []selector
	grouping  []string // labels in by, without, on, ignoring
}

// words is all of PromQL that the queries here use. A word that is neither here nor a metric fails,
// so a misspelt function is found as well.
var (
	aggregations = []string{"sum", "max", "min", "count"}
	functions    = []string{"rate", "increase", "histogram_quantile", "absent", "abs", "time"}
	groupings    = []string{"by", "without", "on", "ignoring"}
	operators    = []string{"and", "or", "unless", "bool"}

	token = regexp.MustCompile(`^(?:\s+|"(?:[^"\\]|\\.)*"|\[(?:[0-9]+[smhd]|\$__rate_interval)\]|[A-Za-z_:][A-Za-z0-9_:]*|[0-9]+(?:\.[0-9]+)?|=~|!~|!=|>=|<=|==|[(){},=<>+*/-])`)
	word  = regexp.MustCompile(`^[A-Za-z_:]`)
)

func tokens(expr string) ([]string, error) {
	var out []string
	for rest := expr; rest != ""; {
		next := token.FindString(rest)
		if next == "" {
			return nil, fmt.Errorf("cannot read on at %q", rest)
		}
		if strings.TrimSpace(next) != "" {
			out = append(out, next)
		}
		rest = rest[len(next):]
	}
	return out, nil
}

// scan reads a query. It knows less than PromQL, and fails on what it does not know rather than
// passing over it.
func scan(expr string) (query, error) {
	list, err := tokens(expr)
	if err != nil {
		return query{}, err
	}
	var out query
	var open []string // the function before each bracket that is open
	at := func(i int) string {
		if i < len(list) {
			return list[i]
		}
		return ""
	}
	for i := 0; i < len(list); i++ {
		if i > 0 && operand(list[i]) && (operand(list[i-1]) || slices.Contains([]string{"}", "]"}, list[i-1][len(list[i-1])-1:])) {
			return out, fmt.Errorf("no operator between %s and %s", list[i-1], list[i])
		}
		switch t := list[i]; {
		case t == "(":
			before := ""
			if i > 0 && slices.Contains(slices.Concat(functions, aggregations), list[i-1]) {
				before = list[i-1]
			}
			open = append(open, before)
		case t == ")":
			if len(open) == 0 {
				return out, fmt.Errorf("a bracket closes that was not opened")
			}
			open = open[:len(open)-1]
		case slices.Contains(groupings, t):
			if at(i+1) != "(" {
				return out, fmt.Errorf("%s without a list of labels", t)
			}
			for i += 2; at(i) != ")"; i++ {
				if word.MatchString(at(i)) {
					out.grouping = append(out.grouping, at(i))
				} else if at(i) != "," {
					return out, fmt.Errorf("%q in a list of labels", at(i))
				}
			}
		case slices.Contains(operators, t):
		case slices.Contains(aggregations, t):
			if next := at(i + 1); next != "(" && !slices.Contains(groupings, next) {
				return out, fmt.Errorf("%s of nothing", t)
			}
		case at(i+1) == "(":
			if word.MatchString(t) && !slices.Contains(functions, t) {
				return out, fmt.Errorf("function %s is not known", t)
			}
		case word.MatchString(t):
			s := selector{metric: t}
			if len(open) > 0 {
				s.function = open[len(open)-1]
			}
			if at(i+1) == "{" {
				if i, err = s.match(list, i+2); err != nil {
					return out, err
				}
			}
			if strings.HasPrefix(at(i+1), "[") {
				s.ranged = true
				i++
			}
			out.selectors = append(out.selectors, s)
		case strings.HasPrefix(t, "["), t == "{", t == "}":
			return out, fmt.Errorf("%s without a metric before it", t)
		}
	}
	if last := at(len(list) - 1); !operand(last) && !strings.ContainsAny(last, ")}]") {
		return out, fmt.Errorf("a value is missing after %q", last)
	}
	if len(open) > 0 {
		return out, fmt.Errorf("%d brackets stay open", len(open))
	}
	if len(out.selectors) == 0 {
		return out, fmt.Errorf("no metric")
	}
	return out, nil
}

// operand reports whether a token is a metric or a number.
func operand(token string) bool {
	number := token != "" && token[0] >= '0' && token[0] <= '9'
	return number || word.MatchString(token) && !slices.Contains(slices.Concat(aggregations, functions, groupings, operators), token)
}

// match reads matchers from list[i] on and returns where the closing brace stands.
func (s *selector) match(list []string, i int) (int, error) {
	for ; i+2 < len(list) && list[i] != "}"; i++ {
		label, op, value := list[i], list[i+1], list[i+2]
		if !word.MatchString(label) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, op) || !strings.HasPrefix(value, `"`) {
			return 0, fmt.Errorf("%s: %q is no matcher", s.metric, label+op+value)
		}
		s.matchers = append(s.matchers, matcher{label, op, strings.Trim(value, `"`)})
		if i += 3; i < len(list) && list[i] == "}" {
			return i, nil
		}
		if i >= len(list) || list[i] != "," {
			break
		}
	}
	if i < len(list) && list[i] == "}" {
		return i, nil
	}
	return 0, fmt.Errorf("%s: its matchers do not end", s.metric)
}
