package monitoring_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// curve is a metric over simulated time, in seconds. NaN means that it is not scraped.
type curve func(at float64) float64

// world are simulated series, by metric and labels as in /metrics.
type world map[string]curve

type sample struct {
	labels map[string]string
	value  float64
}

// value is a scalar or a vector.
type value struct {
	scalar bool
	number float64
	vector []sample
}

// evaluator evaluates a query at an instant. It knows the PromQL that scan knows, and panics on
// anything else: queries are scanned first.
type evaluator struct {
	world  world
	at     float64
	tokens []string
}

func evaluate(expr string, in world, at float64) []sample {
	list, err := tokens(expr)
	if err != nil {
		panic(err)
	}
	e := &evaluator{world: in, at: at, tokens: list}
	out := e.binary(0)
	if len(e.tokens) > 0 || out.scalar {
		panic(fmt.Sprintf("%s: no vector, or %q is left", expr, e.tokens))
	}
	return out.vector
}

func (e *evaluator) peek() string {
	if len(e.tokens) == 0 {
		return ""
	}
	return e.tokens[0]
}

func (e *evaluator) next() string {
	token := e.peek()
	e.tokens = e.tokens[1:]
	return token
}

func (e *evaluator) expect(want string) {
	if got := e.next(); got != want {
		panic(fmt.Sprintf("%q where %q belongs", got, want))
	}
}

// precedence of binary operators, lowest first.
var precedence = [][]string{{"or"}, {"and", "unless"}, {"==", "!=", ">", "<", ">=", "<="}, {"+", "-"}, {"*", "/"}}

func (e *evaluator) binary(level int) value {
	if level == len(precedence) {
		return e.operand()
	}
	left := e.binary(level + 1)
	for slices.Contains(precedence[level], e.peek()) {
		left = combine(e.next(), left, e.binary(level+1))
	}
	return left
}

func (e *evaluator) operand() value {
	token := e.next()
	switch {
	case token == "(":
		out := e.binary(0)
		e.expect(")")
		return out
	case slices.Contains(aggregations, token):
		return e.aggregate(token)
	case slices.Contains(functions, token):
		return e.call(token)
	case word.MatchString(token):
		return value{vector: e.selected(token, e.at)}
	}
	number, err := strconv.ParseFloat(token, 64)
	if err != nil {
		panic(err)
	}
	return value{scalar: true, number: number}
}

func (e *evaluator) aggregate(function string) value {
	var by []string
	if e.peek() == "by" {
		e.next()
		for e.expect("("); e.peek() != ")"; {
			if label := e.next(); label != "," {
				by = append(by, label)
			}
		}
		e.expect(")")
	}
	e.expect("(")
	groups := map[string]*sample{}
	for _, s := range e.binary(0).vector {
		labels := map[string]string{}
		for _, label := range by {
			labels[label] = s.labels[label]
		}
		group, key := groups[key(labels)], key(labels)
		switch {
		case group == nil && function == "count":
			groups[key] = &sample{labels, 1}
		case group == nil:
			groups[key] = &sample{labels, s.value}
		case function == "sum":
			group.value += s.value
		case function == "count":
			group.value++
		case function == "max":
			group.value = max(group.value, s.value)
		case function == "min":
			group.value = min(group.value, s.value)
		}
	}
	e.expect(")")
	out := value{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out.vector = append(out.vector, *groups[name])
	}
	return out
}

func (e *evaluator) call(function string) value {
	e.expect("(")
	defer e.expect(")")
	switch function {
	case "time":
		return value{scalar: true, number: e.at}
	case "rate", "increase":
		return e.grown(function)
	case "histogram_quantile":
		q := e.binary(0).number
		e.expect(",")
		return quantiles(q, e.binary(0).vector)
	}
	of := e.binary(0)
	switch {
	case function == "abs":
		for i := range of.vector {
			of.vector[i].value = math.Abs(of.vector[i].value)
		}
		return of
	case function == "absent" && len(of.vector) == 0:
		return value{vector: []sample{{map[string]string{}, 1}}}
	}
	return value{}
}

// grown is by how much counters have grown. Simulated counters never start again.
func (e *evaluator) grown(function string) value {
	metric, rest := e.next(), e.tokens
	now := e.selected(metric, e.at)
	over, err := time.ParseDuration(strings.Trim(e.next(), "[]"))
	if err != nil {
		panic(err)
	}
	e.tokens = rest
	before := e.selected(metric, e.at-over.Seconds())
	e.next()
	out := value{}
	for _, s := range now {
		i := slices.IndexFunc(before, func(b sample) bool { return key(b.labels) == key(s.labels) })
		if i < 0 {
			continue
		}
		s.value -= before[i].value
		if function == "rate" {
			s.value /= over.Seconds()
		}
		out.vector = append(out.vector, s)
	}
	return out
}

