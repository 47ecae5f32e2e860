package resolution

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

// Scope is the context in which an object is judged.
type Scope struct {
	// Namespace is nil for cluster-scoped objects.
	Namespace *NamespacePolicy
	// Runtime is nil for an object that uses no training runtime.
	Runtime *RuntimePolicy
	// Counter is nil for anything but a Pod that a Job or a PodTally counts.
	Counter *PodCounter
	// Policies are the platform policies that match the object, in order of precedence.
	Policies []*PlatformPolicy
	// Filled is the scope of the object as it was before admission filled in what its stamps claim. It
	// is nil unless a stamp names a policy in dry-run.
	Filled *Scope
	// Creating is true while admission judges a CREATE. Every default then reaches the object, and
	// its stamps are not trusted.
	Creating bool
	// Tallied means that a PodTally counts the Pod that is being created.
	Tallied bool
	// Protected means that the controller deletes nothing in the namespace (--protect): no default of
	// any form is given.
	Protected bool
	// AnnotationsOnly is --native-ttl=off: defaults are annotations, and only Curfew deletes by
	// them.
	AnnotationsOnly bool
	// LeaveNative is --leave-native-ttl: Jobs whose author set ttlSecondsAfterFinished are left to
	// Kubernetes.
	LeaveNative bool
	// NoMultiKueue means that Kueue's CRD is surely not served: its label marks no copy.
	NoMultiKueue bool
	// Off are the triggers that are switched off: while Creating, they give no default.
	Off []policy.Trigger
}

// gives reports whether a trigger gives defaults.
func (s *Scope) gives(trigger policy.Trigger) bool {
	return !s.Creating || !slices.Contains(s.Off, trigger)
}

// Mode is the namespace's mode; enforce for cluster-scoped objects.
func (s *Scope) Mode() Mode {
	if s.Namespace == nil {
		return ModeEnforce
	}
	return s.Namespace.Mode
}

// Propagation is what the policies want to become of an object's dependents, and the policy that
// decides: the first that sets it. On an error the object is kept: its dependents might have to
// stay (S6).
func (s *Scope) Propagation() (propagation metav1.DeletionPropagation, source lifetime.Source, err error) {
	for _, each := range s.Policies {
		source = each.Source()
		switch {
		case each.PropagationErr != nil:
			return "", source, fmt.Errorf("spec.propagationPolicy of %s: %w", source.Phrase(), each.PropagationErr)
		case each.Propagation != "":
			return each.Propagation, source, nil
		}
	}
	return "", lifetime.Source{}, nil
}

// inDryRun reports whether the namespace or a policy is in dry-run.
func (s *Scope) inDryRun() bool {
	return s.Mode() == ModeDryRun || slices.ContainsFunc(s.Policies, func(p *PlatformPolicy) bool { return p.Mode == ModeDryRun })
}

// asEnforced is the scope as it would be if nothing were in dry-run.
func (s *Scope) asEnforced() *Scope { return s.enforcing("") }

// enforcing is the scope as it would be if the namespace and one policy were not in dry-run; ""
// means all policies.
func (s *Scope) enforcing(name string) *Scope {
	out := *s
	if s.Namespace != nil {
		namespace := *s.Namespace
		namespace.Mode = ModeEnforce
		out.Namespace = &namespace
	}
	out.Policies = slices.Clone(s.Policies)
	for i, platformPolicy := range out.Policies {
		if platformPolicy.Mode == ModeDryRun && (name == "" || platformPolicy.Name == name) {
			enforced := *platformPolicy
			enforced.Mode = ModeEnforce
			out.Policies[i] = &enforced
		}
	}
	return &out
}

// PlatformPolicy holds the settings of a LifecyclePolicy for one object that it matches. Its
// expressions are evaluated already.
type PlatformPolicy struct {
	Name     string
	TTL      lifetime.TTLSet
	Deadline *lifetime.Setting
	// NamesKind means that the policy names the object's kind, and not only a wildcard.
	NamesKind bool
	Bounds    lifetime.Bounds
	// Since is the instant from which the defaults apply to objects that bypassed admission; zero
	// means never.
	Since    time.Time
	Backfill bool
	// Mode is enforce where it is empty. Bounds of a policy in mode warn warn; one in mode dry-run
	// decides nothing, and what it would do is reported.
	Mode Mode
	// WarnBelow is the TTL under which authors are warned; zero where the policy sets none.
	WarnBelow time.Duration
	// Label is the default TTL label; nil where the policy sets none.
	Label *lifetime.Setting
	// LatestDate is the last instant at which a TTL label may expire; zero means no bound.
	LatestDate time.Time
	// Propagation of deletions; "" where the policy sets none. PropagationErr says why it is not known
	// whether the policy sets it for the object.
	Propagation    metav1.DeletionPropagation
	PropagationErr error
	// Protect is the bound that denies annotation [wellknown.AnnotationProtect], with an error where
	// it is not known whether the policy matches; nil where authors may set it.
	Protect *lifetime.Setting
	// LatestUnreadable is the latest date where it cannot be read, or where it is not known whether
	// it applies; else nil.
	LatestUnreadable *lifetime.Setting
}

// Source is the policy as settings name it.
func (p *PlatformPolicy) Source() lifetime.Source {
	return lifetime.Source{Level: lifetime.LevelPolicy, Name: p.Name}
}
