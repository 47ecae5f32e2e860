package policy

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// TTLLabel is the value of label curfew.dev/ttl: a duration from creation, or an instant.
type TTLLabel struct {
	// After creation; zero where the label names an instant.
	After time.Duration
	// At is the instant, in UTC; zero where the label counts from creation.
	At time.Time
}

// Layouts of the instants that the label may name. Labels allow no colons.
const (
	labelDate = time.DateOnly
	labelTime = "2006-01-02T150405Z"
)

// epoch: a date up to then is a slip, which must not shorten a lifetime (S6). No object is that
// old, and the epoch itself means that no date was set. It also keeps a date distinct from the zero
// time.
var epoch = time.Unix(0, 0)

// labelMargin is how far ahead a default date must lie: admission must not reject a default that it
// gave a moment ago.
const labelMargin = time.Minute

const labelFix = "use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)"

// ParseLabel reads the value of a TTL label, in the grammar of its key: [LabelTTL] or
// [LabelKyvernoTTL].
func ParseLabel(key, text string) (TTLLabel, error) {
	if key == LabelKyvernoTTL {
		return parseKyvernoLabel(text)
	}
	return ParseTTLLabel(text)
}

// ParseTTLLabel reads the value of label curfew.dev/ttl: a duration from creation as
// [ParseDuration] reads it, a date (2026-12-24, from midnight on) or an instant
// (2026-12-24T003000Z), both in UTC.
func ParseTTLLabel(text string) (TTLLabel, error) {
	if label, ok, err := parseDate(text); ok || err != nil {
		return label, err
	}
	after, err := ParseDuration(text)
	if text == "" || isDate(text) || errors.Is(err, errSyntax) && !readable(plain(text)) {
		return TTLLabel{}, fmt.Errorf("%q is neither a duration nor a date: %s", text, labelFix)
	}
	if err != nil {
		return TTLLabel{}, err
	}
	return TTLLabel{After: after}, nil
}

// parseDate reads a date or an instant; ok is false where the text is neither.
func parseDate(text string) (label TTLLabel, ok bool, err error) {
	if len(text) != len(labelDate) && len(text) != len(labelTime) {
		return TTLLabel{}, false, nil
	}
	for _, layout := range []string{labelDate, labelTime} {
		// time.Parse also takes fractions of seconds, which are not in the grammar.
		if at, err := time.Parse(layout, text); err == nil && at.Format(layout) == text {
			if !at.After(epoch) {
				return TTLLabel{}, false, fmt.Errorf("%q is not after 1970-01-01: use a later date", text)
			}
			return TTLLabel{At: at}, true, nil
		}
	}
	return TTLLabel{}, false, nil
}

