package expression

import (
	"context"
	"errors"
	"fmt"
	"regexp/syntax"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"curfew.dev/curfew/policy/lifetime"
)

// Limits of an expression before it is type-checked (S9). The checker cannot be interrupted, and a
// text of 166 characters can keep it busy for minutes: a macro such as optMap repeats its target,
// and {x: x} in a chain of maps doubles the type each time. Real expressions stay far below: the
// largest of the built-in profiles has a fifth of these.
const (
	// MaxSource is the longest expression, in characters, as in the CRDs.
	MaxSource = 4096
	// maxObjectSource is how many characters all expressions of one object may have. Each takes up
	// to a fifth of a second to compile.
	maxObjectSource = 4 * MaxSource
	// maxNodes counts what macros expand to as well.
	maxNodes = 1500
	// maxDepth is how deep an expression may nest.
	maxDepth = 40
	// maxTypeSize is how many types the type of one part may be made of: list(map(string, int)) has
	// 4.
	maxTypeSize = 48
	// maxRegexp is how many instructions a regular expression may compile to, about: .{1000} has
	// 1000.
	maxRegexp = 2048
)

// checkSize returns an error for an expression that would take long to check or to plan.
func checkSize(parsed *cel.Ast) error {
	s := sizes{variables: map[string]int{}}
	s.of(parsed.NativeRep().Expr())
	return s.err
}

// sizes finds upper bounds of the sizes of types, without the checker.
type sizes struct {
	variables map[string]int
	err       error
}

func (s *sizes) of(expr ast.Expr) int {
	size := s.sizeOf(expr)
	if size > maxTypeSize && s.err == nil {
		s.err = fmt.Errorf("lists, maps and optionals are nested too deep: the type of a part is made of more than %d types", maxTypeSize)
	}
	if s.err != nil {
		return 0
	}
	return size
}

func (s *sizes) sizeOf(expr ast.Expr) int {
	size := 0
	with := func(part ast.Expr) { size = max(size, s.of(part)) }
	switch expr.Kind() {
	case ast.IdentKind:
		return max(1, s.variables[expr.AsIdent()])
	case ast.SelectKind:
		with(expr.AsSelect().Operand())
		return size
	case ast.CallKind:
		call := expr.AsCall()
		if call.IsMemberFunction() {
			with(call.Target())
		}
		for _, argument := range call.Args() {
			with(argument)
			s.regexp(call.FunctionName(), argument)
		}
		return size + 1
	case ast.ListKind:
		for _, element := range expr.AsList().Elements() {
			with(element)
		}
		return size + 1
	case ast.MapKind:
		keys := 0
		for _, entry := range expr.AsMap().Entries() {
			keys = max(keys, s.of(entry.AsMapEntry().Key()))
			with(entry.AsMapEntry().Value())
		}
		return keys + size + 1
	case ast.StructKind:
		for _, field := range expr.AsStruct().Fields() {
			with(field.AsStructField().Value())
		}
		return 1
	case ast.ComprehensionKind:
		return s.comprehension(expr.AsComprehension())
	default:
		return 1
	}
}

// comprehension is the expansion of a macro such as map. It binds variables for the element and the
// accumulator.
func (s *sizes) comprehension(loop ast.ComprehensionExpr) int {
	element := s.of(loop.IterRange())
	collected := s.of(loop.AccuInit())
	defer s.bind(loop.IterVar(), element)()
	if loop.HasIterVar2() {
		defer s.bind(loop.IterVar2(), element)()
	}
	defer s.bind(loop.AccuVar(), collected)()
	s.of(loop.LoopCondition())
	// Once more, since the first step gives the collected value its type.
	collected = max(collected, s.of(loop.LoopStep()))
	s.variables[loop.AccuVar()] = collected
	return max(collected, s.of(loop.Result()))
}

func (s *sizes) bind(name string, size int) (restore func()) {
	before, had := s.variables[name]
	s.variables[name] = size
	return func() {
		if had {
			s.variables[name] = before
		} else {
			delete(s.variables, name)
		}
	}
}

// regexps are the functions whose literals are compiled with the expression.
var regexps = map[string]bool{"matches": true, "find": true, "findAll": true}

func (s *sizes) regexp(function string, argument ast.Expr) {
	if !regexps[function] || argument.Kind() != ast.LiteralKind || s.err != nil {
		return
	}
	pattern, ok := argument.AsLiteral().(types.String)
	if !ok {
		return
	}
	parsed, err := syntax.Parse(string(pattern), syntax.Perl)
	if err == nil && instructions(parsed) > maxRegexp {
		s.err = fmt.Errorf("the regular expression is too large: repeat less, at most %d characters written out", maxRegexp)
	}
}

// instructions is about the size of a compiled regular expression. A repetition is expanded.
func instructions(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return size
}

// Limited returns a context whose evaluations may cost so much together, besides the limit of each
// and the limits that ctx has. exceeded is the error beyond that. It counts cost and not time, so
// that an evaluation does not fail because the machine is busy. The last evaluation may exceed it
// by [CostLimit].
func Limited(ctx context.Context, cost int64, exceeded string) context.Context {
	limit := NewBudget(cost, exceeded)
	limit.outer, _ = ctx.Value(limitKey{}).(*shared)
	return limit.In(ctx)
}

// Budget is a limit that evaluations of several contexts share: see [Limited].
type Budget struct{ shared }

// NewBudget makes a limit. exceeded is the error beyond it.
func NewBudget(cost int64, exceeded string) *Budget {
	b := &Budget{shared{exceeded: spentError(exceeded)}}
	b.left.Store(cost)
	return b
}

// In returns a context whose evaluations count for the budget, in the place of limits that ctx has.
func (b *Budget) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, limitKey{}, &b.shared)
}

// Spent reports whether nothing more can be evaluated.
func (b *Budget) Spent() bool { return b.left.Load() <= 0 }

// limitKey is the key under which a context has its innermost limit.
type limitKey struct{}

// shared is the cost that the evaluations of a context have left. It counts for the outer limits,
// too.
type shared struct {
	left     atomic.Int64
	exceeded spentError
	outer    *shared
}

// spentError: the evaluations of a context have used up their cost limit.
type spentError string

func (e spentError) Error() string { return string(e) }

// spent returns the error of a limit that is reached, or nil.
func (s *shared) spent() error {
	for ; s != nil; s = s.outer {
		if s.left.Load() <= 0 {
			return &lifetime.UndecidedError{Err: s.exceeded}
		}
	}
	return nil
}

func (s *shared) add(cost int64) {
	for ; s != nil; s = s.outer {
		s.left.Add(-cost)
	}
}

// exhausted reports whether no later evaluation of the same context can succeed either.
func exhausted(err error) bool {
	undecided := (*lifetime.UndecidedError)(nil)
	return errors.As(err, &undecided) && (undecided.Retry || errors.As(undecided.Err, new(spentError)))
}
