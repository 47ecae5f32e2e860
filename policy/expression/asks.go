package expression

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/policy"
)

// AsksNamespace reports whether the policy depends on more of an object's namespace than its name.
func (p *Policy) AsksNamespace() bool { return p.asksNamespace }

// ReadsNamespace reports whether an expression of the policy reads the namespace of an object.
func (p *Policy) ReadsNamespace() bool { return p.readsNamespace }

// ReadsRuntime reports whether an expression of the policy reads the runtime of an object.
func (p *Policy) ReadsRuntime() bool { return p.readsRuntime }

// MatchAsksRuntime reports whether the policy's match depends on the runtime of an object.
func (p *Policy) MatchAsksRuntime() bool { return p.matchAsksRuntime }

// VariesIn reports whether the policy may match, or set, something else for each object of a kind
// in a namespace.
func (p *Policy) VariesIn(namespace *policy.NamespacePolicy) bool {
	if !p.match.namespaces.Matches(labels.Set(namespace.Labels)) {
		return false
	}
	computed := func(v *value) bool { return v != nil && v.constant == nil }
	return p.match.err != nil || !p.match.labels.Empty() || len(p.match.conditions) > 0 ||
		slices.ContainsFunc([]*value{p.ttl, p.succeeded, p.failed, p.deadline, p.label}, computed)
}
