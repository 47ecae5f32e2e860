package expression

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// For evaluates the policy for one object and reports whether it matches. Variables hold the
// object, its namespace (only its metadata is used) and its runtime.
//
// For returns the errors of the evaluation, for the condition Ready and for metrics; each is also
// in the result. If the match cannot be evaluated, every setting of the policy becomes an error in
// the result: the object is kept (S6). The bounds of the policy apply all the same: the author of
// an object must not escape them by leaving out a field.
func (p *Policy) For(ctx context.Context, facts *policy.Facts, variables *Variables) (*resolution.PlatformPolicy, bool, []error) {
	if len(p.match.kinds) == 0 && facts.Profile.Unknown {
		// Every kind with a profile, and this has none: it is given nothing. The bounds apply to
		// labelled objects of all kinds.
		bounds, _, errs := LabelBounds(ctx, []*Policy{p}, facts, variables, true)
		if len(bounds) == 0 {
			return nil, false, nil
		}
		return bounds[0], true, errs
	}
	matched, err := p.match.holds(ctx, facts, variables)
	if err != nil {
		err = p.failure(err)
		platformPolicy := p.unusable(err)
		platformPolicy.NamesKind = p.match.names(facts.Profile.Kind.GroupKind())
		if !p.givesLabel(facts.Profile) {
			platformPolicy.Label = nil
		}
		return platformPolicy, true, []error{err}
	}
	if !matched {
		return nil, false, nil
	}
	out := &resolution.PlatformPolicy{
		Name: p.Name, Bounds: p.Bounds, Since: p.Since, Backfill: p.Backfill,
		Mode: p.Mode, WarnBelow: p.WarnBelow, NamesKind: p.match.names(facts.Profile.Kind.GroupKind()),
		LatestDate: p.LatestDate, LatestUnreadable: p.latestUnreadable, Propagation: p.Propagation, Protect: p.protect,
		TTL: lifetime.TTLSet{
			All:       p.ttl.setting(ctx, p.source, variables),
			Succeeded: p.succeeded.setting(ctx, p.source, variables),
			Failed:    p.failed.setting(ctx, p.source, variables),
		},
		Deadline: p.deadline.setting(ctx, p.source, variables),
	}
	if p.givesLabel(facts.Profile) {
		out.Label = p.Label(ctx, variables)
	}
	var errs []error
	for _, setting := range append(out.TTL.Settings(), out.Deadline, out.Label) {
		if setting != nil && setting.Err != nil {
			errs = append(errs, p.failure(fmt.Errorf("%s: %w", setting.Path, setting.Err)))
		}
	}
	return out, true, errs
}

// givesLabel reports whether the policy may give objects of a kind its TTL label. Kinds that never
// finish must be named: a label for all kinds is not meant for the Deployments of the cluster.
func (p *Policy) givesLabel(profile *policy.Profile) bool {
	kind := profile.Kind.GroupKind()
	return profile.Finishable() || !profile.Unchanging() && !policy.EssentialKind(kind) && p.match.names(kind)
}

// Label is the TTL label that the policy gives to an object that it matches; nil where it gives
// none. The setting has Text and, if the label cannot be computed, Err.
func (p *Policy) Label(ctx context.Context, variables *Variables) *lifetime.Setting {
	if p.label == nil || p.label.constant != nil {
		if p.label == nil {
			return nil
		}
		return p.label.constant
	}
	text, err := p.label.program.Label(ctx, variables)
	if err == nil && text == "" {
		return nil
	}
	return &lifetime.Setting{Path: p.label.path, Source: p.source, Text: text, Err: err}
}

// PolicyError is an evaluation of a policy that failed for one object, which is kept for that
// reason.
type PolicyError struct {
	// Policy and Generation identify the policy.
	Policy     string
	Generation int64
	// Err names the field and the reason.
	Err error
}

// Error names the policy, the field and why.
func (e *PolicyError) Error() string { return fmt.Sprintf("policy %q: %v", e.Policy, e.Err) }

// Unwrap returns the reason.
func (e *PolicyError) Unwrap() error { return e.Err }

func (p *Policy) failure(err error) error {
	return &PolicyError{Policy: p.Name, Generation: p.Generation, Err: err}
}

// unusable has err in the place of everything that the policy sets.
func (p *Policy) unusable(err error) *resolution.PlatformPolicy {
	unusable := func(path string) *lifetime.Setting { return &lifetime.Setting{Path: path, Source: p.source, Err: err} }
	out := &resolution.PlatformPolicy{Name: p.Name, Since: p.Since, Backfill: p.Backfill, Mode: p.Mode}
	if p.ttl != nil || p.succeeded != nil || p.failed != nil {
		out.TTL.All = unusable("spec.match")
	}
	if p.deadline != nil {
		out.Deadline = unusable("spec.match")
	}
	if !p.LatestDate.IsZero() || p.latestUnreadable != nil {
		out.LatestUnreadable = unusable("spec.bounds.latestDate")
	}
	if p.label != nil {
		out.Label = unusable("spec.match")
	}
	if p.protect != nil {
		out.Protect = unusable(p.protect.Path)
	}
	if p.Propagation != "" {
		out.PropagationErr = err
	}
	// Bounds count as if the policy matched, and what lies within them is kept. Of an evaluation that
	// was stopped the answer is still to come.
	unknown := p.Bounds
	for _, r := range []*lifetime.Range{&unknown.TTL, &unknown.Label, &unknown.Deadline} {
		for _, bound := range []**lifetime.Setting{&r.Min, &r.Max} {
			if *bound != nil {
				*bound = unusable((*bound).Path)
			}
		}
	}
	if out.Bounds = unknown; !errors.As(err, new(*lifetime.UndecidedError)) {
		out.Bounds, out.LatestDate = p.Bounds.Narrow(unknown), p.LatestDate
	}
	return out
}

