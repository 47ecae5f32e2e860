package policy

import "errors"

// UndecidedError is an evaluation that was stopped before it had a result, for what it cost or how
// long it took. The content of the object is the cause, so that a value which a bound might forbid
// is denied: content buys no way around a bound (S9).
type UndecidedError struct {
	Err error
	// Retry means that there was no time. The same object may be evaluated in time later.
	Retry bool
}

// Error implements error.
func (e *UndecidedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UndecidedError) Unwrap() error { return e.Err }

// Undecided is the stopped evaluation because of which a value cannot be compared with a bound; nil
// where that is not the reason.
func Undecided(err error) *UndecidedError {
	unreadable, undecided := (*UnreadableBoundError)(nil), (*UndecidedError)(nil)
	if errors.As(err, &unreadable) && errors.As(unreadable.Bound.Err, &undecided) {
		return undecided
	}
	return nil
}
