package change

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Target is how much longer an object should live. One field is set.
type Target struct {
	// By is added to the present TTL or expiry.
	By time.Duration
	// Until is the new expiry.
	Until time.Time
	// To is the new TTL after finished or, for kinds that do not finish, from creation.
	To time.Duration
}

// Extend lets an object live longer: it changes the label, the TTL after finished, or both, if both
// would delete it earlier. It never shortens a life.
func Extend(s *Subject, target Target) (*Plan, error) {
	plan, err := extend(s, target)
	if err != nil {
		return nil, err
	}
	for _, verdict := range s.others() {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("trigger %s may delete it at %s, whatever its TTL and its label are",
			verdict.Trigger, s.at(verdict.Expiry)))
	}
	return plan, nil
}

func extend(s *Subject, target Target) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	e := s.Explained
	for _, verdict := range []policy.Verdict{e.ByTTL, e.ByLabel} {
		if verdict.Err != nil && target.To == 0 {
			return nil, fmt.Errorf("has a value that cannot be used, and is kept: %w", verdict.Err)
		}
	}
	if target.To > 0 {
		return extendTo(s, target.To)
	}
	goes, ok := e.Goes()
	if !ok {
		return extendUnfinished(s, target)
	}
	until := target.Until
	if target.By > 0 {
		until = goes.Expiry.Add(target.By)
	}
	switch {
	case !until.After(s.Now):
		return nil, fmt.Errorf("would still be overdue since %s: give more", s.at(until))
	case until.Equal(goes.Expiry):
		return nil, Nothing("expires at %s already", s.at(until))
	case until.Before(goes.Expiry):
		return nil, Nothing("expires at %s, which is later", s.at(goes.Expiry))
	}
	patch := map[string]any{}
	if verdict := e.ByTTL; expires(verdict) && verdict.Expiry.Before(until) {
		after := until.Sub(e.Facts.FinishTime) + time.Second - 1
		if err := s.setTTL(patch, e.Facts.Outcome, after.Truncate(time.Second)); err != nil {
			return nil, err
		}
	}
	if verdict := e.ByLabel; expires(verdict) && verdict.Expiry.Before(until) {
		s.setLabel(patch, until)
	}
	warnings, err := s.extendBeside(patch, target)
	if err != nil {
		return nil, err
	}
	return s.try(patch, warnings...)
}

// extendBeside extends the TTL of an object that expires by label, or warns about it, while the
// start of the TTL is not known: the TTL may expire first.
func (s *Subject) extendBeside(patch map[string]any, target Target) (warnings []string, err error) {
	messages, why, err := s.extendToCome(patch, target)
	if err != nil || target.By > 0 || len(messages) == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("%s, so its TTL may delete it sooner (%s): --by extends that, too", why, strings.Join(messages, ", "))}, nil
}

// extendUnfinished extends a TTL whose start is not known.
func extendUnfinished(s *Subject, target Target) (*Plan, error) {
	patch := map[string]any{}
	messages, why, err := s.extendToCome(patch, target)
	switch {
	case err != nil:
		return nil, err
	case len(messages) == 0:
		return nil, Nothing("has no expiry; --to gives it one")
	case target.By == 0:
		return nil, errors.New(why + ", so its TTL has no date yet: use --by or --to")
	}
	return s.try(patch)
}

// extendToCome extends, with --by, the TTLs that count from a time that is not known yet. It returns
// what they are without that, and why that time is not known.
func (s *Subject) extendToCome(patch map[string]any, target Target) (messages []string, why string, err error) {
	facts := s.facts()
	switch {
	case !facts.Profile.Finishable(), facts.Finished && s.Explained.ByTTL.Action != policy.RecordFinish:
		return nil, "", nil
	case facts.Finished:
		why = "does not say when it finished"
	default:
		why = "has not finished"
	}
	for _, outcome := range s.outcomes() {
		value := s.Explained.Effective.TTL(outcome)
		if !value.Set || value.Err != nil || value.TTL.Never {
			continue
		}
		messages = append(messages, fmt.Sprintf("%s once it has %s", value.TTL, outcome))
		if target.By == 0 {
			continue
		}
		if err := s.setTTL(patch, outcome, value.TTL.After+target.By); err != nil {
			return nil, "", err
		}
	}
	return messages, why, nil
}

