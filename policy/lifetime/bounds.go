package lifetime

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds limit the values that authors may set. Label applies to the lifetime that a TTL label
// grants.
type Bounds struct{ TTL, Label, Deadline Range }

// Range is a minimum and a maximum; nil means no bound. A bound that cannot be read keeps every
// object that it might have bound (S6).
type Range struct {
	Min, Max *Setting
	// Unreadable bounds beside the readable ones above. Neither lifts the other.
	unreadableMin, unreadableMax *Setting
}

// Narrow returns the bounds that apply where both do: the inner may only narrow the outer.
func (b Bounds) Narrow(inner Bounds) Bounds {
	return Bounds{b.TTL.narrow(inner.TTL), b.Label.narrow(inner.Label), b.Deadline.narrow(inner.Deadline)}
}

func (r Range) narrow(inner Range) Range {
	var out Range
	out.Min, out.unreadableMin = tighter(r.Min, inner.Min, longer, r.unreadableMin, inner.unreadableMin)
	out.Max, out.unreadableMax = tighter(r.Max, inner.Max, shorter, r.unreadableMax, inner.unreadableMax)
	return out
}

func longer(a, b *Setting) bool { return a.TTL.After > b.TTL.After }

func shorter(a, b *Setting) bool { return a.TTL.After < b.TTL.After }

// tighter returns the bound that applies out of two, preferring a readable one, and the unreadable
// bound beside it.
func tighter(outer, inner *Setting, wins func(a, b *Setting) bool, beside ...*Setting) (bound, beyond *Setting) {
	switch {
	case outer == nil:
		bound = inner
	case inner == nil:
		bound = outer
	case inner.Err != nil && outer.Err != nil:
		bound = unreadable(outer, inner)
	case outer.Err != nil:
		bound, beside = inner, append([]*Setting{outer}, beside...)
	case inner.Err != nil:
		bound, beside = outer, append([]*Setting{inner}, beside...)
	case wins(inner, outer):
		bound = inner
	default:
		bound = outer
	}
	return bound, unreadable(beside...)
}

// Settings returns the bounds that are set, including unreadable ones. A namespace has one bound
// for both TTLs and labels.
func (b Bounds) Settings() []*Setting {
	var out []*Setting
	for _, setting := range slices.Concat(b.TTL.settings(), b.Label.settings(), b.Deadline.settings()) {
		if !slices.Contains(out, setting) {
			out = append(out, setting)
		}
	}
	return out
}

func (r Range) settings() []*Setting { return Present(r.Min, r.unreadableMin, r.Max, r.unreadableMax) }

// Present leaves out settings that are nil.
func Present(settings ...*Setting) []*Setting {
	return slices.DeleteFunc(settings, func(setting *Setting) bool { return setting == nil })
}

// Contradiction is a minimum above a maximum, so that no value lies between them.
type Contradiction struct {
	Low, High *Setting
}

// At returns the message for the field of one of the two bounds. It names the other.
func (c *Contradiction) At(setting *Setting) string {
	if setting == c.High {
		return fmt.Sprintf("%s is below %s: raise it, or lower the other", c.High.TTL, c.Low.beside(setting))
	}
	return fmt.Sprintf("%s is above %s: lower it, or raise the other", c.Low.TTL, c.High.beside(setting))
}

// Contradictions returns each minimum that is above its maximum. An unreadable bound contradicts
// nothing.
func (b Bounds) Contradictions() []*Contradiction {
	var out []*Contradiction
	for i, r := range []Range{b.TTL, b.Label, b.Deadline} {
		if i == 1 && r.Min == b.TTL.Min && r.Max == b.TTL.Max {
			continue // The same bounds of one namespace.
		}
		if r.Min.Readable() && r.Max.Readable() && longer(r.Min, r.Max) {
			out = append(out, &Contradiction{r.Min, r.Max})
		}
	}
	return out
}

// CheckTTL reports how a TTL lies outside the bounds, or returns nil. An unreadable bound is an
// error only if the TTL keeps the readable ones, so that it never hides a violation.
func (b Bounds) CheckTTL(ttl TTL) error { return b.TTL.check(ttl) }

// CheckLabel does the same for the lifetime that a TTL label grants an object.
func (b Bounds) CheckLabel(label TTLLabel, created time.Time) error {
	if label.At.IsZero() {
		return b.Label.check(TTL{After: label.After})
	}
	life := max(0, label.At.Sub(created).Truncate(time.Second))
	err := b.Label.check(TTL{After: life})
	switch most := b.Label.Max; {
	case !Violated(err):
		return err
	case most.Readable() && life > most.TTL.After:
		return fmt.Errorf("%s is above %s: use %s or earlier", label, most.Bound(), TTLLabel{At: created.Add(most.TTL.After)})
	default:
		return fmt.Errorf("%s is below %s: use a later date", label, b.Label.Min.Bound())
	}
}

