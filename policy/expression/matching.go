package expression

import (
	"context"

	"curfew.dev/curfew/policy"
)

// Matching is what sorted policies say for one object, as [policy.Scope] takes it. A policy is not evaluated where nothing that it
// could say counts any more, because the namespace or a policy before it has said it.
func Matching(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables) ([]*policy.PlatformPolicy, []error) {
	var out []*policy.PlatformPolicy
	var errs []error
	open := questions{label: true}
	open.ttl, open.deadline = policy.LeftToPolicies(facts, variables.NamespacePolicy)
	for _, p := range policies {
		if !p.answers(open) {
			continue
		}
		said, matched, failed := p.For(ctx, facts, variables)
		if matched {
			out = append(out, said)
			open.ttl = open.ttl && said.TTL.Empty()
			open.deadline = open.deadline && said.Deadline == nil
			open.label = open.label && said.Label == nil
		}
		errs = append(errs, failed...)
	}
	return out, errs
}

// questions are what only the first policy that says something is asked for.
type questions struct{ ttl, deadline, label bool }

// answers reports whether the policy can say something that counts. Bounds of all policies count.
func (p *Policy) answers(open questions) bool {
	return p.Bounds != (policy.Bounds{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil || p.WarnBelow > 0 ||
		open.ttl && (p.ttl != nil || p.succeeded != nil || p.failed != nil) ||
		open.deadline && p.deadline != nil ||
		open.label && p.label != nil
}