// extendTo sets a TTL: after finished or, for kinds that do not finish, from creation.
func extendTo(s *Subject, to time.Duration) (*Plan, error) {
	e, patch := s.Explained, map[string]any{}
	if !e.Facts.Profile.Finishable() {
		fresh := lifetime.TTLLabel{After: to}
		clock, _ := e.Facts.LabelClock() // ByLabel has the error.
		if e.ByLabel.Err == nil && expires(e.ByLabel) && fresh.Expiry(clock).Before(e.ByLabel.Expiry) {
			return nil, Nothing("expires at %s, which is later", s.at(e.ByLabel.Expiry))
		}
		key := cmp.Or(e.LabelKey, wellknown.LabelTTL)
		set(patch, label(key), fresh.String())
		return s.tryToCome(patch)
	}
	outcomes := s.outcomes()
	has := slices.ContainsFunc(outcomes, func(outcome lifetime.Outcome) bool { return e.Effective.TTL(outcome).Set })
	if !has && expires(e.ByLabel) {
		return nil, fmt.Errorf("expires at %s by its label, and a TTL could only delete it sooner: use --by or --until", s.at(e.ByLabel.Expiry))
	}
	var longer resolution.Value
	changed := false
	for _, outcome := range outcomes {
		value, after := e.Effective.TTL(outcome), to
		switch {
		case !value.Set && has:
			continue // It has a TTL for the other outcome only, and stays after this one.
		case !value.Set, value.Err != nil, !value.TTL.Never && value.TTL.After < to:
			changed = true
		case value.Default && !value.TTL.Never:
			longer, after = value, value.TTL.After // Once the object has a TTL for one outcome, the default applies to none.
		default:
			longer = value
			continue
		}
		if err := s.setTTL(patch, outcome, after); err != nil {
			return nil, err
		}
	}
	if !changed {
		return nil, Nothing("has a TTL of %s, which is not shorter", longer.TTL)
	}
	plan, err := s.tryToCome(patch)
	if err == nil && expires(e.ByLabel) && plan.After.Expiry.Equal(e.ByLabel.Expiry) {
		return nil, fmt.Errorf("expires at %s by its label, whatever its TTL is: use --by or --until", s.at(e.ByLabel.Expiry))
	}
	return plan, err
}

// outcomes are the outcome of a finished object, and both of an unfinished one.
func (s *Subject) outcomes() []lifetime.Outcome {
	if s.facts().Finished {
		return []lifetime.Outcome{s.facts().Outcome}
	}
	return []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed}
}

// tryToCome is try, but the new TTL must not have expired already.
func (s *Subject) tryToCome(patch map[string]any) (*Plan, error) {
	plan, err := s.try(patch)
	if err == nil && !plan.After.Expiry.IsZero() && !plan.After.Expiry.After(s.Now) {
		return nil, fmt.Errorf("would be overdue since %s: give more, or use expire-now", s.at(plan.After.Expiry))
	}
	return plan, err
}

// soon leaves time for the request: admission denies a label that is expired.
const soon = 2 * time.Second

// ExpireNow has Curfew delete an object at once, by a TTL label: with preconditions, and only if no
// obstacle stops it.
func ExpireNow(s *Subject, obstacles []judging.Obstacle) (*Plan, error) {
	if s.facts().Deleting {
		return nil, Nothing("is being deleted")
	}
	var warnings []string
	for _, obstacle := range obstacles {
		switch {
		case obstacle.Kind == judging.ObstacleValue:
			// The new label decides.
		case obstacle.Stops:
			return nil, errors.New("would stay: " + obstacle.Message)
		default:
			warnings = append(warnings, obstacle.Message)
		}
	}
	facts := s.facts()
	if owner := facts.CopiedFrom(); owner != "" {
		return nil, errors.New("would stay: its TTL label counts as a copy of that of " + owner + ": use expire-now on that")
	}
	if due := s.Explained.ByLabel; due.Action == policy.Delete {
		return nil, Nothing("expired at %s", s.at(due.Expiry))
	}
	switch {
	case facts.IsNamespace():
		warnings = append(warnings, "everything in the namespace is deleted with it")
	case facts.Profile.Finishable() && !facts.Finished:
		warnings = append(warnings, "has not finished: it is deleted while it runs")
	}
	now := lifetime.TTLLabel{At: roundUp(s.Now.Add(soon))}
	patch := map[string]any{}
	set(patch, label(wellknown.LabelTTL), now.String())
	if _, refreshed := facts.Annotations[wellknown.AnnotationRefreshedAt]; refreshed {
		set(patch, annotation(wellknown.AnnotationRefreshedAt), nil) // Beside a date, admission warns of it.
	}
	return s.try(patch, warnings...)
}

