package survey

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// StallError means that the policy deletes nothing until a user changes something.
type StallError struct {
	Reason string
	err    error
}

func (e *StallError) Error() string { return e.err.Error() }

// Count is the first pass: it counts what matches, where a limit, keepNewest or consecutiveRuns
// depends on it. deleted are the objects that the run has deleted before it was interrupted.
func (s *Survey) Count(ctx context.Context, deleted int64) error {
	newest := s.policy.Spec.KeepNewest
	if newest == nil && !s.policy.Limited() && !s.policy.Consecutive() {
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
	err = s.each(ctx, func(ctx context.Context, at *Place, object *unstructured.Unstructured) error {
		decision, err := s.decide(ctx, &at.Target, object)
		if err != nil || decision.Verdict != cleanup.Delete {
			return err
		}
		matched++
		if newest != nil {
			err = s.Newest.Add(decision.Group, decision.Time, object.GetUID())
		}
		if matches != nil && err == nil {
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
		matched = matches.AtLeast(s.policy.Spec.ConsecutiveRuns)
	}
	return s.allow(ctx, matched, deleted)
}

// matches counts on from the run before; nil without consecutiveRuns.
func (s *Survey) matches(ctx context.Context) (*cleanup.Matches, error) {
	if !s.policy.Consecutive() {
		return nil, nil
	}
	if s.options.Matched == nil {
		return s.policy.NewMatches(nil), nil
	}
	before, err := s.options.Matched(ctx)
	if err != nil {
		return nil, err
	}
	return s.policy.NewMatches(before), nil
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
func (s *Survey) Choose(ctx context.Context, f func(at *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error) error {
	recent := recentUIDs{}
	s.Matches.Again()
	return s.each(ctx, func(ctx context.Context, at *Place, object *unstructured.Unstructured) error {
		s.Listed++
		decision, err := s.decide(ctx, &at.Target, object)
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

// choose applies what the first pass has found to an object.
func (s *Survey) choose(decision cleanup.Decision, uid types.UID) cleanup.Decision {
	if decision.Verdict == cleanup.Delete && s.Newest != nil && s.Newest.Keeps(decision.Group, decision.Time, uid) {
		decision = cleanup.Decision{Verdict: cleanup.Skip, Reason: cleanup.SkipNewest, Message: "is one of the newest: see keepNewest"}
	}
	if decision.Verdict != cleanup.Delete || !s.policy.Consecutive() {
		return decision
	}
	if runs, needed := s.Matches.Confirm(uid), s.policy.Spec.ConsecutiveRuns; runs < int(needed) {
		message := fmt.Sprintf("matched in %d of %d runs in a row: see consecutiveRuns", runs, needed)
		return cleanup.Decision{Verdict: cleanup.Skip, Reason: cleanup.SkipConsecutive, Message: message}
	}
	return decision
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

// maxNamespaces is the largest number of namespaces that are listed one by one. For more of them
// the survey lists the whole cluster and skips all other objects.
const maxNamespaces = 50

// ErrForbidden: the account of the policy lacks a permission without which nothing can be judged.
var ErrForbidden = errors.New("the service account lacks a permission")

// Place is a resource and where it is listed.
type Place struct {
	cleanup.Target
	namespaces []string // "" for the whole cluster
	// only are the namespaces that count if the whole cluster is listed for them; nil means all.
	only map[string]bool
	// broken is why the resource cannot be listed. It is passed over then.
	broken error
}

// verbs are what a policy needs on the resources that it matches.
var verbs = []string{"list", "get", "delete"}

// Open finds what to list, and returns the permissions that the account lacks for the rest.
func (s *Survey) Open(ctx context.Context) (lacks []string, err error) {
	served, partial := s.options.Served(ctx)
	if partial != nil && !errors.As(partial, &s.silent) {
		return nil, fmt.Errorf("resources that are served: %w", partial)
	}
	snapshot, err := s.snapshot(ctx, s.options.Source)
	if err != nil {
		return nil, err
	}
	s.lookups = s.newLookups(snapshot, served, partial, nil)
	known, err := s.options.Namespaces()
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	names, all := s.policy.Namespaces(known)
	if err := s.mayReadNamespaces(ctx); err != nil {
		return nil, err
	}
	only := s.options.Only
	if only.Namespace != "" && all {
		names, all = []string{only.Namespace}, false
	}
	for _, target := range s.policy.Targets(served) {
		if only.Resource != nil && !only.Resource(target.GroupResource()) {
			continue
		}
		if s.options.MaxLacks > 0 && len(lacks) >= s.options.MaxLacks {
			break
		}
		if !target.Namespaced && !all {
			continue // A namespaceSelector with a requirement matches none of them.
		}
		one, missing, err := s.place(ctx, target, names, all)
		if err != nil {
			return nil, err
		}
		lacks = append(lacks, missing...)
		if len(one.namespaces) > 0 {
			s.at = append(s.at, one)
		}
	}
	return lacks, nil
}

// Nowhere reports whether the account may not act anywhere that the policy matches.
func (s *Survey) Nowhere() bool { return len(s.at) == 0 }

// place finds where a resource is listed, and what the account lacks elsewhere.
func (s *Survey) place(ctx context.Context, target cleanup.Target, names []string, all bool) (out Place, lacks []string, err error) {
	out.Target = target
	wide := all || !target.Namespaced
	if !wide && len(names) > 1 { // One question, and one list of the cluster for many namespaces.
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, metav1.NamespaceAll, verbs...)
		switch {
		case err != nil:
			return out, nil, err
		case missing == "" && len(names) <= maxNamespaces:
			out.namespaces = names
			return out, nil, nil
		case missing == "":
			wide, out.only = true, setOf(names)
		}
	}
	if wide {
		names = []string{metav1.NamespaceAll}
	}
	for _, namespace := range names {
		if s.options.MaxLacks > 0 && len(lacks) >= s.options.MaxLacks {
			break
		}
		if err := s.yield(ctx, false); err != nil {
			return out, nil, err
		}
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, namespace, verbs...)
		if err != nil {
			return out, nil, err
		}
		if missing != "" {
			lacks = append(lacks, need(missing, target.GroupResource(), namespace))
			continue
		}
		out.namespaces = append(out.namespaces, namespace)
	}
	return out, lacks, nil
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// mayReadNamespaces returns an error if an expression reads namespaces and the account may not:
// what it returns, and why it fails, would reveal them (S10).
func (s *Survey) mayReadNamespaces(ctx context.Context) error {
	if !s.policy.Expressions.ReadsNamespace {
		return nil
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	missing, err := s.reader.Lacks(ctx, resource, s.policy.Namespace, "get")
	if err == nil && missing != "" {
		err = fmt.Errorf("the policy reads namespaceObject, and service account %s may not %s: %w", s.options.Account, need(missing, resource.GroupResource(), s.policy.Namespace), ErrForbidden)
	}
	return err
}

// need is a permission as messages write it.
func need(verb string, resource schema.GroupResource, namespace string) string {
	if namespace == "" {
		return verb + " " + resource.String()
	}
	return fmt.Sprintf("%s %s in namespace %q", verb, resource, namespace)
}
