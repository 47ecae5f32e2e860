package resolution

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
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
func (s *Scope) Propagation() (propagation metav1.DeletionPropagation, of lifetime.Source, err error) {
	for _, each := range s.Policies {
		of = lifetime.Source{Level: lifetime.LevelPolicy, Name: each.Name}
		switch {
		case each.PropagationErr != nil:
			return "", of, fmt.Errorf("spec.propagationPolicy of %s: %w", of.Phrase(), each.PropagationErr)
		case each.Propagation != "":
			return each.Propagation, of, nil
		}
	}
	return "", lifetime.Source{}, nil
}

// inDryRun reports whether the namespace or a policy is in dry-run.
func (s *Scope) inDryRun() bool {
	return s.Mode() == ModeDryRun || slices.ContainsFunc(s.Policies, func(of *PlatformPolicy) bool { return of.Mode == ModeDryRun })
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
	for i, of := range out.Policies {
		if of.Mode == ModeDryRun && (name == "" || of.Name == name) {
			enforced := *of
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

// BoundSet selects bounds by their effect on a value outside of them.
type BoundSet uint8

// The sets. Policies set the outer bounds, which the namespace may only narrow.
const (
	// AllBounds clamp defaults. Outside of them there is at least a warning.
	AllBounds BoundSet = iota
	// EnforcedBounds leave out the policies that only warn. A value outside of them is rejected,
	// and keeps an object that has it.
	EnforcedBounds
	// OuterBounds leave out the namespace as well: its mode does not soften them.
	OuterBounds
	// TrialBounds are the bounds of policies in dry-run. No other set includes them.
	TrialBounds
)

func (set BoundSet) includes(policy *PlatformPolicy) bool {
	switch policy.Mode {
	case ModeDryRun:
		return set == TrialBounds
	case ModeWarn:
		return set == AllBounds
	default:
		return set != TrialBounds
	}
}

// Bounds are the bounds of a set.
func (s *Scope) Bounds(set BoundSet) lifetime.Bounds {
	var bounds lifetime.Bounds
	for _, policy := range s.Policies {
		if set.includes(policy) {
			bounds = bounds.Narrow(policy.Bounds)
		}
	}
	if s.Namespace != nil && set != OuterBounds && set != TrialBounds {
		bounds = bounds.Narrow(s.Namespace.Bounds)
	}
	return bounds
}

// minCronJobTTL lets the CronJob controller see its Job finished. Else it reports MissingJob and
// loses status.lastSuccessfulTime.
const minCronJobTTL = time.Minute

// BoundsFor returns the bounds of a set for one object. A max-ttl under a minute does not bind a
// CronJob's Job, because the Job must stay for [minCronJobTTL].
func (s *Scope) BoundsFor(facts *policy.Facts, set BoundSet) lifetime.Bounds {
	bounds := s.Bounds(set)
	if high := bounds.TTL.Max; high.Readable() && high.TTL.After < minCronJobTTL && facts.IsCronJobsJob() {
		raised := *high
		raised.TTL.After = minCronJobTTL
		bounds.TTL.Max = &raised
	}
	return bounds
}

// CheckLabel says how the label of an object lies outside the bounds of a set, or returns nil.
// Bounds apply to the lifetime that it grants, a policy's latest date to the instant at which it
// expires.
func (s *Scope) CheckLabel(label lifetime.TTLLabel, created time.Time, set BoundSet) error {
	life := label.After
	if !label.At.IsZero() {
		life = max(0, label.At.Sub(created).Truncate(time.Second))
	}
	unreadable := s.Bounds(set).CheckLabel(lifetime.TTL{After: life})
	if lifetime.Violated(unreadable) {
		return unreadable
	}
	for _, policy := range s.Policies {
		if late := policy.LatestUnreadable; late != nil && set.includes(policy) && (unreadable == nil || late.Undecided() && lifetime.Undecided(unreadable) == nil) {
			unreadable = &lifetime.UnreadableBoundError{Bound: late} // One that denies before any other.
		}
		if latest := policy.LatestDate; set.includes(policy) && !latest.IsZero() && label.Expiry(created).After(latest) {
			return fmt.Errorf("%s is after latestDate %s of %s: use a date up to then",
				label, latest.UTC().Format(lifetime.LabelDate), lifetime.Source{Level: lifetime.LevelPolicy, Name: policy.Name}.Phrase())
		}
	}
	return unreadable
}

// RuntimePolicy holds the settings of a training runtime for the objects that use it.
type RuntimePolicy struct {
	// Name as sources write it.
	Name string
	// Path is the field of the object that names the runtime.
	Path string
	TTL  lifetime.TTLSet
	// Namespaced runtimes can be written by tenants, so that bounds apply to their TTL.
	Namespaced bool
	// Since is the instant from which the TTL applies: what finished earlier needs backfill. Zero
	// means that it is not known, or was recorded for another TTL.
	Since    time.Time
	Backfill bool
	// Deadline is nil where the runtime sets none.
	Deadline *lifetime.Setting
	// Missing means that the object names a runtime that does not exist: keep, and report.
	Missing bool
	// Err says why the reference cannot be read; Missing is then true.
	Err error
}

// Unusable says why nothing is known of the runtime's settings, or returns nil.
func (r *RuntimePolicy) Unusable() error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("the runtime cannot be told: %w", r.Err)
	case r.Missing:
		return fmt.Errorf("the runtime %s does not exist: create it, or delete the object by hand", r.Name)
	default:
		return nil
	}
}

// ReadSince reads since when the TTL applies, and backfill, off the runtime. The fields are those
// in which a runtime of this kind may have a TTL. A stamp from before the runtime's creation was
// copied or forged: the creation counts.
func (r *RuntimePolicy) ReadSince(facts *policy.Facts, runtime map[string]any, fields []fieldpath.FieldPath) {
	r.Backfill = facts.Annotations[wellknown.AnnotationBackfill] == "true"
	at, hash, ok := ParseSince(facts.Annotations[wellknown.AnnotationDefaultSince])
	if !ok || hash != RuntimeHash(runtime, fields) {
		return
	}
	if r.Since = at; at.Before(facts.Created) {
		r.Since = facts.Created
	}
}

// RuntimeHash is a short hash of the TTLs that a runtime has in its annotations and fields; ""
// without any. It guards the stamp: a new TTL has no time yet, and deletes nothing that has
// finished (S6).
func RuntimeHash(runtime map[string]any, fields []fieldpath.FieldPath) string {
	var text strings.Builder
	annotations := policy.StringMap(runtime, "annotations")
	for _, key := range wellknown.TTLAnnotations {
		if value, ok := annotations[key]; ok {
			fmt.Fprintf(&text, "%s=%q\n", key, value)
		}
	}
	var natives []string
	for _, path := range fields {
		switch field := policy.NativeField(runtime, path); {
		case !field.Set:
		case field.Err != nil: // Whatever it is, it deletes nothing.
			natives = append(natives, path.String()+"=?\n")
		default:
			natives = append(natives, fmt.Sprintf("%s=%d\n", path, field.Seconds))
		}
	}
	slices.Sort(natives)
	for _, line := range slices.Compact(natives) {
		text.WriteString(line)
	}
	return shortHash(text.String())
}

// StampRuntime says what curfew.dev/default-since of a runtime must be now, given the present one;
// "" means that the key must not be there.
func StampRuntime(runtime map[string]any, fields []fieldpath.FieldPath, present string, now time.Time) string {
	return keptSince(present, RuntimeHash(runtime, fields), now)
}
