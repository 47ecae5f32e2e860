package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// StallError means that the policy deletes nothing until a user changes something.
type StallError struct {
	Reason string
	err    error
}

func (e *StallError) Error() string { return e.err.Error() }

// Count is the first pass: it counts what matches, where a limit, keepNewest, consecutiveRuns or
// minUnused depends on it. deleted are the objects that the run has deleted before it was
// interrupted.
func (s *Survey) Count(ctx context.Context, deleted int64) error {
	newest := s.policy.Spec.KeepNewest
	if newest == nil && !s.policy.Limited() && !s.policy.Remembers() {
		return nil
	}
	if newest != nil {
		s.Newest = cleanup.NewNewest(int(newest.Count))
	}
	matches, err := s.matches(ctx)
	if err != nil {
		return err
	}
	matched := int64(0)
	err = s.each(ctx, func(ctx context.Context, place *Place, object *unstructured.Unstructured) error {
		decision, err := s.decide(ctx, &place.Target, object)
		deletes := decision.Verdict == cleanup.Delete
		if err == nil && decision.Group != "" {
			err = s.Newest.Add(decision.Group, decision.Time, object.GetUID(), deletes)
		}
		if err != nil || !deletes {
			return err
		}
		matched++
		if matches != nil {
			err = matches.Add(object.GetUID())
		}
		return err
	})
	switch {
	case errors.Is(err, cleanup.ErrTooMany):
		return &StallError{v1alpha1.ReasonTooManyGroups, cleanup.ErrTooMany}
	case errors.Is(err, cleanup.ErrTooManyMatched):
		return &StallError{v1alpha1.ReasonTooManyMatches, cleanup.ErrTooManyMatched}
	case err != nil:
		return err
	}
	s.Matches = matches
	if s.Newest != nil {
		matched -= int64(s.Newest.Kept())
		s.Newest.EachKept(matches.Forget)
	}
	if matches != nil { // Only they would be deleted.
		matched = matches.Enough()
	}
	return s.allow(ctx, matched, deleted)
}

// matches counts on from the run before; nil without consecutiveRuns and minUnused.
func (s *Survey) matches(ctx context.Context) (*cleanup.Matches, error) {
	if !s.policy.Remembers() {
		return nil, nil
	}
	if s.options.Matched == nil {
		return s.policy.NewMatches(nil, s.options.Now), nil
	}
	before, err := s.options.Matched(ctx)
	if err != nil {
		return nil, err
	}
	return s.policy.NewMatches(before, s.options.Now), nil
}

// allow finds how many of the matching objects may be deleted.
func (s *Survey) allow(ctx context.Context, matched, deleted int64) (err error) {
	if !s.policy.Limited() {
		return nil
	}
	all := int64(0)
	if s.policy.Spec.MaxPercentage != nil {
		if all, err = s.total(ctx); err != nil {
			return err
		}
	}
	left, err := s.policy.Allowance(matched, all, deleted)
	if err != nil {
		s.Matched = matched
		return &StallError{v1alpha1.ReasonTooManyMatches, err}
	}
	s.Left = left
	return nil
}

// Choose is the second pass. It calls f for each object that is deleted, and for each that matches
// and is skipped.
func (s *Survey) Choose(ctx context.Context, f func(*cleanup.Target, *unstructured.Unstructured, cleanup.Decision) error) error {
	recent := recentUIDs{}
	s.Matches.Again()
	return s.each(ctx, func(ctx context.Context, place *Place, object *unstructured.Unstructured) error {
		s.Listed++
		decision, err := s.decide(ctx, &place.Target, object)
		if err != nil {
			return err
		}
		if decision = s.choose(decision, object.GetUID()); decision.Verdict == cleanup.NoMatch {
			return nil
		}
		if decision.Verdict == cleanup.Delete && recent.has(object.GetUID()) {
			return nil
		}
		if decision.Verdict == cleanup.Delete && s.Left == 0 {
			decision = skipped(cleanup.SkipLimit, "is more than maxDeletions or maxPercentage allow: see onExceed")
		}
		if decision.Verdict == cleanup.Skip {
			s.skip(decision, object)
		} else {
			recent.add(object.GetUID())
			s.Left--
			s.Matched++
		}
		return f(&place.Target, object, decision)
	})
}

