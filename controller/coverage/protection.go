package coverage

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// protected returns the names and the patterns of --protect.
func (in *Input) protected() (names, patterns []string) {
	for _, name := range in.Protect {
		if judging.IsPattern(name) {
			patterns = append(patterns, name)
		} else {
			names = append(names, name)
		}
	}
	return names, patterns
}

// unprotected leaves the namespaces of --protect out of a webhook. A selector takes names only, so
// that patterns become a match condition.
func (in *Input) unprotected(out entry) entry {
	names, patterns := in.protected()
	if len(names) > 0 {
		out.namespaces.MatchExpressions = append(slices.Clone(out.namespaces.MatchExpressions),
			metav1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: names})
	}
	if len(patterns) > 0 {
		out.conditions = append(slices.Clone(out.conditions), admissionv1.MatchCondition{Name: "not-protected", Expression: "!" + judging.ProtectedRequest(patterns)})
	}
	return out
}

// protection adds the webhooks that send objects of a kind without a profile if a request protects
// them, and a policy that names the kind denies that. Labelled objects are sent for their label.
func (p *plan) protection(in *Input, k *kind, all []selection) {
	denies := func(spec *v1alpha1.LifecyclePolicySpec) bool {
		return k.matches(spec) && spec.Bounds != nil && spec.Bounds.Protect != "" &&
			slices.Contains(spec.Match.Kinds, v1alpha1.GroupKind{Group: k.Kind.Group, Kind: k.Kind.Kind})
	}
	for _, s := range narrowed(in, all, denies) {
		out := in.entry("validate-protection", k.rule(admissionv1.Create, admissionv1.Update), s.namespaces, admissionv1.MatchCondition{
			Name: "it-is-protected", Expression: fmt.Sprintf("object.?metadata.?annotations[?%[1]q].hasValue() &&\n("+isCreated+
				" || object.?metadata.?annotations[?%[1]q] != oldObject.?metadata.?annotations[?%[1]q])", wellknown.AnnotationProtect)})
		out.objects.MatchExpressions = slices.Concat(label(wellknown.LabelTTL, false), s.labels)
		p.validating = append(p.validating, out)
	}
}
