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

// Limited returns a context whose evaluations may cost so much together, besides the limit of each.
// It counts cost and not time, so that an evaluation does not fail because the machine is busy. The
// last evaluation may exceed it by [CostLimit].
func Limited(ctx context.Context, cost int64) context.Context {
	shared := &atomic.Int64{}
	shared.Store(cost)
	return context.WithValue(ctx, limitKey{}, shared)
}

// limitKey is the key under which a context has what its evaluations may still cost.
type limitKey struct{}

var errSpent = errors.New("the expressions for this object cost more than one review may: use a smaller object, or cheaper expressions")

// exhausted reports whether no later evaluation of the same context can succeed either.
func exhausted(err error) bool {
	undecided := (*policy.UndecidedError)(nil)
	return errors.As(err, &undecided) && (undecided.Retry || errors.Is(undecided.Err, errSpent))
}

// evaluate runs the program. The context interrupts it; one that can never end costs nothing. An
// evaluation that is stopped returns a [policy.UndecidedError].
func (p *Program) evaluate(ctx context.Context, variables *Variables) (ref.Val, error) {
	if err := ctx.Err(); err != nil {
		return nil, &policy.UndecidedError{Err: fmt.Errorf("evaluating: %w", err), Retry: true}
	}
	left, _ := ctx.Value(limitKey{}).(*atomic.Int64)
	if left != nil && left.Load() <= 0 {
		return nil, &policy.UndecidedError{Err: errSpent}
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
	if left != nil {
		left.Add(-p.cost(details, exceeded))
	}
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

// cost is what an evaluation cost, at least 1.
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
