package policy

import (
	"errors"
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

// Contradiction is a lower bound above an upper one, so that no value at all lies between them.
type Contradiction struct {
	Low, High *Setting
}

// At is what there is to say at one of the two, which names the other: the upper one's field says it of the lower.
func (c *Contradiction) At(one *Setting) string {
	if one == c.High {
		return fmt.Sprintf("%s is below %s: raise it, or lower the other", c.High.TTL, c.Low.beside(one))
	}
	return fmt.Sprintf("%s is above %s: lower it, or raise the other", c.Low.TTL, c.High.beside(one))
}

// Contradictions are those of the bounds, of TTLs and of deadlines. One that cannot be read contradicts nothing.
func (b Bounds) Contradictions() []*Contradiction {
	var out []*Contradiction
	for _, pair := range []*Contradiction{{b.MinTTL, b.MaxTTL}, {b.MinDeadline, b.MaxDeadline}} {
		low, high := pair.Low, pair.High
		if low != nil && high != nil && low.Err == nil && high.Err == nil && low.TTL.After > high.TTL.After {
			out = append(out, pair)
		}
	}
	return out
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

// CheckDeadline says how a deadline lies outside the bounds, or returns nil. Never means that there is to be none.
func (b Bounds) CheckDeadline(deadline TTL) error {
	err := check(deadline, b.MinDeadline, b.MaxDeadline)
	if unreadable := (*UnreadableBoundError)(nil); err != nil && deadline.Never && !errors.As(err, &unreadable) {
		return fmt.Errorf("no deadline is above %s: use %s or less", b.MaxDeadline.Bound(), b.MaxDeadline.TTL)
	}
	return err
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
			return &UnreadableBoundError{Bound: bound}
		}
	}
	if low != nil && !ttl.Never && ttl.After < low.TTL.After {
		return fmt.Errorf("%s is below %s: use %s or more", ttl, low.Bound(), low.TTL)
	}
	if high != nil && (ttl.Never || ttl.After > high.TTL.After) {
		return fmt.Errorf("%s is above %s: use %s or less", ttl, high.Bound(), high.TTL)
	}
	return nil
}

// UnreadableBoundError says that a value cannot be compared with a bound. What the bound would have bounded is kept (S6),
// and nobody is refused for it: the fault is not in the value.
type UnreadableBoundError struct {
	Bound *Setting
}

// Error names the bound, where it stands and what is wrong with it.
func (e *UnreadableBoundError) Error() string {
	return fmt.Sprintf("%s cannot be read: %v", e.Bound.named(), e.Bound.Err)
}

// Bound is a bound as messages name it: curfew.dev/max-ttl 1d of namespace "ci".
func (s *Setting) Bound() string { return fieldName(s.Path) + " " + s.TTL.String() + s.of() }

// beside leaves out the source where another setting has the same.
func (s *Setting) beside(other *Setting) string {
	if s.Source == other.Source {
		return fieldName(s.Path) + " " + s.TTL.String()
	}
	return s.Bound()
}

func (s *Setting) named() string { return fieldName(s.Path) + s.of() }

func (s *Setting) of() string {
	if s.Source == (Source{}) || s.Source.Name == "" {
		return ""
	}
	return " of " + s.Source.Phrase()
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
