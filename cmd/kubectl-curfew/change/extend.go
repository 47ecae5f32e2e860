package change

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
)

// Target is how much longer an object is to live. One of the fields is set.
type Target struct {
	// By is added to what it has.
	By time.Duration
	// Until is when it is to go.
	Until time.Time
	// To is its TTL after finished or, where its kind does not finish, from creation.
	To time.Duration
}

// Extend lets an object live longer, by the label, by the TTL after finished or by both, whichever would delete it before. It never
// shortens a life.
func Extend(s *Subject, target Target) (*Plan, error) {
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
		return nil, fmt.Errorf("would still be overdue, since %s: give more", until.In(s.Now.Location()).Format(time.RFC3339))
	case until.Equal(goes.Expiry):
		return nil, nothing("goes at %s as it is: nothing to extend", until.In(s.Now.Location()).Format(time.RFC3339))
	case until.Before(goes.Expiry):
		return nil, nothing("goes at %s, which is later: nothing to extend", goes.Expiry.In(s.Now.Location()).Format(time.RFC3339))
	}
	patch := map[string]any{}
	if verdict := e.ByTTL; speaks(verdict) && verdict.Expiry.Before(until) {
		after := until.Sub(e.Facts.FinishTime)
		if whole := after.Truncate(time.Second); whole < after {
			after = whole + time.Second
		}
		if err := s.setTTL(patch, e.Facts.Outcome, after); err != nil {
			return nil, err
		}
	}
	if verdict := e.ByLabel; speaks(verdict) && verdict.Expiry.Before(until) {
		s.setLabel(patch, until)
	}
	warnings, err := s.extendBeside(patch, target)
	if err != nil {
		return nil, err
	}
	return s.try(patch, warnings...)
}

// extendBeside adds to a TTL whose time has not begun, of an object that goes by its label, or says what the TTL may come to. Which of the two
// comes first nobody knows.
func (s *Subject) extendBeside(patch map[string]any, target Target) (warnings []string, err error) {
	e := s.Explained
	why := "has not finished"
	switch {
	case !e.Facts.Profile.Finishable(), e.Facts.Finished && e.ByTTL.Action != policy.RecordFinish:
		return nil, nil
	case e.Facts.Finished:
		why = "does not say when it finished"
	}
	var said []string
	for _, outcome := range s.outcomes() {
		value := e.Effective.TTL(outcome)
		if !value.Set || value.Err != nil || value.TTL.Never {
			continue
		}
		said = append(said, fmt.Sprintf("%s once it has %s", value.TTL, outcome))
		if target.By == 0 {
			continue
		}
		if err := s.setTTL(patch, outcome, value.TTL.After+target.By); err != nil {
			return nil, err
		}
	}
	if target.By > 0 || len(said) == 0 {
		return nil, nil
	}
	return []string{fmt.Sprintf("%s, and may go before by its TTL (%s): --by extends that, too", why, strings.Join(said, ", "))}, nil
}

// setLabel has the label name an instant or, where it counts from the creation and whole minutes do, keeps counting.
func (s *Subject) setLabel(patch map[string]any, until time.Time) {
	key := s.Explained.LabelKey
	old, err := policy.ParseLabel(key, s.facts().Labels[key])
	fresh := policy.TTLLabel{At: roundUp(until)}
	if life := until.Sub(s.facts().Created); err == nil && old.At.IsZero() && life%time.Minute == 0 && life >= time.Minute {
		fresh = policy.TTLLabel{After: life}
	}
	set(patch, label(key), fresh.String())
}

func roundUp(at time.Time) time.Time {
	whole := at.UTC().Truncate(time.Second)
	if whole.Before(at) {
		return whole.Add(time.Second)
	}
	return whole
}

// extendUnfinished adds to a TTL whose time has not begun, or of which that is not known.
func extendUnfinished(s *Subject, target Target) (*Plan, error) {
	e := s.Explained
	outcomes, why := []policy.Outcome{policy.Succeeded, policy.Failed}, "has not finished"
	switch {
	case !e.Facts.Profile.Finishable():
		outcomes = nil
	case e.Facts.Finished && e.ByTTL.Action != policy.RecordFinish:
		outcomes = nil
	case e.Facts.Finished:
		outcomes, why = []policy.Outcome{e.Facts.Outcome}, "does not say when it finished"
	}
	patch, found := map[string]any{}, false
	for _, outcome := range outcomes {
		value := e.Effective.TTL(outcome)
		if !value.Set || value.TTL.Never {
			continue
		}
		found = true
		if target.By == 0 {
			return nil, errors.New(why + ", so that its TTL has no date yet: use --by or --to")
		}
		if err := s.setTTL(patch, outcome, value.TTL.After+target.By); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, nothing("has no expiry to extend: give it one with --to")
	}
	return s.try(patch)
}

