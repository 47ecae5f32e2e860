package expression

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// match decides whether a policy matches an object. The cheap parts come first, so that a policy
// that does not concern an object evaluates no expression for it.
type match struct {
	kinds              []v1alpha1.GroupKind
	namespaces, labels labels.Selector
	conditions         []condition
	// err says why a part of the match cannot be used; it is then unknown which objects the policy
	// matches.
	err error
}

type condition struct {
	name    string
	program *Program
	err     error
}

func selector(path *field.Path, spec *metav1.LabelSelector, into *match, errs *field.ErrorList) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(spec)
	if spec == nil {
		return labels.Everything()
	}
	if err != nil {
		*errs = append(*errs, field.Invalid(path, metav1.FormatLabelSelector(spec), err.Error()))
		into.err = fmt.Errorf("%s: %w", path, err)
		return labels.Everything()
	}
	return out
}

// concerns reports whether the policy can match objects of a kind.
func (m *match) concerns(kind schema.GroupKind) bool {
	if len(m.kinds) == 0 {
		return true
	}
	return slices.ContainsFunc(m.kinds, func(k v1alpha1.GroupKind) bool { return is(k.Group, kind.Group) && is(k.Kind, kind.Kind) })
}

// names reports whether the policy names a kind explicitly, not by a wildcard.
func (m *match) names(kind schema.GroupKind) bool {
	return slices.Contains(m.kinds, v1alpha1.GroupKind{Group: kind.Group, Kind: kind.Kind})
}

func is(pattern, name string) bool { return pattern == "*" || pattern == name }

// holds reports whether the policy matches an object. As in the API server, one condition that is
// false decides, whatever the others return; an error counts only if no condition is false. Then
// the policy matches for its bounds, and never for defaults.
func (m *match) holds(ctx context.Context, facts *policy.Facts, variables *Variables) (bool, error) {
	if !m.concerns(facts.Profile.Kind.GroupKind()) || !m.labels.Matches(labels.Set(facts.Labels)) {
		return false, nil
	}
	var errs []error
	if m.err != nil {
		errs = append(errs, m.err)
	}
	if !m.namespaces.Empty() {
		labels, known := variables.namespaceLabels()
		switch {
		case facts.Namespace == "":
			return false, nil
		case !known:
			errs = append(errs, fmt.Errorf("spec.match.namespaceSelector: namespace %q is not known", facts.Namespace))
		case !m.namespaces.Matches(labels):
			return false, nil
		}
	}
	for i := range m.conditions {
		condition := &m.conditions[i]
		holds, err := false, condition.err
		if err == nil {
			holds, err = condition.program.Bool(ctx, variables)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("spec.match.matchConditions[%d] (%s): %w", i, condition.name, err))
			if exhausted(err) {
				return false, errors.Join(errs...) // The others have no time or cost left either.
			}
		case !holds:
			return false, nil
		}
	}
	if len(errs) > 0 {
		return false, errors.Join(errs...)
	}
	return true, nil
}