// CheckDeadline does the same for a deadline. Never means no deadline.
func (b Bounds) CheckDeadline(deadline TTL) error {
	err := b.Deadline.check(deadline)
	if deadline.Never && Violated(err) {
		return fmt.Errorf("no deadline is above %s: use %s or less", b.Deadline.Max.Bound(), b.Deadline.Max.TTL)
	}
	return err
}

func (r Range) check(value TTL) error {
	if r.Min.Readable() && !value.Never && value.After < r.Min.TTL.After {
		return fmt.Errorf("%s is below %s: use %s or more", value, r.Min.Bound(), r.Min.TTL)
	}
	if r.Max.Readable() && (value.Never || value.After > r.Max.TTL.After) {
		return fmt.Errorf("%s is above %s: use %s or less", value, r.Max.Bound(), r.Max.TTL)
	}
	if value.Never {
		r.Min, r.unreadableMin = nil, nil // Never is below no minimum.
	}
	if bound := unreadable(r.Min, r.unreadableMin, r.Max, r.unreadableMax); bound != nil {
		return &UnreadableBoundError{Bound: bound}
	}
	return nil
}

// Clamp moves a default into the range. If the two bounds contradict each other, the minimum wins:
// longer is safer.
func (r Range) Clamp(value TTL) TTL {
	if r.Max.Readable() && (value.Never || value.After > r.Max.TTL.After) {
		value = TTL{After: r.Max.TTL.After}
	}
	if r.Min.Readable() && !value.Never {
		value.After = max(value.After, r.Min.TTL.After)
	}
	return value
}

// AtLeast raises a value to the minimum, and returns an error if there is an unreadable minimum.
func (r Range) AtLeast(value TTL) (TTL, error) {
	var err error
	for _, bound := range [...]*Setting{r.Min, r.unreadableMin} {
		switch {
		case bound == nil:
		case bound.Err != nil:
			err = &UnreadableBoundError{Bound: bound}
		default:
			value.After = max(value.After, bound.TTL.After)
		}
	}
	return value, err
}

// Violated reports whether an error of a check says that a value lies outside a bound, and not that
// the bound cannot be read.
func Violated(err error) bool {
	unreadable := (*UnreadableBoundError)(nil)
	return err != nil && !errors.As(err, &unreadable)
}

// UnreadableBoundError says that a value cannot be compared with a bound. The object is kept (S6),
// but not rejected: the fault is not in its value.
type UnreadableBoundError struct {
	Bound *Setting
}

// Error names the bound, the object that sets it, and the fault.
func (e *UnreadableBoundError) Error() string {
	return fmt.Sprintf("%s%s cannot be read: %v", FieldName(e.Bound.Path), e.Bound.of(), e.Bound.Err)
}

// Bound is a bound as messages name it: curfew.dev/max-ttl 1d of namespace "ci".
func (s *Setting) Bound() string { return FieldName(s.Path) + " " + s.TTL.String() + s.of() }

// beside leaves out the source if the other setting has the same one.
func (s *Setting) beside(other *Setting) string {
	if s.Source == other.Source {
		return FieldName(s.Path) + " " + s.TTL.String()
	}
	return s.Bound()
}

func (s *Setting) of() string {
	if s.Source.Name == "" {
		return ""
	}
	return " of " + s.Source.Phrase()
}

func (s *Setting) Readable() bool { return s != nil && s.Err == nil }

// Ends reports whether the setting ends a life: it is set, readable and not never.
func (s *Setting) Ends() bool { return s.Readable() && !s.TTL.Never }

// UndecidedError is an evaluation that was stopped before it had a result, for what it cost or how
// long it took. The content of the object is the cause, so that a value which a bound might forbid
// is denied: content buys no way around a bound (S9).
type UndecidedError struct {
	Err error
	// Retry means that there was no time. The same object may be evaluated in time later.
	Retry bool
}

// Error implements error. It names the fix.
func (e *UndecidedError) Error() string {
	if e.Retry {
		return e.Err.Error() + ": try again in a second"
	}
	return e.Err.Error() + ": use a smaller object, or cheaper expressions"
}

// Unwrap returns the cause.
func (e *UndecidedError) Unwrap() error { return e.Err }

// Undecided returns the stopped evaluation that keeps a value from being compared with a bound; nil
// for any other error.
func Undecided(err error) *UndecidedError {
	unreadable, undecided := (*UnreadableBoundError)(nil), (*UndecidedError)(nil)
	if errors.As(err, &unreadable) && errors.As(unreadable.Bound.Err, &undecided) {
		return undecided
	}
	return nil
}

// Undecided reports whether the evaluation of a setting was stopped.
func (s *Setting) Undecided() bool { return errors.As(s.Err, new(*UndecidedError)) }

// unreadable is the first of some bounds that cannot be read: one that denies, because its
// evaluation was stopped, before any other.
func unreadable(bounds ...*Setting) *Setting {
	var first *Setting
	for _, bound := range bounds {
		switch {
		case bound == nil || bound.Err == nil:
		case bound.Undecided():
			return bound
		default:
			first = cmp.Or(first, bound)
		}
	}
	return first
}
