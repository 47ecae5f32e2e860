package coverage

import (
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// defaultLabels adds the webhooks that send new objects of kinds without a profile, because a
// policy that names their kind gives them a TTL label. An object that gets one also gets a Curfew
// annotation, so that the webhooks for labelled objects have it validated and announced. An object
// that gets none is validated here: a policy without effect is worth a warning.
func (p *plan) defaultLabels(in *Input, known []*kind, all []selection) {
	for _, served := range in.Labelled {
		if slices.ContainsFunc(known, func(k *kind) bool { return k.Kind.GroupKind() == served.GroupKind() }) {
			continue // They are sent as kinds with a profile.
		}
		k := &kind{Profile: &policy.Profile{Kind: served.GroupVersionKind, Resource: served.Resource, ClusterScoped: served.ClusterScoped}}
		gives := func(spec *v1alpha1.LifecyclePolicySpec) bool { return k.matches(spec) && k.getsDefault(in, spec) }
		for _, s := range narrowed(in, all, gives) {
			out := in.unprotected(in.entry("default-labels", k.rule(admissionv1.Create), s.namespaces, mayMatch(k.mayGetDefault())))
			out.objects.MatchExpressions = slices.Concat(label(policy.LabelTTL, false), s.labels)
			p.mutating = append(p.mutating, out)
			out.name = "validate-default-labels"
			p.validating = append(p.validating, out)
		}
		p.removedLabels(in, k, all)
		p.protection(in, k, all)
	}
}

// removedLabels adds the webhooks that send updates which remove a TTL label, of a kind to which a
// policy gives one: without a stamp, the controller would take the object for one that never had a
// label. Which objects the policy selects does not matter here, since that may change later.
func (p *plan) removedLabels(in *Input, k *kind, all []selection) {
	gives := func(spec *v1alpha1.LifecyclePolicySpec) bool { return k.matches(spec) && k.getsLabel(in, spec) }
	if k.unchanging || !slices.ContainsFunc(all, func(s selection) bool { return s.any(gives) }) {
		return
	}
	keys := map[string]string{"removed-labels": policy.LabelTTL}
	if in.Alias {
		keys["removed-labels-kyverno"] = policy.LabelKyvernoTTL
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		removed := fmt.Sprintf("oldObject.?metadata.?labels[?%[1]q].hasValue() &&\n!object.?metadata.?labels[?%[1]q].hasValue() &&\n!object.?metadata.?annotations[?%[2]q].hasValue()",
			keys[name], policy.AnnotationLabelSource)
		out := in.entry(name, k.rule(admissionv1.Update), nil, admissionv1.MatchCondition{Name: "its-label-is-removed", Expression: removed})
		out.objects.MatchExpressions = label(keys[name], true) // The API server selects by the old labels too.
		p.mutating = append(p.mutating, in.unprotected(out))
	}
}