// selected are the series of a metric that matchers, which may follow, leave.
func (e *evaluator) selected(metric string, at float64) (out []sample) {
	want := selector{metric: metric}
	if e.peek() == "{" {
		end, err := want.match(e.tokens, 1)
		if err != nil {
			panic(err)
		}
		e.tokens = e.tokens[end+1:]
	}
	for _, name := range slices.Sorted(maps.Keys(e.world)) {
		if is, _, _ := strings.Cut(name, "{"); is != metric {
			continue
		}
		series, err := scan(name)
		if err != nil {
			panic(err)
		}
		labels := map[string]string{}
		for _, m := range series.selectors[0].matchers {
			labels[m.label] = m.value
		}
		accepted := !slices.ContainsFunc(want.matchers, func(m matcher) bool { return !m.accepts(labels[m.label]) })
		if value := e.world[name](at); accepted && !math.IsNaN(value) {
			out = append(out, sample{labels, value})
		}
	}
	return out
}

func (m *matcher) accepts(value string) bool {
	alternatives := []string{m.value}
	if strings.HasSuffix(m.op, "~") {
		alternatives = strings.Split(m.value, "|")
	}
	return slices.Contains(alternatives, value) != strings.HasPrefix(m.op, "!")
}

func quantiles(q float64, buckets []sample) value {
	groups := map[string][]sample{}
	for _, b := range buckets {
		rest := maps.Clone(b.labels)
		delete(rest, "le")
		groups[key(rest)] = append(groups[key(rest)], b)
	}
	bound := func(s sample) float64 {
		le, err := strconv.ParseFloat(s.labels["le"], 64)
		if err != nil {
			panic(err)
		}
		return le
	}
	out := value{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		group := groups[name]
		slices.SortFunc(group, func(a, b sample) int { return cmp.Compare(bound(a), bound(b)) })
		rank := q * group[len(group)-1].value
		i := slices.IndexFunc(group, func(s sample) bool { return s.value >= rank })
		low, below, high := 0.0, 0.0, bound(group[i])
		if i > 0 {
			low, below = bound(group[i-1]), group[i-1].value
		}
		if math.IsInf(high, 1) {
			high = low
		}
		labels := maps.Clone(group[0].labels)
		delete(labels, "le")
		out.vector = append(out.vector, sample{labels, low + (high-low)*(rank-below)/(group[i].value-below)})
	}
	return out
}

// combine applies an operator. Samples match that have the same labels.
func combine(operator string, left, right value) value {
	find := func(in []sample, s sample) int {
		return slices.IndexFunc(in, func(other sample) bool { return key(other.labels) == key(s.labels) })
	}
	out := value{scalar: left.scalar && right.scalar}
	if out.scalar {
		out.number, _ = arithmetic(operator, left.number, right.number)
		return out
	}
	for _, s := range left.vector {
		there := find(right.vector, s)
		switch {
		case operator == "or", operator == "and" && there >= 0, operator == "unless" && there < 0:
			out.vector = append(out.vector, s)
			continue
		case operator == "and", operator == "unless", !right.scalar && there < 0:
			continue
		}
		other := right.number
		if !right.scalar {
			other = right.vector[there].value
		}
		if result, keep := arithmetic(operator, s.value, other); keep {
			out.vector = append(out.vector, sample{s.labels, result})
		}
	}
	for _, s := range right.vector {
		if operator == "or" && find(left.vector, s) < 0 {
			out.vector = append(out.vector, s)
		}
	}
	return out
}

// arithmetic is the result for two numbers. A comparison keeps the left one, or nothing.
func arithmetic(operator string, a, b float64) (result float64, keep bool) {
	switch operator {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		return a / b, true
	case ">":
		return a, a > b
	case "<":
		return a, a < b
	case ">=":
		return a, a >= b
	case "<=":
		return a, a <= b
	case "==":
		return a, a == b
	case "!=":
		return a, a != b
	}
	panic("operator " + operator)
}

// key tells apart what has different labels. An empty label is none.
func key(labels map[string]string) string {
	var out []string
	for name, value := range labels {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
