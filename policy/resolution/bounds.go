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

// LabelExpiry is when a label expires that is within the enforced bounds and counts from an
// instant, the creation or the last refresh. The bounds count from the creation. Admission denies a
// refresh after a bound has ended, so that such a bound is newer than the refresh and deletes
// nothing.
func (s *Scope) LabelExpiry(label lifetime.TTLLabel, created, from time.Time) time.Time {
	expiry := label.Expiry(from)
	earlier := func(limit time.Time) {
		if expiry.After(limit) && !limit.Before(from) {
			expiry = limit
		}
	}
	if longest := s.Bounds(EnforcedBounds).Label.Max; longest.Readable() && label.At.IsZero() {
		earlier(created.Add(longest.TTL.After))
	}
	for _, policy := range s.Policies {
		if latest := policy.LatestDate; EnforcedBounds.includes(policy) && !latest.IsZero() {
			earlier(latest)
		}
	}
	return expiry
}

// CheckRefresh says which bound of a set ended before a label was refreshed, or returns nil.
func (s *Scope) CheckRefresh(t, created time.Time, set BoundSet) error {
	if longest := s.Bounds(set).Label.Max; longest.Readable() && t.After(created.Add(longest.TTL.After)) {
		return fmt.Errorf("is more than %s after the creation: leave it unchanged, or create the object again", longest.Bound())
	}
	for _, policy := range s.Policies {
		if latest := policy.LatestDate; set.includes(policy) && !latest.IsZero() && t.After(latest) {
			return fmt.Errorf("is after latestDate %s of %s: leave it unchanged",
				latest.UTC().Format(lifetime.LabelDate), policy.Source().Phrase())
		}
	}
	return nil
}

// CheckLabel says how the label of an object lies outside the bounds of a set, or returns nil.
// Bounds apply to the lifetime that it grants, a policy's latest date to the instant at which it
// expires.
func (s *Scope) CheckLabel(label lifetime.TTLLabel, created time.Time, set BoundSet) error {
	unreadable := s.Bounds(set).CheckLabel(label, created)
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