// choose applies what the first pass has found to an object.
func (s *Survey) choose(decision cleanup.Decision, uid types.UID) cleanup.Decision {
	if decision.Verdict == cleanup.Delete && s.Newest != nil && s.Newest.Keeps(decision.Group, decision.Time, uid) {
		decision = skipped(cleanup.SkipNewest, "is one of the newest: see keepNewest")
	}
	if decision.Verdict != cleanup.Delete || !s.policy.Remembers() {
		return decision
	}
	if awaits := s.policy.Awaits(s.Matches, uid); awaits.Verdict == cleanup.Skip {
		return awaits
	}
	return decision
}

func skipped(reason, message string) cleanup.Decision {
	return cleanup.Decision{Verdict: cleanup.Skip, Reason: reason, Message: message}
}

func (s *Survey) skip(decision cleanup.Decision, object *unstructured.Unstructured) {
	count := s.Skipped[decision.Reason]
	if count == nil {
		text := fmt.Sprintf("%s %s/%s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), decision.Message)
		count = &v1alpha1.SkipCount{Reason: decision.Reason, Message: quote.ShortenTo(text, 512)}
		s.Skipped[decision.Reason] = count
	}
	count.Count++
}

// each calls f for every object that the policy may match, with a context that limits what the
// expressions for a page cost. It holds one page at a time.
func (s *Survey) each(ctx context.Context, f func(ctx context.Context, place *Place, object *unstructured.Unstructured) error) error {
	pages, limited := s.pages(s.policy.NeedsObject()), ctx
	pages.began = func() {
		limited = expression.Limited(ctx, pageCost, "the expressions cost more than they may for the objects of one page of a list")
	}
	for place := range s.listable {
		pages.whole = s.policy.NeedsWhole(place.GroupResource())
		options := metav1.ListOptions{LabelSelector: s.policy.ServerSelector().String()}
		if place.Name != "" {
			options.FieldSelector = "metadata.name=" + place.Name
		}
		for _, namespace := range place.namespaces {
			err := pages.each(ctx, place.GroupVersionResource, namespace, options, func(object *unstructured.Unstructured) error {
				object.SetGroupVersionKind(place.GroupVersionKind())
				return f(limited, place, object)
			})
			if err = place.failed(err); err != nil {
				return fmt.Errorf("listing %s: %w", place.GroupResource(), err)
			}
			if place.broken != nil {
				break
			}
		}
	}
	return s.allBroken()
}

// decide decides about one object of a list.
func (s *Survey) decide(ctx context.Context, target *cleanup.Target, object *unstructured.Unstructured) (cleanup.Decision, error) {
	if err := s.yield(ctx, true); err != nil {
		return cleanup.Decision{}, err
	}
	if s.options.Clock != nil {
		began := s.options.Clock.Now()
		defer func() { s.spent += s.options.Clock.Since(began) }()
	}
	around, err := s.surroundings(ctx, target, object, s.options.Source)
	if err != nil {
		return cleanup.Decision{}, err
	}
	return s.judge(ctx, target, object, around)
}

func (s *Survey) yield(ctx context.Context, inPage bool) error {
	if s.options.Yield == nil {
		return nil
	}
	return s.options.Yield(ctx, inPage)
}

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
func (s *Survey) JudgeLive(
	ctx context.Context, target *cleanup.Target, object *unstructured.Unstructured, source platform.Source, budget *expression.Budget, away Away,
) (cleanup.Decision, error) {
	var around *surroundings
	err := away(ctx, func() (err error) {
		if around, err = s.surroundings(ctx, target, object, source); err == nil {
			around.lookups, around.away = s.liveLookups(ctx, around.snapshot), away
		}
		return err
	})
	if err != nil {
		return cleanup.Decision{}, err
	}
	return s.judge(budget.In(ctx), target, object, around)
}

// surroundings are what an object is judged by.
type surroundings struct {
	snapshot *platform.Snapshot
	// namespace is nil if the object has none, or if it is not known.
	namespace *resolution.NamespacePolicy
	lookups   *lookups
	// noMultiKueue is as in [resolution.Scope].
	noMultiKueue bool
	// away is around each lookup; nil for a list.
	away Away
}

func (s *Survey) surroundings(ctx context.Context, target *cleanup.Target, object *unstructured.Unstructured, source platform.Source) (*surroundings,
	error) {
	snapshot, err := s.snapshot(ctx, source)
	if err != nil {
		return nil, err
	}
	around := &surroundings{snapshot: snapshot, lookups: s.lookups}
	labelled := policy.Facts{Profile: &policy.Profile{Kind: target.GroupVersionKind()}, Labels: object.GetLabels()}
	if around.noMultiKueue, err = snapshot.WithoutMultiKueue(ctx, &labelled); err != nil {
		return nil, err
	}
	if name := object.GetNamespace(); name != "" {
		if around.namespace, err = source.Namespace(ctx, name); err != nil && !errors.Is(err, platform.ErrUnknown) {
			return nil, err
		}
	}
	return around, nil
}

// objectCost bounds the cost of all expressions for one object, and pageCost the cost for all
// objects of a page. An object is kept if they cannot decide within it. Tests make them smaller.
var objectCost, pageCost int64 = expression.CostLimit, 50 * expression.CostLimit

// judge decides about one object, as a list or a live read shows it.
func (s *Survey) judge(
	ctx context.Context, target *cleanup.Target, object *unstructured.Unstructured, around *surroundings,
) (cleanup.Decision, error) {
	ctx = expression.Limited(ctx, objectCost, "the expressions cost more than they may for one object")
	facts := policy.FactsOfObjectContext(ctx, around.snapshot.Profiles.For(target.GroupVersionKind()), object.Object)
	var lost error // why nothing may be evaluated any more
	judged := &cleanup.Candidate{
		Facts: facts, Resource: target.GroupResource(), JSON: object.Object, Now: s.options.Now,
		System:    judging.Protects(s.options.Protect, facts.Namespace),
		Namespace: around.namespace, NoMultiKueue: around.noMultiKueue,
		Lookup: func(name string) (answer bool, err error) {
			if around.away == nil {
				return around.lookups.answer(ctx, name, facts, object.Object)
			}
			if lost == nil {
				lost = around.away(ctx, func() error {
					answer, err = around.lookups.answer(ctx, name, facts, object.Object)
					return nil
				})
			}
			return answer && lost == nil, cmp.Or(lost, err)
		},
	}
	if facts.IsNamespace() {
		// Deleting a Namespace deletes all that is in it.
		judged.System = judging.Protects(s.options.Protect, facts.Name)
		judged.Namespace = resolution.ParseNamespace(facts.Name, facts.Annotations, facts.Labels)
	}
	decision := s.policy.Judge(ctx, judged)
	if decision.Verdict == cleanup.Delete && facts.UID == "" {
		decision = skipped(cleanup.SkipNoUID, "has no UID, so Curfew cannot distinguish it from another object")
	}
	return decision, cmp.Or(lost, ctx.Err())
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

// total counts all objects of the matched kinds and namespaces that are not being deleted, for
// maxPercentage.
func (s *Survey) total(ctx context.Context) (sum int64, err error) {
	pages := s.pages(false)
	for place := range s.listable {
		for _, namespace := range place.namespaces {
			err := pages.each(ctx, place.GroupVersionResource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
				if object.GetDeletionTimestamp() == nil && (place.only == nil || place.only[object.GetNamespace()]) {
					sum++
				}
				return nil
			})
			if err = place.failed(err); err != nil {
				return 0, fmt.Errorf("counting %s: %w", place.GroupResource(), err)
			}
			if place.broken != nil {
				break
			}
		}
	}
	return sum, s.allBroken()
}

// listable are the places that can be listed so far.
func (s *Survey) listable(yield func(*Place) bool) {
	for i := range s.at {
		if s.at[i].broken == nil && !yield(&s.at[i]) {
			return
		}
	}
}

// allBroken is an error if no kind can be listed: the API server may be at fault.
func (s *Survey) allBroken() error {
	if len(s.at) == 0 || slices.ContainsFunc(s.at, func(p Place) bool { return p.broken == nil }) {
		return nil
	}
	return fmt.Errorf("listing %s: %w", s.at[0].GroupResource(), s.at[0].broken)
}
