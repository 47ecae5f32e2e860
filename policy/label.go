package policy

import (
	"errors"
	"fmt"
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

// CheckLabel says how the label of an object lies outside the bounds of a set, or returns nil.
// Bounds apply to the lifetime that it grants, a policy's latest date to the instant at which it
// expires.
func (s *Scope) CheckLabel(label TTLLabel, created time.Time, set BoundSet) error {
	life := label.After
	if !label.At.IsZero() {
		life = max(0, label.At.Sub(created).Truncate(time.Second))
	}
	unreadable := s.Bounds(set).CheckLabel(TTL{After: life})
	if Violated(unreadable) {
		return unreadable
	}
	for _, policy := range s.Policies {
		if late := policy.LatestUnreadable; late != nil && set.includes(policy) && (unreadable == nil || late.undecided() && Undecided(unreadable) == nil) {
			unreadable = &UnreadableBoundError{Bound: late} // One that denies before any other.
		}
		if latest := policy.LatestDate; set.includes(policy) && !latest.IsZero() && label.Expiry(created).After(latest) {
			return fmt.Errorf("%s is after latestDate %s of %s: use a date up to then",
				label, latest.UTC().Format(labelDate), Source{Level: LevelPolicy, Name: policy.Name}.Phrase())
		}
	}
	return unreadable
}
