package webhookconfig

import (
	"cmp"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// selection is what policies with the same selectors concern.
type selection struct {
	namespaces, labels []metav1.LabelSelectorRequirement
	policies           []*v1alpha1.LifecyclePolicy
}

// selections groups policies by their selectors, in a stable order. It leaves out policies with a
// bad selector: they give no object a default, and the API server would refuse a webhook with that
// selector.
func selections(policies []*v1alpha1.LifecyclePolicy) []selection {
	var out []selection
	byName := func(a, b *v1alpha1.LifecyclePolicy) int { return cmp.Compare(a.Name, b.Name) }
	for _, p := range slices.SortedFunc(slices.Values(policies), byName) {
		match := &p.Spec.Match
		_, errNamespaces := metav1.LabelSelectorAsSelector(match.NamespaceSelector)
		if _, err := metav1.LabelSelectorAsSelector(match.ObjectSelector); errNamespaces != nil || err != nil {
			continue
		}
		namespaces, labels := requirements(match.NamespaceSelector), requirements(match.ObjectSelector)
		same := slices.IndexFunc(out, func(s selection) bool {
			return slices.EqualFunc(s.namespaces, namespaces, equal) && slices.EqualFunc(s.labels, labels, equal)
		})
		if same < 0 {
			same = len(out)
			out = append(out, selection{namespaces: namespaces, labels: labels})
		}
		out[same].policies = append(out[same].policies, p)
	}
	return out
}

// requirements returns the requirements of a selector. One that is too long for a condition selects
// everything.
func requirements(selector *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if selector.Size() > maxCondition {
		return nil
	}
	return allRequirements(selector)
}

// allRequirements are sorted, so that equal selectors have equal requirements.
func allRequirements(selector *metav1.LabelSelector) (out []metav1.LabelSelectorRequirement) {
	if selector == nil {
		return nil
	}
	for key, value := range selector.MatchLabels {
		out = append(out, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	for _, requirement := range selector.MatchExpressions {
		requirement.Values = slices.Compact(slices.Sorted(slices.Values(requirement.Values)))
		out = append(out, requirement)
	}
	slices.SortFunc(out, compare)
	return slices.CompactFunc(out, equal)
}

func compare(a, b metav1.LabelSelectorRequirement) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
}

func equal(a, b metav1.LabelSelectorRequirement) bool { return compare(a, b) == 0 }

// maxSelections bounds the webhooks of one kind for policies, and so how often one object is sent.
// If policies have more different selectors, one webhook sends what any of them may concern,
// wherever it is.
const maxSelections = 8

// narrowed returns the selections with a policy that concerns a kind, with these policies alone.
func narrowed(input *Input, all []selection, concerns func(*v1alpha1.LifecyclePolicySpec) bool) []selection {
	var out []selection
	for _, s := range all {
		s.policies = slices.DeleteFunc(slices.Clone(s.policies), func(p *v1alpha1.LifecyclePolicy) bool { return !concerns(&p.Spec) })
		if len(s.policies) > 0 {
			out = append(out, s)
		}
	}
	if len(out) <= 1 || len(out) <= maxSelections && !input.coarse {
		return out
	}
	var everything selection
	for _, s := range out {
		everything.policies = append(everything.policies, s.policies...)
	}
	return []selection{everything}
}

func (s *selection) any(does func(*v1alpha1.LifecyclePolicySpec) bool) bool {
	return slices.ContainsFunc(s.policies, func(p *v1alpha1.LifecyclePolicy) bool { return does(&p.Spec) })
}

// policies adds the webhooks that send new objects of a kind because policies match them. In
// namespaces in which all new objects are sent anyway, they send nothing.
func (p *plan) policies(input *Input, k *kind, all []selection) {
	gives := func(spec *v1alpha1.LifecyclePolicySpec) bool {
		return !k.unchanging && k.matches(spec) && k.getsDefault(input, spec)
	}
	bounds := func(spec *v1alpha1.LifecyclePolicySpec) bool { return k.matches(spec) && k.isBounded(spec) }
	entry := func(name, inUse string, operation admissionv1.OperationType, s *selection, conditions ...admissionv1.MatchCondition) admissionv1.MutatingWebhook {
		out := input.entry(name, k.rule(operation), append(label(inUse, false), s.namespaces...), conditions...)
		out.ObjectSelector.MatchExpressions = s.labels
		return out
	}
	// A denial names its webhook, which should not be one or the other by chance.
	otherwise := admissionv1.MatchCondition{Name: "nothing-else-sends-it", Expression: "!(\n" + indent(k.validated) + "\n)"}
	defaulted := k.inUse
	if !k.Finishable() {
		defaulted = ""
	}
	for _, s := range narrowed(input, all, gives) {
		p.mutating = append(p.mutating, input.unprotected(entry("policies", defaulted, admissionv1.Create, &s, mayMatch(k.mayGetDefault()))))
	}
	for _, s := range narrowed(input, all, func(spec *v1alpha1.LifecyclePolicySpec) bool { return gives(spec) || bounds(spec) }) {
		var conditions []string
		if s.any(gives) {
			conditions = append(conditions, k.mayGetDefault())
		}
		if s.any(bounds) {
			conditions = append(conditions, k.deadlineChanged())
		}
		p.validating = append(p.validating, entry("validate-policies."+k.name(), k.inUse, admissionv1.Create, &s,
			otherwise, mayMatch(limited(anyOf(conditions)))))
	}
	if k.Kind != policy.PodProfile.Kind {
		return // The changed deadlines of other kinds are sent anyway.
	}
	for _, s := range narrowed(input, all, bounds) {
		p.validating = append(p.validating, entry("validate-deadlines."+k.name(), k.inUse, admissionv1.Update, &s,
			otherwise, mayMatch(k.deadlineChanged())))
	}
}

func mayMatch(condition string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "a-policy-may-match", Expression: condition}
}

// matches reports whether a policy can match objects of the kind.
func (k *kind) matches(spec *v1alpha1.LifecyclePolicySpec) bool {
	if selector := spec.Match.NamespaceSelector; k.ClusterScoped && len(requirements(selector)) > 0 {
		return false
	}
	kinds := spec.Match.Kinds
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(kind v1alpha1.GroupKind) bool {
		return (kind.Group == "*" || kind.Group == k.Kind.Group) && (kind.Kind == "*" || kind.Kind == k.Kind.Kind)
	})
}

