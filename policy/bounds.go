package policy

import (
	"fmt"
	"time"
)

// Bounds limit what may be set. Nil means no bound. A bound that cannot be read keeps everything it would have bound (S6).
type Bounds struct {
	MinTTL, MaxTTL           *Setting
	MinDeadline, MaxDeadline *Setting
}

// Narrow returns the bounds that hold where both do: the inner may only narrow the outer.
func (b Bounds) Narrow(inner Bounds) Bounds {
	return Bounds{
		MinTTL:      later(b.MinTTL, inner.MinTTL),
		MaxTTL:      sooner(b.MaxTTL, inner.MaxTTL),
		MinDeadline: later(b.MinDeadline, inner.MinDeadline),
		MaxDeadline: sooner(b.MaxDeadline, inner.MaxDeadline),
	}
}

// Empty says why no value at all lies within the bounds, or returns nil.
func (b Bounds) Empty() error {
	for _, pair := range [][2]*Setting{{b.MinTTL, b.MaxTTL}, {b.MinDeadline, b.MaxDeadline}} {
		low, high := pair[0], pair[1]
		if low != nil && high != nil && low.Err == nil && high.Err == nil && low.TTL.After > high.TTL.After {
			return fmt.Errorf("%s %s is above %s %s: no value fits both; raise one or lower the other",
				low.Path, low.TTL, high.Path, high.TTL)
		}
	}
	return nil
}

func later(a, b *Setting) *Setting {
	if a == nil || (b != nil && a.Err == nil && (b.Err != nil || b.TTL.After > a.TTL.After)) {
		return b
	}
	return a
}

func sooner(a, b *Setting) *Setting {
	if a == nil || (b != nil && a.Err == nil && (b.Err != nil || b.TTL.After < a.TTL.After)) {
		return b
	}
	return a
}

// CheckTTL says how a TTL lies outside the bounds, or returns nil.
func (b Bounds) CheckTTL(ttl TTL) error { return check(ttl, b.MinTTL, b.MaxTTL) }

// CheckDeadline says how a deadline lies outside the bounds, or returns nil.
func (b Bounds) CheckDeadline(deadline time.Duration) error {
	return check(TTL{After: deadline}, b.MinDeadline, b.MaxDeadline)
}

// ClampTTL moves a default into the bounds.
func (b Bounds) ClampTTL(ttl TTL) TTL { return clamp(ttl, b.MinTTL, b.MaxTTL) }

// ClampDeadline moves a default deadline into the bounds.
func (b Bounds) ClampDeadline(deadline time.Duration) time.Duration {
	return clamp(TTL{After: deadline}, b.MinDeadline, b.MaxDeadline).After
}

func check(ttl TTL, low, high *Setting) error {
	for _, bound := range []*Setting{low, high} {
		if bound != nil && bound.Err != nil {
			return fmt.Errorf("the bound %s cannot be read: %w", bound.Path, bound.Err)
		}
	}
	if low != nil && !ttl.Never && ttl.After < low.TTL.After {
		return fmt.Errorf("%s is below %s %s: use %s or more", ttl, low.Path, low.Text, low.TTL)
	}
	if high != nil && (ttl.Never || ttl.After > high.TTL.After) {
		return fmt.Errorf("%s is above %s %s: use %s or less", ttl, high.Path, high.Text, high.TTL)
	}
	return nil
}

func clamp(ttl TTL, low, high *Setting) TTL {
	if high != nil && high.Err == nil && (ttl.Never || ttl.After > high.TTL.After) {
		ttl = TTL{After: high.TTL.After}
	}
	// The lower bound has the last word: where the two contradict each other, longer is safer.
	if low != nil && low.Err == nil && !ttl.Never && ttl.After < low.TTL.After {
		ttl = TTL{After: low.TTL.After}
	}
	return ttl
}
