package policy

import (
	"cmp"
	"errors"
)

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

// undecided reports whether the evaluation of a setting was stopped.
func (s *Setting) undecided() bool { return errors.As(s.Err, new(*UndecidedError)) }

// unreadable is the first of some bounds that cannot be read: one that denies, because its
// evaluation was stopped, before any other.
func unreadable(bounds ...*Setting) *Setting {
	var first *Setting
	for _, bound := range bounds {
		switch {
		case bound == nil || bound.Err == nil:
		case bound.undecided():
			return bound
		default:
			first = cmp.Or(first, bound)
		}
	}
	return first
}
