package policy

import (
	"fmt"
	"maps"
	"time"
)

// TTLLabel is what label curfew.dev/ttl says: a time from creation, or an instant.
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

// epoch: no object is older, so that an earlier date can only be a slip, which shortens no life (S6). So is the epoch itself, which is what stands
// where nobody has set a date. It also keeps a date apart from the zero time.
var epoch = time.Unix(0, 0)

// minLabelTTL: what is meant to go in less than a minute would go before its author saw it.
const minLabelTTL = time.Minute

// ParseTTLLabel reads the value of label curfew.dev/ttl: <n>m, <n>h, <n>d and sums of them such as 1d12h, at least 1m; or a
// date (2026-12-24, from midnight on), or an instant (2026-12-24T003000Z), both in UTC.
func ParseTTLLabel(text string) (TTLLabel, error) {
	for _, layout := range []string{labelDate, labelTime} {
		// time.Parse also takes fractions of seconds, which are not in the grammar.
		if at, err := time.Parse(layout, text); err == nil && at.Format(layout) == text {
			if !at.After(epoch) {
				return TTLLabel{}, fmt.Errorf("%q is not after 1970-01-01: use a later date", text)
			}
			return TTLLabel{At: at}, nil
		}
	}
	after, ok := labelSum(text)
	switch {
	case !ok:
		return TTLLabel{}, fmt.Errorf("%q is neither a time from creation in m, h, d (90m, 1d12h) nor a date: use one of them (2026-12-24, 2026-12-24T003000Z)", text)
	case after > maxLabelTTL:
		return TTLLabel{}, fmt.Errorf("%q is too long: use %s or less, or leave the label out", text, TTLLabel{After: maxLabelTTL})
	case after < minLabelTTL:
		return TTLLabel{}, fmt.Errorf("%q is below 1m: use 1m or more", text)
	}
	return TTLLabel{After: after}, nil
}

// maxLabelTTL is the bound of all durations that Curfew reads: what fits into seconds of an int32.
const maxLabelTTL = (1<<31 - 1) * time.Second

// labelSum adds up numbers with their units. What is too long to be added stays just above the maximum.
func labelSum(text string) (sum time.Duration, ok bool) {
	number, digits := int64(0), 0
	for _, r := range text {
		if r >= '0' && r <= '9' {
			digits++
			if number = number*10 + int64(r-'0'); digits > 10 {
				return 0, false
			}
			continue
		}
		unit, known := map[rune]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[r]
		if !known || digits == 0 {
			return 0, false
		}
		if number > int64(maxLabelTTL/unit) {
			sum = maxLabelTTL + time.Second
		}
		if sum <= maxLabelTTL {
			sum += time.Duration(number) * unit
		}
		number, digits = 0, 0
	}
	return sum, digits == 0 && text != ""
}

// Expiry is the instant at which an object goes that was created then.
func (l TTLLabel) Expiry(created time.Time) time.Time {
	if !l.At.IsZero() {
		return l.At
	}
	return created.Add(l.After)
}

// String writes the label as [ParseTTLLabel] reads it.
func (l TTLLabel) String() string {
	if !l.At.IsZero() {
		if at := l.At.UTC(); at.Equal(at.Truncate(24 * time.Hour)) {
			return at.Format(labelDate)
		}
		return l.At.UTC().Format(labelTime)
	}
	out := ""
	rest := l.After
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if count := rest / unit.size; count > 0 {
			out += fmt.Sprintf("%d%s", count, unit.name)
			rest %= unit.size
		}
	}
	return out
}

// CheckLabel says how a label of an object that was created then lies outside of the enforced bounds, or returns nil: TTL
// bounds hold for the life that it grants, a policy's latest date for the instant that it comes to.
func (s *Scope) CheckLabel(label TTLLabel, created time.Time) error {
	return s.checkLabel(label, created, s.Enforced(), func(policy *PlatformPolicy) bool { return !policy.WarnOnly })
}

