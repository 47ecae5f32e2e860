package coverage

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
)

// protected returns the names and the patterns of --protect.
func (in *Input) protected() (names, patterns []string) {
	for _, name := range in.Protect {
		if policy.IsPattern(name) {
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
		out.conditions = append(slices.Clone(out.conditions), admissionv1.MatchCondition{Name: "not-protected", Expression: "!" + policy.ProtectedRequest(patterns)})
	}
	return out
}
