package main

import (
	"fmt"
	"slices"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/policy"
)

// summary is the answer in one sentence.
func (e *explained) summary() string {
	zone := e.now.Location()
	if facts := e.of.Facts; facts.Deleting {
		return fmt.Sprintf("is being deleted, since %s, %s", instant(facts.DeletingSince, zone), relative(facts.DeletingSince, e.now))
	}
	if e.withAnother() {
		return e.cascadeText("is")
	}
	if run := e.cleanedFirst(); run != nil {
		return e.cleanupSummary(run)
	}
	for _, entry := range e.entries {
		if entry.Trigger == policy.TriggerDeadline {
			continue
		}
		if entry.Native != nil {
			return e.nativeSummary(&entry)
		}
		by := "by " + ownTTL(entry.Source, "its") + " TTL of " + entry.Value.String() + fromSource(entry.Source)
		if entry.Trigger == policy.TriggerLabel {
			by = fmt.Sprintf("by its label %s=%s", e.of.LabelKey, e.of.Facts.Labels[e.of.LabelKey]) + fromSource(entry.Source) + e.sooner()
		}
		switch {
		case entry.Expiry.IsZero() && entry.ByOutcome && entry.Value.Never:
			return "expires after it has finished, or stays: that depends on how it ends, see below"
		case entry.Expiry.IsZero() && entry.ByOutcome:
			return "expires after it has finished; how long after depends on how it ends, see below"
		case entry.Expiry.IsZero() && entry.Value.Never:
			return e.stays() + ownTTL(entry.Source, "its") + " TTL is never" + fromSource(entry.Source)
		case entry.Expiry.IsZero():
			return fmt.Sprintf("expires %s after it has finished, by %s TTL%s", entry.Value, ownTTL(entry.Source, "the"), fromSource(entry.Source))
		}
		about := ""
		if entry.Estimated {
			about = "about "
		}
		when := about + instant(entry.Expiry, zone) + ", " + relative(entry.Expiry, e.now)
		if e.held() {
			due := "is"
			if !entry.Expiry.After(e.now) {
				due = "was"
			}
			return fmt.Sprintf("stays, although it %s due %s, %s: see what blocks it", due, when, by)
		}
		if entry.Expiry.Before(e.now.Add(-time.Second)) {
			return fmt.Sprintf("was due %s, %s, and is still there", when, by)
		}
		return fmt.Sprintf("expires %s, %s", when, by)
	}
	if e.kept() {
		return "stays: see what blocks it"
	}
	return e.stays() + e.whyNot()
}

// stays begins the reason why nothing deletes the object.
func (e *explained) stays() string {
	if len(e.cleanupsUnknown) > 0 {
		return "stays, as far as is known: "
	}
	return "stays: "
}

// sooner adds, for an unfinished object with a label, that its TTL may expire first; "" where it
// cannot.
func (e *explained) sooner() string {
	deletion := change.DeletionOf(&policy.Explanation{Facts: e.of.Facts, Effective: e.of.Effective, ByTTL: e.of.ByTTL})
	switch {
	case e.of.Facts.Finished || deletion.After == nil || deletion.After.Never && deletion.AfterFailure == nil:
		return ""
	case deletion.AfterFailure != nil:
		return ", or sooner where it finishes: how long after depends on how it ends, see below"
	default:
		return ", or " + deletion.After.String() + " after it has finished, whichever is sooner"
	}
}

// whyNot says why nothing deletes the object.
func (e *explained) whyNot() string {
	if !e.of.Facts.Profile.Finishable() {
		return "it has no TTL label, and " + e.of.ByTTL.Reason
	}
	if e.of.Effective.LeftToKubernetes(e.of.Facts) {
		return "its " + e.of.Effective.Succeeded.Path + " is left to Kubernetes (--leave-native-ttl)"
	}
	for _, said := range e.of.TTL {
		if said.Decides && said.Why != "" {
			return "no TTL, as " + said.Source.String() + " decides: " + said.Why
		}
	}
	return "no level gives it a TTL, and it has no TTL label"
}

// held reports whether something blocks the deletion that is due. An unusable value only blocks its
// own trigger.
func (e *explained) held() bool {
	return slices.ContainsFunc(e.obstacles, func(o policy.Obstacle) bool { return o.Stops && o.Kind != policy.ObstacleValue })
}

// kept reports whether the object itself blocks its deletion, and not only what the controller may
// do.
func (e *explained) kept() bool {
	controllers := []policy.ObstacleKind{policy.ObstaclePermission, policy.ObstacleController, policy.ObstacleDryRun, policy.ObstacleOff, policy.ObstacleBreaker, policy.ObstaclePause, policy.ObstacleRefused, policy.ObstacleConflict}
	return slices.ContainsFunc(e.obstacles, func(o policy.Obstacle) bool { return o.Stops && !slices.Contains(controllers, o.Kind) })
}

func (e *explained) blocked() bool {
	return slices.ContainsFunc(e.obstacles, func(o policy.Obstacle) bool { return o.Stops })
}

// ownTTL and fromSource are written around the word TTL: its own TTL, the TTL from namespace "ci".
func ownTTL(source policy.Source, otherwise string) string {
	if source.Level == policy.LevelObject {
		return "its own"
	}
	return otherwise
}

func fromSource(source policy.Source) string {
	if source.Level == policy.LevelObject {
		return ""
	}
	return " from " + source.Phrase()
}

// deadline says when the object is stopped, and by whom; "" for never.
func (e *explained) deadline() string {
	for _, entry := range e.entries {
		if entry.Trigger == policy.TriggerDeadline {
			return fmt.Sprintf("%s, %s; %s", instant(entry.Expiry, e.now.Location()), relative(entry.Expiry, e.now), e.enforcer)
		}
	}
	return ""
}
