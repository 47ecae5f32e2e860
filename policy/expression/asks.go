package expression

import (
	"slices"
	"strings"

	"curfew.dev/curfew/policy/v1alpha1"
)

// AsksNamespace reports whether the policy depends on more of an object's namespace than its name.
func (p *Policy) AsksNamespace() bool { return p.asksNamespace }

// ReadsNamespace reports whether an expression of the policy reads the namespace of an object.
func (p *Policy) ReadsNamespace() bool { return p.readsNamespace }

// ReadsRuntime reports whether an expression of the policy reads the runtime of an object.
func (p *Policy) ReadsRuntime() bool { return p.readsRuntime }

// MatchAsksRuntime reports whether the policy's match depends on the runtime of an object.
func (p *Policy) MatchAsksRuntime() bool { return p.matchAsksRuntime }

func matchAsksRuntime(spec *v1alpha1.LifecyclePolicySpec) bool {
	return slices.ContainsFunc(spec.Match.MatchConditions, func(condition v1alpha1.MatchCondition) bool {
		return strings.Contains(string(condition.Expression), varRuntime)
	})
}

func (m *match) asksNamespace() bool { return !m.namespaces.Empty() }

// asks looks for a variable in all expressions of a policy.
func asks(spec *v1alpha1.LifecyclePolicySpec, variable string) bool {
	var sources []*v1alpha1.Expression
	for i := range spec.Match.MatchConditions {
		sources = append(sources, &spec.Match.MatchConditions[i].Expression)
	}
	if defaults := spec.Defaults; defaults != nil {
		for _, value := range []*v1alpha1.TTLValue{defaults.TTL, defaults.TTLSucceeded, defaults.TTLFailed} {
			if value != nil {
				sources = append(sources, value.Expression)
			}
		}
		if value := defaults.Deadline; value != nil {
			sources = append(sources, value.Expression)
		}
		if value := defaults.TTLLabel; value != nil {
			sources = append(sources, value.Expression)
		}
	}
	return slices.ContainsFunc(sources, func(source *v1alpha1.Expression) bool {
		return source != nil && strings.Contains(string(*source), variable)
	})
}