// Matching evaluates sorted policies for one object, for [resolution.Scope]. It skips a policy that
// can no longer make a difference, because the namespace or an earlier policy already decides.
func Matching(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables) ([]*resolution.PlatformPolicy, []error) {
	var out []*resolution.PlatformPolicy
	var errs []error
	open := questions{label: true, propagation: true}
	open.ttl, open.deadline = resolution.LeftToPolicies(facts, variables.NamespacePolicy)
	for _, p := range policies {
		if !p.answers(open) {
			continue
		}
		platformPolicy, matched, failed := p.For(ctx, facts, variables)
		if matched {
			out = append(out, platformPolicy)
		}
		if matched && platformPolicy.Mode != resolution.ModeDryRun {
			open.ttl = open.ttl && platformPolicy.TTL.Empty()
			open.deadline = open.deadline && platformPolicy.Deadline == nil
			open.label = open.label && platformPolicy.Label == nil
			open.propagation = open.propagation && platformPolicy.Propagation == ""
		}
		errs = append(errs, failed...)
	}
	return out, errs
}

// Giving are the policies of an object's kind in a namespace, whether they match the object or not:
// the bounds of all, and what those that the object's stamps name give to an object like it.
func Giving(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables) []*resolution.PlatformPolicy {
	var out []*resolution.PlatformPolicy
	for _, p := range policies {
		platformPolicy := &resolution.PlatformPolicy{Name: p.Name, Mode: p.Mode, Bounds: p.Bounds, LatestDate: p.LatestDate}
		if facts.StampedBy(func(name string) bool { return name == p.Name }) {
			copied := *p
			copied.match = match{kinds: p.match.kinds, namespaces: p.match.namespaces, labels: labels.Everything()}
			if given, gives, _ := copied.For(ctx, facts, variables); gives {
				platformPolicy = given
			}
		}
		out = append(out, platformPolicy)
	}
	return out
}

// questions are the defaults that only the first policy that sets one decides.
type questions struct{ ttl, deadline, label, propagation bool }

// answers reports whether the policy can make a difference. The bounds of all policies count.
func (p *Policy) answers(open questions) bool {
	return p.Bounds != (lifetime.Bounds{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil || p.protect != nil || p.WarnBelow > 0 ||
		open.ttl && p.GivesTTL() ||
		open.deadline && p.deadline != nil ||
		open.label && p.label != nil ||
		open.propagation && p.Propagation != ""
}

// LabelBounds are the bounds that sorted policies set for the TTL label and the protection of one
// object and the propagation of its deletion, and nothing else of them. If variables hold only the
// metadata (whole is false), policies that need more are left out and undecided is true: the whole
// object must then be read before it is deleted.
func LabelBounds(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables, whole bool) (
	out []*resolution.PlatformPolicy, undecided bool, errs []error,
) {
	for _, p := range policies {
		if !p.ConcernsLabels() && (p.protect == nil || !whole) {
			continue
		}
		if p.NeedsObject() && !whole {
			undecided = undecided || p.mayMatch(ctx, facts, variables)
			continue
		}
		matched, err := p.match.holds(ctx, facts, variables)
		platformPolicy := &resolution.PlatformPolicy{Bounds: p.Bounds, LatestDate: p.LatestDate, LatestUnreadable: p.latestUnreadable,
			Propagation: p.Propagation, Protect: p.protect}
		if err != nil {
			platformPolicy = p.unusable(err)
			errs = append(errs, p.failure(err))
		}
		if matched || err != nil {
			out = append(out, &resolution.PlatformPolicy{Name: p.Name, Mode: p.Mode, Bounds: lifetime.Bounds{Label: platformPolicy.Bounds.Label},
				LatestDate: platformPolicy.LatestDate, LatestUnreadable: platformPolicy.LatestUnreadable, Protect: platformPolicy.Protect,
				Propagation: platformPolicy.Propagation, PropagationErr: platformPolicy.PropagationErr})
		}
	}
	return out, undecided, errs
}

// GivesLabel reports whether the policy has a TTL label for objects of a kind that it matches.
func (p *Policy) GivesLabel(profile *policy.Profile) bool {
	return p.label != nil && p.match.concerns(profile.Kind.GroupKind()) && p.givesLabel(profile)
}

// MayLabel reports whether an existing object may be given the policy's label, by its metadata and
// its namespace. False is final.
func (p *Policy) MayLabel(ctx context.Context, facts *policy.Facts, variables *Variables) bool {
	if !p.Backfill && (p.Since.IsZero() || !facts.Created.After(p.Since)) {
		return false
	}
	return p.mayMatch(ctx, facts, variables)
}

// mayMatch leaves out the conditions, which need more than the metadata.
func (p *Policy) mayMatch(ctx context.Context, facts *policy.Facts, variables *Variables) bool {
	cheap := p.match
	cheap.conditions = nil
	may, err := cheap.holds(ctx, facts, variables)
	return may || err != nil
}
