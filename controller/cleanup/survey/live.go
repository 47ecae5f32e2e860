package survey

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// NewBudget returns the budget of all expressions in the live judgements of one attempt at a batch:
// the same as for a page of a list.
func NewBudget() *expression.Budget {
	return expression.NewBudget(pageCost, "the expressions cost more than they may for the objects of one batch")
}

// Away calls f, which reads from the API server, and then waits until expressions may be evaluated.
// It returns the error of f, or why the wait ended.
type Away func(ctx context.Context, f func() error) error

// JudgeLive decides about an object that was just read, with lookups that are read again. Its
// expressions count for the budget. Many may call it at once.
func (s *Survey) JudgeLive(ctx context.Context, at *cleanup.Target, object *unstructured.Unstructured, source platform.Source, budget *expression.Budget, away Away) (cleanup.Decision, error) {
	var in *surroundings
	err := away(ctx, func() (err error) {
		if in, err = s.surroundings(ctx, object, source); err == nil {
			in.lookups, in.away = s.liveLookups(ctx, in.snapshot), away
		}
		return err
	})
	if err != nil {
		return cleanup.Decision{}, err
	}
	return s.judge(budget.In(ctx), at, object, in)
}

// surroundings are what an object is judged by.
type surroundings struct {
	snapshot *platform.Snapshot
	// namespace is nil if the object has none, or if it is not known.
	namespace *resolution.NamespacePolicy
	lookups   *lookups
	// away is around each lookup; nil for a list.
	away Away
}

func (s *Survey) surroundings(ctx context.Context, object *unstructured.Unstructured, source platform.Source) (*surroundings, error) {
	snapshot, err := s.snapshot(ctx, source)
	if err != nil {
		return nil, err
	}
	in := &surroundings{snapshot: snapshot, lookups: s.lookups}
	if name := object.GetNamespace(); name != "" {
		if in.namespace, err = source.Namespace(ctx, name); err != nil && !errors.Is(err, platform.ErrUnknown) {
			return nil, err
		}
	}
	return in, nil
}
