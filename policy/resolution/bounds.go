package resolution

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

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
		late := policy.LatestUnreadable
		if late != nil && set.includes(policy) && (unreadable == nil || late.Undecided() && lifetime.Undecided(unreadable) == nil) {
			unreadable = &lifetime.UnreadableBoundError{Bound: late} // One that denies before any other.
		}
		if latest := policy.LatestDate; set.includes(policy) && !latest.IsZero() && label.Expiry(created).After(latest) {
			return fmt.Errorf("%s is after latestDate %s of %s: use a date up to then",
				label, latest.UTC().Format(lifetime.LabelDate), policy.Source().Phrase())
		}
	}
	return unreadable
}
