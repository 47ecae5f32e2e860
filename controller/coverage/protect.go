package coverage

import (
	"regexp"
	"slices"
	"strings"

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
		out.conditions = append(slices.Clone(out.conditions), admissionv1.MatchCondition{Name: "not-protected", Expression: "!" + isLike(patterns)})
	}
	return out
}

// isProtected asks whether a request is for a namespace of --protect; "" if there is none.
func (in *Input) isProtected() string {
	names, patterns := in.protected()
	var terms []string
	if len(names) > 0 {
		terms = append(terms, "request.?namespace.orValue(\"\") in "+quoted(names))
	}
	if len(patterns) > 0 {
		terms = append(terms, isLike(patterns))
	}
	return strings.Join(terms, " || ")
}

func isLike(patterns []string) string {
	var all []string
	for _, pattern := range patterns {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*"))
	}
	return "request.?namespace.orValue(\"\").matches(" + quote("^("+strings.Join(all, "|")+")$") + ")"
}
