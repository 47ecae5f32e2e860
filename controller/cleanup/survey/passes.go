package survey

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// StallError means that the policy deletes nothing, for a reason that somebody has to change.
type StallError struct {
	Reason string
	err    error
}

func (e *StallError) Error() string { return e.err.Error() }

// Count is the first pass: it counts what matches, where a limit or keepNewest depends on it.
// deleted are the objects that the run has deleted before it was interrupted.
func (s *Survey) Count(ctx context.Context, deleted int64) error {
	newest := s.policy.Spec.KeepNewest
	if newest == nil && !s.policy.Limited() {
		return nil
	}
	if newest != nil {
		s.Newest = cleanup.NewNewest(int(newest.Count))
	}
	matched := int64(0)
	err := s.each(ctx, func(at *Place, object *unstructured.Unstructured) error {
		decision, err := s.decide(ctx, &at.Target, object)
		if err != nil || decision.Verdict != cleanup.Delete {
			return err
		}
		matched++
		if newest == nil {
			return nil
		}
		return s.Newest.Add(decision.Group, decision.Time, object.GetUID())
	})
	if errors.Is(err, cleanup.ErrTooMany) {
		return &StallError{v1alpha1.ReasonTooManyGroups, err}
	}
	if err != nil || !s.policy.Limited() {
		return err
	}
	if s.Newest != nil {
		matched -= int64(s.Newest.Kept())
	}
	all := int64(0)
	if s.policy.Spec.MaxPercentage != nil {
		if all, err = s.total(ctx); err != nil {
			return err
		}
	}
	// What was deleted before the interruption counts, too. It may still be among all objects, with a
	// finalizer.
	allowed, err := s.policy.Allowance(matched+deleted, all)
	if err != nil {
		s.Matched = matched
		return &StallError{v1alpha1.ReasonTooManyMatches, err}
	}
	s.Left = max(0, allowed-deleted)
	return nil
}

// Choose is the second pass. It calls f for each object that is deleted, and for each that matches
// and is skipped.
func (s *Survey) Choose(ctx context.Context, f func(at *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error) error {
	recent := recentUIDs{}
	return s.each(ctx, func(at *Place, object *unstructured.Unstructured) error {
		s.Listed++
		decision, err := s.decide(ctx, &at.Target, object)
		if err != nil || decision.Verdict == cleanup.NoMatch {
			return err
		}
		if decision.Verdict == cleanup.Delete && s.Newest != nil && s.Newest.Keeps(decision.Group, decision.Time, object.GetUID()) {
			decision = cleanup.Decision{Verdict: cleanup.Skip, Reason: cleanup.SkipNewest, Message: "is one of the newest: see keepNewest"}
		}
		if decision.Verdict == cleanup.Delete && recent.has(object.GetUID()) {
			return nil
		}
		if decision.Verdict == cleanup.Delete && s.Left == 0 {
			decision = cleanup.Decision{Verdict: cleanup.Skip, Reason: cleanup.SkipLimit, Message: "is more than maxDeletions or maxPercentage allow: see onExceed"}
		}
		if decision.Verdict == cleanup.Skip {
			s.skip(decision, object)
		} else {
			recent.add(object.GetUID())
			s.Left--
			s.Matched++
		}
		return f(&at.Target, object, decision)
	})
}

// recentUIDs are the objects that were listed last. An aggregated API with a stale cache, or two
// groups with the same kind, may show one twice: it must be counted once.
type recentUIDs struct{ now, before map[types.UID]bool }

// remembered is how many UIDs are kept at least.
const remembered = 2500

func (r *recentUIDs) has(uid types.UID) bool { return r.now[uid] || r.before[uid] }

func (r *recentUIDs) add(uid types.UID) {
	if r.now == nil || len(r.now) >= remembered {
		r.now, r.before = map[types.UID]bool{}, r.now
	}
	r.now[uid] = true
}
