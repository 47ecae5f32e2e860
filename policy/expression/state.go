package expression

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// states reads the state of an object by the expressions of its profile. Expressions that the
// profile does not have are nil; one that did not compile makes the whole state unreadable, with
// err.
type states struct {
	finished, finishTime, outcome, started, suspended *Program
	err                                               error
}

// state compiles the expressions of a profile; nil for kinds that never finish.
func (c *Compiler) state(path *field.Path, spec *v1alpha1.StateExpressions, errs *field.ErrorList) policy.StateFunc {
	if spec == nil {
		return nil
	}
	var out states
	for _, part := range []struct {
		name   string
		source *v1alpha1.Expression
		result Result
		into   **Program
	}{
		{"finished", &spec.Finished, ResultBool, &out.finished},
		{"finishTime", &spec.FinishTime, ResultTime, &out.finishTime},
		{"outcome", &spec.Outcome, ResultOutcome, &out.outcome},
		{"started", spec.Started, ResultTime, &out.started},
		{"suspended", spec.Suspended, ResultBool, &out.suspended},
	} {
		if part.source == nil {
			continue
		}
		program, err := c.Compile(string(*part.source), ScopeProfile, part.result)
		if err != nil {
			child := path.Child(part.name)
			*errs = append(*errs, invalidExpression(child, string(*part.source), err))
			out.err = errors.Join(out.err, fmt.Errorf("%s: %w", child, err))
			continue
		}
		*part.into = program
	}
	return out.read
}

// read evaluates the expressions on one object. It is a [policy.StateFunc]. The expressions share
// the cost limit of one, so that an object with a huge status delays the others of its kind by no
// more than a tenth of a second or two.
func (s *states) read(ctx context.Context, object map[string]any) (policy.State, error) {
	if s.err != nil {
		return policy.State{}, s.err
	}
	if ctx.Value(limitKey{}) == nil {
		ctx = Limited(ctx, CostLimit, "the expressions of its profile cost more than they may for one object")
	}
	variables := &Variables{Object: object}
	var state policy.State
	var err error
	fail := func(name string, err error) (policy.State, error) {
		// Half a state is none: a fault in one expression may be in the others, too.
		return policy.State{}, fmt.Errorf("spec.state.%s: %w", name, err)
	}
	if s.suspended != nil {
		if state.Suspended, err = s.suspended.Bool(ctx, variables); err != nil {
			return fail("suspended", err)
		}
	}
	if !state.Suspended {
		if state.Started, err = s.startTime(ctx, variables); err != nil {
			return fail("started", err)
		}
	}
	if state.Finished, err = s.finished.Bool(ctx, variables); err != nil {
		return fail("finished", err)
	}
	if !state.Finished {
		return state, nil
	}
	if state.Outcome, state.Errored, err = s.outcome.Outcome(ctx, variables); err != nil {
		return fail("outcome", err)
	}
	if state.FinishTime, err = s.finishTime.Time(ctx, variables); err != nil {
		return fail("finishTime", err)
	}
	return state, nil
}

// startTime is the start time by the profile, or the creation if the profile has no such
// expression.
func (s *states) startTime(ctx context.Context, variables *Variables) (time.Time, error) {
	if s.started != nil {
		return s.started.Time(ctx, variables)
	}
	metadata, _ := variables.Object["metadata"].(map[string]any)
	text, _ := metadata["creationTimestamp"].(string)
	if text == "" {
		return time.Time{}, nil // At admission of a CREATE nothing has started.
	}
	t, err := lifetime.ParseTime(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("metadata.creationTimestamp: %w", err)
	}
	return t, nil
}
