package expression

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"curfew.dev/curfew/policy/lifetime"
)

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	source  string
	result  Result
	program cel.Program
	// costLimit is the limit of one evaluation.
	costLimit uint64
	// loops means that the program iterates over lists or maps and so may take long. Only then can
	// it be interrupted.
	loops bool
	// constant means that the program uses no variable, so that the result is the same for every
	// object.
	constant bool
	// whole means that the program reads more of the object than its metadata.
	whole bool
	// asks are the variables that the program uses.
	asks []string
	// returns is the type of the result, as far as the checker knows it.
	returns *cel.Type
}

// evaluate runs the program. The context interrupts it; one that can never end costs nothing. An
// evaluation that is stopped returns a [lifetime.UndecidedError].
func (p *Program) evaluate(ctx context.Context, variables *Variables) (ref.Val, error) {
	if err := ctx.Err(); err != nil {
		return nil, &lifetime.UndecidedError{Err: fmt.Errorf("evaluating: %w", err), Retry: true}
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
		return nil, &lifetime.UndecidedError{Err: fmt.Errorf("evaluating: %w", err)}
	case errors.Is(err, interpreter.InterruptError{}):
		return nil, &lifetime.UndecidedError{Err: fmt.Errorf("evaluating: %w", err), Retry: true}
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

// Text evaluates an expression of [ResultText].
func (p *Program) Text(ctx context.Context, variables *Variables) (string, error) {
	value, err := p.evaluate(ctx, variables)
	if err != nil {
		return "", err
	}
	text, ok := value.(types.String)
	if !ok {
		return "", p.wrong(value)
	}
	return string(text), nil
}
