package coverage

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/v1alpha1"
)

// speaker is a LifecyclePolicy that has something to say about new objects that carry no key of Curfew's.
type speaker struct {
	name               string
	spec               *v1alpha1.LifecyclePolicySpec
	namespaces, labels []metav1.LabelSelectorRequirement
}

// newSpeaker is nil for a policy whose selectors cannot be used: it gives nothing to anybody, and a webhook with such a selector
// would be refused.
func newSpeaker(policy *v1alpha1.LifecyclePolicy) *speaker {
	match := &policy.Spec.Match
	for _, selector := range []*metav1.LabelSelector{match.NamespaceSelector, match.ObjectSelector} {
		if len(validation.ValidateLabelSelector(selector, validation.LabelSelectorValidationOptions{}, field.NewPath("selector"))) > 0 {
			return nil
		}
	}
	out := &speaker{name: policy.Name, spec: &policy.Spec}
	// What would select by too much selects everything.
	if match.NamespaceSelector.Size() <= maxCondition {
		out.namespaces = requirements(match.NamespaceSelector)
	}
	if match.ObjectSelector.Size() <= maxCondition {
		out.labels = requirements(match.ObjectSelector)
	}
	return out
}

// concerns reports whether the policy can speak of a kind.
func (p *speaker) concerns(s *subject) bool {
	if s.ClusterScoped && len(p.namespaces) > 0 {
		return false
	}
	kinds := p.spec.Match.Kinds
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(kind v1alpha1.GroupKind) bool {
		return fits(kind.Group, s.Kind.Group) && fits(kind.Kind, s.Kind.Kind)
	})
}

func fits(pattern, name string) bool { return pattern == "*" || pattern == name }

// names reports whether the policy names a kind itself.
func (p *speaker) names(s *subject) bool {
	return slices.Contains(p.spec.Match.Kinds, v1alpha1.GroupKind{Group: s.Kind.Group, Kind: s.Kind.Kind})
}

// gives reports whether the policy may give new objects of a kind something. A TTL label for every kind is not meant for Deployments:
// kinds that never finish have to be named.
func (p *speaker) gives(s *subject) bool {
	defaults := p.spec.Defaults
	if defaults == nil {
		return false
	}
	ttl := defaults.TTL != nil || defaults.TTLSucceeded != nil || defaults.TTLFailed != nil
	return ttl && s.Finishable() || defaults.Deadline != nil && s.DefaultDeadline ||
		defaults.TTLLabel != nil && (s.Finishable() || p.names(s))
}

// bounds reports whether the policy bounds deadlines, which objects of the kind may have without carrying a key. Explicit TTLs
// are sent wherever they are set.
func (p *speaker) bounds(s *subject) bool {
	bounds := p.spec.Bounds
	return bounds != nil && (bounds.MinDeadline != nil || bounds.MaxDeadline != nil) && len(s.deadlines) > 0
}

// maxRequirements is up to how many different requirements on namespaces the namespaces are told apart: for one more there are
// twice as many webhooks. Beyond, what the policies of a kind may speak of is sent from all namespaces.
const maxRequirements = 3

// cell is a part of all namespaces, and what the policies speak of in it. The cells of one kind exclude each other, so that
// an object which several policies match is sent once.
type cell struct {
	namespaces []metav1.LabelSelectorRequirement
	speakers   []*speaker
}

func cells(speakers []*speaker) []cell {
	var distinct []metav1.LabelSelectorRequirement
	for _, p := range speakers {
		distinct = append(distinct, p.namespaces...)
	}
	slices.SortFunc(distinct, compareRequirements)
	distinct = slices.CompactFunc(distinct, func(a, b metav1.LabelSelectorRequirement) bool { return compareRequirements(a, b) == 0 })
	if len(distinct) > maxRequirements {
		return []cell{{speakers: speakers}}
	}
	var out []cell
	for which := range 1 << len(distinct) {
		var of cell
		holds := func(requirement metav1.LabelSelectorRequirement) bool {
			at := slices.IndexFunc(distinct, func(r metav1.LabelSelectorRequirement) bool { return compareRequirements(r, requirement) == 0 })
			return which&(1<<at) != 0
		}
		for _, requirement := range distinct {
			if holds(requirement) {
				of.namespaces = append(of.namespaces, requirement)
			} else {
				of.namespaces = append(of.namespaces, negated(requirement))
			}
		}
		for _, p := range speakers {
			if !slices.ContainsFunc(p.namespaces, func(r metav1.LabelSelectorRequirement) bool { return !holds(r) }) {
				of.speakers = append(of.speakers, p)
			}
		}
		if len(of.speakers) > 0 && !contradictory(of.namespaces) {
			out = append(out, of)
		}
	}
	return out
}

// contradictory reports whether no namespace can fulfil all requirements: a label that is to have one of several values, none of
// which is left by the others.
func contradictory(all []metav1.LabelSelectorRequirement) bool {
	for _, in := range all {
		if in.Operator != metav1.LabelSelectorOpIn {
			continue
		}
		left := slices.Clone(in.Values)
		for _, other := range all {
			if other.Key != in.Key {
				continue
			}
			left = slices.DeleteFunc(left, func(value string) bool {
				switch other.Operator {
				case metav1.LabelSelectorOpIn:
					return !slices.Contains(other.Values, value)
				case metav1.LabelSelectorOpNotIn:
					return slices.Contains(other.Values, value)
				case metav1.LabelSelectorOpDoesNotExist:
					return true
				default:
					return false
				}
			})
		}
		if len(left) == 0 {
			return true
		}
	}
	return false
}

// objects selects what all policies of the cell agree on; nil where they do not.
func (c *cell) objects() *metav1.LabelSelector {
	first := c.speakers[0].labels
	for _, p := range c.speakers[1:] {
		if !slices.EqualFunc(first, p.labels, func(a, b metav1.LabelSelectorRequirement) bool { return compareRequirements(a, b) == 0 }) {
			return nil
		}
	}
	return &metav1.LabelSelector{MatchExpressions: first}
}

// selected asks for the labels of the policies, where they do not agree on them.
func (c *cell) selected() string {
	if c.objects() != nil {
		return "true"
	}
	var out []string
	for _, p := range c.speakers {
		out = append(out, "("+selects(p.labels)+")")
	}
	return limited(strings.Join(out, " || "))
}

// limited is a condition, or one that has everything sent where that is too long for the API server.
func limited(condition string) string {
	if len(condition) > maxCondition {
		return "true"
	}
	return condition
}

// spoken asks whether a policy of the cell may have something to say about a new object.
func (c *cell) spoken(s *subject, validating bool) string {
	selected := c.objects() != nil
	var out []string
	for _, p := range c.speakers {
		var because []string
		if p.gives(s) {
			because = append(because, s.mayGetDefault())
		}
		if validating && p.bounds(s) {
			because = append(because, s.bounded())
		}
		condition := either(because)
		if !selected {
			condition = fmt.Sprintf("(%s) && (%s)", selects(p.labels), condition)
		}
		if !slices.Contains(out, condition) {
			out = append(out, condition)
		}
	}
	return limited(strings.Join(out, " ||\n"))
}