// CheckLabelOfPolicies is the same for the bounds of policies alone, which no mode of the namespace softens.
func (s *Scope) CheckLabelOfPolicies(label TTLLabel, created time.Time) error {
	return s.checkLabel(label, created, s.Outer(), func(policy *PlatformPolicy) bool { return !policy.WarnOnly })
}

// CheckLabelOfAll is the same for all bounds, those of policies that only warn included.
func (s *Scope) CheckLabelOfAll(label TTLLabel, created time.Time) error {
	return s.checkLabel(label, created, s.Bounds(), func(*PlatformPolicy) bool { return true })
}

func (s *Scope) checkLabel(label TTLLabel, created time.Time, bounds Bounds, counts func(*PlatformPolicy) bool) error {
	life := label.After
	if !label.At.IsZero() {
		life = max(0, label.At.Sub(created).Truncate(time.Second))
	}
	unreadable := bounds.CheckTTL(TTL{After: life})
	if Violated(unreadable) {
		return unreadable
	}
	for _, policy := range s.Policies {
		if policy.LatestUnreadable != nil && counts(policy) && unreadable == nil {
			unreadable = &UnreadableBoundError{Bound: policy.LatestUnreadable}
		}
		if latest := policy.LatestDate; counts(policy) && !latest.IsZero() && label.Expiry(created).After(latest) {
			return fmt.Errorf("%s is after latestDate %s of %s: use a date up to then",
				label, latest.UTC().Format(labelDate), Source{LevelPolicy, policy.Name}.Phrase())
		}
	}
	return unreadable
}

// DefaultLabel is the TTL label that admission gives to an object that has none, nor its alias, and what says so: the first policy with one
// decides. It is "" where none is given; the setting then has an error where one was meant. A default is moved inside the
// bounds. One that would be over at once is stale and not given (S6).
func DefaultLabel(facts *Facts, scope *Scope, now time.Time) (string, *Setting) {
	if _, ok := facts.Labels[LabelTTL]; ok || NoDefault(facts) != "" || scope.Mode() == ModeDryRun {
		return "", nil
	}
	// It would outrank what the author said in the alias.
	if _, ok := facts.Labels[LabelKyvernoTTL]; ok {
		return "", nil
	}
	// NoDefault lets the Pods of a Job through for default-pod-ttl, which is resolved live. A label is written, so not there (S5).
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

// DefaultedLabel reads off an object which TTL label admission gave it, nil where none; in dry-run, which it would have given.
// A label leaves no stamp: one that says what the default says is taken for it.
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

// fitLabel moves a default into the bounds. What then lies outside of them, or is over before anyone sees the object, cannot be
// given: a date in a policy goes stale by itself. It has to hold for another minute, so that nobody is refused for a default that
// was given a moment ago.
func (s *Scope) fitLabel(label TTLLabel, now time.Time) (TTLLabel, error) {
	given, soon := label, now.Add(minLabelTTL)
	for _, policy := range s.Policies {
		if latest := policy.LatestDate; !latest.IsZero() && label.Expiry(soon).After(latest) {
			if latest.Before(soon) {
				return label, fmt.Errorf("latestDate %s of %s is over: raise it", latest.UTC().Format(labelDate), Source{LevelPolicy, policy.Name}.Phrase())
			}
			label = TTLLabel{At: latest}
		}
	}
	label = s.clampLabel(label, now)
	if label.Expiry(now).Before(soon) {
		return label, fmt.Errorf("%s is over: use a later date", given)
	}
	if err := s.CheckLabel(label, now); err != nil {
		return label, err
	}
	return label, s.CheckLabel(label, soon)
}

func (s *Scope) clampLabel(label TTLLabel, now time.Time) TTLLabel {
	bounds := s.Bounds()
	life := label.Expiry(now).Sub(now)
	clamped := bounds.ClampTTL(TTL{After: life}).After
	switch {
	case clamped == life:
		return label
	case clamped < life:
		return TTLLabel{After: max(minLabelTTL, clamped.Truncate(time.Minute))}
	default:
		return TTLLabel{After: (clamped + time.Minute - time.Second).Truncate(time.Minute)}
	}
}