// isDate reports whether a text is a date, as a label or in RFC 3339.
func isDate(text string) bool {
	if len(text) > maxDurationText {
		return false
	}
	for _, layout := range []string{labelDate, labelTime, time.RFC3339} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

// Expiry is the instant at which an object that was created then expires.
func (l TTLLabel) Expiry(created time.Time) time.Time {
	if !l.At.IsZero() {
		return l.At
	}
	return created.Add(l.After)
}

// String writes the label as [ParseLabel] reads it under either key.
func (l TTLLabel) String() string {
	if !l.At.IsZero() {
		if at := l.At.UTC(); at.Equal(at.Truncate(24 * time.Hour)) {
			return at.Format(labelDate)
		}
		return l.At.UTC().Format(labelTime)
	}
	return FormatDuration(l.After)
}

// CheckLabel says how the label of an object lies outside the bounds of a set, or returns nil. TTL
// bounds apply to the lifetime that it grants, a policy's latest date to the instant at which it
// expires.
func (s *Scope) CheckLabel(label TTLLabel, created time.Time, set BoundSet) error {
	life := label.After
	if !label.At.IsZero() {
		life = max(0, label.At.Sub(created).Truncate(time.Second))
	}
	unreadable := s.Bounds(set).CheckTTL(TTL{After: life})
	if Violated(unreadable) {
		return unreadable
	}
	for _, policy := range s.Policies {
		if policy.LatestUnreadable != nil && set.includes(policy) && unreadable == nil {
			unreadable = &UnreadableBoundError{Bound: policy.LatestUnreadable}
		}
		if latest := policy.LatestDate; set.includes(policy) && !latest.IsZero() && label.Expiry(created).After(latest) {
			return fmt.Errorf("%s is after latestDate %s of %s: use a date up to then",
				label, latest.UTC().Format(labelDate), Source{LevelPolicy, policy.Name}.Phrase())
		}
	}
	return unreadable
}

// DefaultLabel is the TTL label that admission gives to an object without one, and the setting of
// the policy that decided: the first that has one. The label is "" where none is given; the setting
// then has an error if one was intended. A default is clamped. One that would be expired at once is
// stale and not given (S6).
func DefaultLabel(facts *Facts, scope *Scope, now time.Time) (string, *Setting) {
	if _, ok := facts.Labels[LabelTTL]; ok || NoDefault(facts) != "" || scope.Mode() == ModeDryRun {
		return "", nil
	}
	// It would outrank what the author said in the alias.
	if _, ok := facts.Labels[LabelKyvernoTTL]; ok {
		return "", nil
	}
	// NoDefault lets the Pods of a Job through for default-pod-ttl, which is resolved live. A label
	// is written, so not there (S5).
	if facts.IsPod() && facts.Owner != nil {
		return "", nil
	}
	for _, policy := range scope.Policies {
		if policy.Label == nil {
			continue
		}
		said := *policy.Label
		label, err := ParseTTLLabel(said.Text)
		if said.Err == nil {
			said.Err = err
		}
		if said.Err == nil {
			label, said.Err = scope.fitLabel(label, now)
		}
		if said.Err != nil {
			return "", &said
		}
		return label.String(), &said
	}
	return "", nil
}

// DefaultedLabel is the TTL label that admission gave an object, or in dry-run would have given it;
// nil where none. A label leaves no stamp, so one that equals the default counts as the default.
func DefaultedLabel(facts *Facts, scope *Scope, now time.Time) *Default {
	have, labelled := facts.Labels[LabelTTL]
	dryRun := scope.Mode() == ModeDryRun
	if labelled == dryRun {
		return nil
	}
	without, enforced := *facts, scope.asEnforced()
	without.Labels = maps.Clone(facts.Labels)
	delete(without.Labels, LabelTTL)
	text, said := DefaultLabel(&without, enforced, now)
	if text == "" || labelled && text != have {
		return nil
	}
	return &Default{Field: LabelTTL, Value: text, Source: said.Source, DryRun: dryRun}
}

// fitLabel clamps a default. One that still lies outside the bounds, or expires within a minute,
// cannot be given: a date in a policy becomes stale by itself, and admission must not reject a
// default that it gave a moment ago.
func (s *Scope) fitLabel(label TTLLabel, now time.Time) (TTLLabel, error) {
	given, soon := label, now.Add(labelMargin)
	for _, policy := range s.Policies {
		if latest := policy.LatestDate; !latest.IsZero() && label.Expiry(soon).After(latest) {
			if latest.Before(soon) {
				return label, fmt.Errorf("latestDate %s of %s is over: raise it", latest.UTC().Format(labelDate), Source{LevelPolicy, policy.Name}.Phrase())
			}
			label = TTLLabel{At: latest}
		}
	}
	label = s.clampLabel(label, now)
	switch {
	case label.At.IsZero() && label.After == 0:
		return label, fmt.Errorf("%s is over at once: use a longer duration", label)
	case !label.At.IsZero() && label.At.Before(soon):
		return label, fmt.Errorf("%s is over: use a later date", given)
	}
	if err := s.CheckLabel(label, now, EnforcedBounds); err != nil {
		return label, err
	}
	return label, s.CheckLabel(label, soon, EnforcedBounds)
}

func (s *Scope) clampLabel(label TTLLabel, now time.Time) TTLLabel {
	life := label.Expiry(now).Sub(now)
	clamped := s.Bounds(AllBounds).TTL.Clamp(TTL{After: life}).After
	if clamped == life {
		return label
	}
	return TTLLabel{After: clamped}
}