// extendTo gives a TTL: after finished where the kind finishes, else from creation.
func extendTo(s *Subject, to time.Duration) (*Plan, error) {
	e, patch := s.Explained, map[string]any{}
	if !e.Facts.Profile.Finishable() {
		fresh := policy.TTLLabel{After: to}
		if e.ByLabel.Err == nil && speaks(e.ByLabel) && fresh.Expiry(e.Facts.Created).Before(e.ByLabel.Expiry) {
			return nil, nothing("goes at %s, which is later: nothing to extend", e.ByLabel.Expiry.In(s.Now.Location()).Format(time.RFC3339))
		}
		key := e.LabelKey
		if key == "" {
			key = policy.LabelTTL
		}
		set(patch, label(key), fresh.String())
		return s.tryToCome(patch)
	}
	outcomes := s.outcomes()
	has := slices.ContainsFunc(outcomes, func(outcome policy.Outcome) bool { return e.Effective.TTL(outcome).Set })
	if !has && speaks(e.ByLabel) {
		return nil, nothing("goes at %s by its label, and a TTL could only have it go before: use --by or --until", e.ByLabel.Expiry.In(s.Now.Location()).Format(time.RFC3339))
	}
	var longer policy.Value
	changed := false
	for _, outcome := range outcomes {
		value, after := e.Effective.TTL(outcome), to
		switch {
		case !value.Set && has:
			continue // What has a TTL for the other outcome alone stays after this one.
		case !value.Set, value.Err != nil, !value.TTL.Never && value.TTL.After < to:
			changed = true
		case value.Default && !value.TTL.Never:
			longer, after = value, value.TTL.After // Once the object speaks for one outcome, the default speaks for none.
		default:
			longer = value
			continue
		}
		if err := s.setTTL(patch, outcome, after); err != nil {
			return nil, err
		}
	}
	if !changed {
		return nil, nothing("has a TTL of %s, which is no shorter: nothing to extend", longer.TTL)
	}
	plan, err := s.tryToCome(patch)
	if err == nil && speaks(e.ByLabel) && plan.After.Expiry.Equal(e.ByLabel.Expiry) {
		return nil, fmt.Errorf("goes at %s by its label, whatever its TTL is: use --by or --until", e.ByLabel.Expiry.In(s.Now.Location()).Format(time.RFC3339))
	}
	return plan, err
}

// outcomes are those that an object has had, or may have yet.
func (s *Subject) outcomes() []policy.Outcome {
	if s.facts().Finished {
		return []policy.Outcome{s.facts().Outcome}
	}
	return []policy.Outcome{policy.Succeeded, policy.Failed}
}

// tryToCome is try for what must not go at once: a TTL that is given to what stays can be over already.
func (s *Subject) tryToCome(patch map[string]any) (*Plan, error) {
	plan, err := s.try(patch)
	if err == nil && !plan.After.Expiry.IsZero() && !plan.After.Expiry.After(s.Now) {
		return nil, fmt.Errorf("would be overdue, since %s: give more, or use expire-now", plan.After.Expiry.In(s.Now.Location()).Format(time.RFC3339))
	}
	return plan, err
}

// setTTL writes a TTL after finished for an outcome where the one stands that decides, and raises the native field beside it, which
// the kind's own controller would act on first.
func (s *Subject) setTTL(patch map[string]any, outcome policy.Outcome, after time.Duration) error {
	e := s.Explained
	if e.Scope.Runtime != nil && e.Facts.ForeignManager() == "" && (e.Scope.Runtime.Missing || !e.Scope.Runtime.TTL.Empty()) {
		return fmt.Errorf("its runtime %q decides, whatever it says itself: change it there", e.Scope.Runtime.Name)
	}
	if after > policy.MaxDuration {
		return fmt.Errorf("%s is too long: at most %s", policy.FormatDuration(after), policy.FormatDuration(policy.MaxDuration))
	}
	own := e.Facts.TTLs()
	decides := own.For(outcome)
	native := own.NativeFor(outcome)
	if native != nil && (decides == native || native.Err != nil || native.TTL.After < after) {
		path, err := policy.ParseFieldPath(native.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", native.Path, err)
		}
		set(patch, path, int64(after/time.Second))
	}
	if decides != nil && decides == native {
		return nil
	}
	key := policy.AnnotationTTL
	switch decides {
	case nil:
	case own.Succeeded:
		key = policy.AnnotationTTLSucceeded
	case own.Failed:
		key = policy.AnnotationTTLFailed
	}
	succeeded, failed := e.Effective.Succeeded, e.Effective.Failed
	byOutcome := !e.Facts.Finished && (succeeded.Set != failed.Set || succeeded.TTL != failed.TTL)
	if decides == nil && (!own.Empty() || byOutcome) {
		// The object, or a default, speaks for the other outcome, and has to go on doing so.
		key = map[policy.Outcome]string{policy.Succeeded: policy.AnnotationTTLSucceeded, policy.Failed: policy.AnnotationTTLFailed}[outcome]
	}
	set(patch, annotation(key), policy.FormatDuration(after))
	return nil
}
