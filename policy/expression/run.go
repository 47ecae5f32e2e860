package expression

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"curfew.dev/curfew/policy"
)

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
			return &policy.UndecidedError{Err: s.exceeded}
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
	undecided := (*policy.UndecidedError)(nil)
	return errors.As(err, &undecided) && (undecided.Retry || errors.As(undecided.Err, new(spentError)))
}

// evaluate runs the program. The context interrupts it; one that can never end costs nothing. An
// evaluation that is stopped returns a [policy.UndecidedError].
func (p *Program) evaluate(ctx context.Context, variables *Variables) (ref.Val, error) {
	if err := ctx.Err(); err != nil {
		return nil, &policy.UndecidedError{Err: fmt.Errorf("evaluating: %w", err), Retry: true}
	}
	limit, _ := ctx.Value(limitKey{}).(*shared)
	if err := limit.spent(); err != nil {
		return nil, err
	}
	var value ref.Val
	var details *cel.EvalDetails
	var err error
	if p.loops && ctx.Done() != nil {
		value, details, err = p.program.ContextEval(ctx, activation{variables})
	} else {
		value, details, err = p.program.Eval(activation{variables})
	}
	stopped := interpreter.EvalCancelledError{}
	exceeded := errors.As(err, &stopped)
	limit.add(p.cost(details, exceeded))
	switch {
	case exceeded:
		return nil, &policy.UndecidedError{Err: fmt.Errorf("evaluating: %w", err)}
	case errors.Is(err, interpreter.InterruptError{}):
		return nil, &policy.UndecidedError{Err: fmt.Errorf("evaluating: %w", err), Retry: true}
	case err != nil:
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	return unwrap(value), nil
}

// cost is the cost of an evaluation, at least 1.
func (p *Program) cost(details *cel.EvalDetails, exceeded bool) int64 {
	cost := uint64(0)
	if actual := details.ActualCost(); actual != nil {
		cost = *actual
	}
	if exceeded {
		cost = p.costLimit
	}
	// #nosec G115 -- cut to the limit of one evaluation.
	return int64(max(1, min(cost, p.costLimit)))
}

func (p *Program) wrong(value ref.Val) error {
	return fmt.Errorf("the result is %s, and must be %s", describe(value), p.result)
}