// Keep lets an object stay: it removes the TTL label, sets the TTL after finished to never, and
// protects the object from a cleanup policy.
func Keep(s *Subject) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	e, patch := s.Explained, map[string]any{}
	for _, key := range []string{wellknown.LabelTTL, wellknown.LabelKyvernoTTL} {
		if _, ok := e.Facts.Labels[key]; ok && (key == wellknown.LabelTTL || s.Alias) {
			set(patch, label(key), nil)
			// Without a stamp it would look like an object that never had a label, and get a
			// default.
			if _, stamped := e.Facts.Annotations[wellknown.AnnotationLabelSource]; !stamped {
				set(patch, annotation(wellknown.AnnotationLabelSource), string(lifetime.LevelObject))
			}
		}
	}
	var warnings []string
	if s.hasTTL() {
		if runtime := e.Scope.Runtime; runtime != nil && e.Facts.ForeignManager(e.Scope.NoMultiKueue) == "" && !runtime.TTL.Empty() {
			set(patch, annotation(wellknown.AnnotationProtect), "true")
			warnings = append(warnings, fmt.Sprintf("its runtime %q decides its TTL, so the object is protected instead", runtime.Name))
		} else if err := s.never(patch); err != nil {
			return nil, err
		}
	}
	if s.Cleaned != "" && !e.Facts.Protected() {
		set(patch, annotation(wellknown.AnnotationProtect), "true")
		warnings = append(warnings, fmt.Sprintf("the next run of %s may delete it, so the object is protected", s.Cleaned))
	}
	if others := s.others(); len(others) > 0 && !e.Facts.Protected() {
		set(patch, annotation(wellknown.AnnotationProtect), "true")
		warnings = append(warnings, fmt.Sprintf("trigger %s may delete it, so the object is protected", others[0].Trigger))
	}
	if len(patch) == 0 {
		return nil, Nothing("has no expiry")
	}
	return s.try(patch, warnings...)
}

// Protect plans to protect an object, from cleanup policies as well.
func Protect(s *Subject) (*Plan, error) {
	if err := s.untouchable(); err != nil {
		return nil, err
	}
	patch := map[string]any{}
	set(patch, annotation(wellknown.AnnotationProtect), "true")
	return s.try(patch)
}

func (s *Subject) hasTTL() bool {
	e := s.Explained
	return e.Facts.Profile.Finishable() && slices.ContainsFunc(s.outcomes(), func(outcome lifetime.Outcome) bool {
		value := e.Effective.TTL(outcome)
		return value.Set && !value.TTL.Never
	})
}

// never sets the annotation to never, and removes the fields and annotations that would override
// it.
func (s *Subject) never(patch map[string]any) error {
	e := s.Explained
	if err := e.Scope.BoundsFor(e.Facts, resolution.EnforcedBounds).CheckTTL(lifetime.TTL{Never: true}); err != nil {
		return fmt.Errorf("cannot be kept for good: %w; use extend", err)
	}
	own := e.Facts.TTLs()
	for _, native := range own.Natives() {
		path, err := fieldpath.ParseFieldPath(native.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", native.Path, err)
		}
		set(patch, path, nil)
	}
	for _, key := range []string{wellknown.AnnotationTTLSucceeded, wellknown.AnnotationTTLFailed} {
		if _, ok := e.Facts.Annotations[key]; ok {
			set(patch, annotation(key), nil)
		}
	}
	set(patch, annotation(wellknown.AnnotationTTL), "never")
	return nil
}
