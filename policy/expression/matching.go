package expression

import (
	"context"

	"curfew.dev/curfew/policy"
)

// Matching evaluates sorted policies for one object, for [policy.Scope]. It skips a policy that can
// no longer make a difference, because the namespace or an earlier policy already decides.
func Matching(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables) ([]*policy.PlatformPolicy, []error) {
	var out []*policy.PlatformPolicy
	var errs []error
	open := questions{label: true, propagation: true}
	open.ttl, open.deadline = policy.LeftToPolicies(facts, variables.NamespacePolicy)
	for _, p := range policies {
		if !p.answers(open) {
			continue
		}
		said, matched, failed := p.For(ctx, facts, variables)
		if matched {
			out = append(out, said)
		}
		if matched && said.Mode != policy.ModeDryRun {
			open.ttl = open.ttl && said.TTL.Empty()
			open.deadline = open.deadline && said.Deadline == nil
			open.label = open.label && said.Label == nil
			open.propagation = open.propagation && said.Propagation == ""
		}
		errs = append(errs, failed...)
	}
	return out, errs
}

// questions are the defaults that only the first policy that sets one decides.
type questions struct{ ttl, deadline, label, propagation bool }

// answers reports whether the policy can make a difference. The bounds of all policies count.
func (p *Policy) answers(open questions) bool {
	return p.Bounds != (policy.Bounds{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil || p.protect != nil || p.WarnBelow > 0 ||
		open.ttl && p.GivesTTL() ||
		open.deadline && p.deadline != nil ||
		open.label && p.label != nil ||
		open.propagation && p.Propagation != ""
}