// getsDefault reports whether a policy may give new objects of the kind a default. Kinds that never
// finish get a TTL label only from a policy that names them: one for every kind is not meant for
// Deployments.
func (k *kind) getsDefault(input *Input, spec *v1alpha1.LifecyclePolicySpec) bool {
	defaults := spec.Defaults
	if defaults == nil {
		return false
	}
	on := func(trigger policy.Trigger) bool { return !slices.Contains(input.Off, trigger) }
	ttl := defaults.TTL != nil || defaults.TTLSucceeded != nil || defaults.TTLFailed != nil
	return ttl && k.Finishable() && on(policy.TriggerTTL) ||
		defaults.Deadline != nil && k.DefaultDeadline && on(policy.TriggerDeadline) ||
		k.getsLabel(input, spec)
}

// named reports whether a policy names the kind.
func (k *kind) named(spec *v1alpha1.LifecyclePolicySpec) bool {
	return slices.Contains(spec.Match.Kinds, v1alpha1.GroupKind{Group: k.Kind.Group, Kind: k.Kind.Kind})
}

// getsLabel reports whether a policy may give objects of the kind a TTL label.
func (k *kind) getsLabel(input *Input, spec *v1alpha1.LifecyclePolicySpec) bool {
	named := k.named(spec) && !policy.EssentialKind(k.Kind.GroupKind())
	return spec.Defaults != nil && spec.Defaults.TTLLabel != nil && (k.Finishable() || named) && !slices.Contains(input.Off, policy.TriggerLabel)
}

// isBounded reports whether a policy bounds deadlines, which objects of the kind may have without a
// Curfew key. Explicit TTLs are sent wherever they are set.
func (k *kind) isBounded(spec *v1alpha1.LifecyclePolicySpec) bool {
	bounds := spec.Bounds
	return bounds != nil && (bounds.MinDeadline != nil || bounds.MaxDeadline != nil) && len(k.deadlines) > 0
}

// unprotected leaves the namespaces of --protect out of a webhook. A selector takes names only, so
// that patterns become a match condition.
func (input *Input) unprotected(out admissionv1.MutatingWebhook) admissionv1.MutatingWebhook {
	var names, patterns []string
	for _, name := range input.Protect {
		if judging.IsPattern(name) {
			patterns = append(patterns, name)
		} else {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		out.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: append(slices.Clone(out.NamespaceSelector.MatchExpressions),
			metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: names})}
	}
	if len(patterns) > 0 {
		condition := admissionv1.MatchCondition{Name: "not-protected", Expression: "!" + judging.ProtectedRequest(patterns)}
		out.MatchConditions = append(slices.Clone(out.MatchConditions), condition)
	}
	return out
}

// protection adds the webhooks that send objects of a kind without a profile if a request protects
// them, and a policy that names the kind denies that. Labelled objects are sent for their label.
func (p *plan) protection(input *Input, k *kind, all []selection) {
	denies := func(spec *v1alpha1.LifecyclePolicySpec) bool {
		return k.matches(spec) && spec.Bounds != nil && spec.Bounds.Protect != "" && k.named(spec)
	}
	for _, s := range narrowed(input, all, denies) {
		out := input.entry("validate-protection", k.withStatus(admissionv1.Create, admissionv1.Update), s.namespaces, admissionv1.MatchCondition{
			Name: "it-is-protected", Expression: fmt.Sprintf("object.?metadata.?annotations[?%[1]q].hasValue() &&\n("+isCreated+
				" || object.?metadata.?annotations[?%[1]q] != oldObject.?metadata.?annotations[?%[1]q])", wellknown.AnnotationProtect)})
		out.ObjectSelector.MatchExpressions = slices.Concat(label(wellknown.LabelTTL, false), s.labels)
		p.validating = append(p.validating, out)
	}
}
