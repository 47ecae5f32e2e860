package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds limit what may be set. Nil means no bound. A bound that cannot be read keeps everything it would have bound (S6).
type Bounds struct {
	MinTTL, MaxTTL           *Setting
	MinDeadline, MaxDeadline *Setting
	// beside are bounds that cannot be read beside those above that can. Neither lifts the other.
	beside unreadable
}

// unreadable are bounds that cannot be read, one of each.
type unreadable struct {
	minTTL, maxTTL, minDeadline, maxDeadline *Setting
}

// Narrow returns the bounds that hold where both do: the inner may only narrow the outer.
func (b Bounds) Narrow(inner Bounds) Bounds {
	var out Bounds
	out.MinTTL, out.beside.minTTL = narrow(b.MinTTL, inner.MinTTL, later, b.beside.minTTL, inner.beside.minTTL)
	out.MaxTTL, out.beside.maxTTL = narrow(b.MaxTTL, inner.MaxTTL, sooner, b.beside.maxTTL, inner.beside.maxTTL)
	out.MinDeadline, out.beside.minDeadline = narrow(b.MinDeadline, inner.MinDeadline, later, b.beside.minDeadline, inner.beside.minDeadline)
	out.MaxDeadline, out.beside.maxDeadline = narrow(b.MaxDeadline, inner.MaxDeadline, sooner, b.beside.maxDeadline, inner.beside.maxDeadline)
	return out
}

// narrow is the bound that holds of two, one that can be read before one that cannot, and what cannot be read beside it.
func narrow(outer, inner *Setting, tighter func(a, b *Setting) bool, beside ...*Setting) (bound, unreadable *Setting) {
	switch {
	case outer == nil:
		bound = inner
	case inner == nil || inner.Err != nil && outer.Err != nil:
		bound = outer
	case outer.Err != nil:
		bound, beside = inner, append([]*Setting{outer}, beside...)
	case inner.Err != nil:
		bound, beside = outer, append([]*Setting{inner}, beside...)
	case tighter(inner, outer):
		bound = inner
	default:
		bound = outer
	}
	return bound, cmp.Or(beside...)
}

// Settings are the bounds that there are, those that cannot be read included.
func (b Bounds) Settings() []*Setting {
	return slices.DeleteFunc([]*Setting{
		b.MinTTL, b.beside.minTTL, b.MaxTTL, b.beside.maxTTL, b.MinDeadline, b.beside.minDeadline, b.MaxDeadline, b.beside.maxDeadline,
	}, func(bound *Setting) bool { return bound == nil })
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

func later(a, b *Setting) bool  { return a.TTL.After > b.TTL.After }
func sooner(a, b *Setting) bool { return a.TTL.After < b.TTL.After }

// CheckTTL says how a TTL lies outside the bounds, or returns nil. A bound that cannot be read counts only where those that can
// hold, and never hides that they do not.
func (b Bounds) CheckTTL(ttl TTL) error {
	return check(ttl, b.MinTTL, b.MaxTTL, b.beside.minTTL, b.beside.maxTTL)
}

// CheckDeadline says how a deadline lies outside the bounds, or returns nil. Never means that there is to be none.
func (b Bounds) CheckDeadline(deadline TTL) error {
	err := check(deadline, b.MinDeadline, b.MaxDeadline, b.beside.minDeadline, b.beside.maxDeadline)
	if deadline.Never && Violated(err) {
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

func check(ttl TTL, low, high, lowBeside, highBeside *Setting) error {
	if low != nil && low.Err == nil && !ttl.Never && ttl.After < low.TTL.After {
		return fmt.Errorf("%s is below %s: use %s or more", ttl, low.Bound(), low.TTL)
	}
	if high != nil && high.Err == nil && (ttl.Never || ttl.After > high.TTL.After) {
		return fmt.Errorf("%s is above %s: use %s or less", ttl, high.Bound(), high.TTL)
	}
	if ttl.Never {
		low, lowBeside = nil, nil // It is below no minimum, whatever that may say.
	}
	for _, bound := range []*Setting{low, lowBeside, high, highBeside} {
		if bound != nil && bound.Err != nil {
			return &UnreadableBoundError{Bound: bound}
		}
	}
	return nil
}

// Violated reports whether an error of a check says that a value lies outside of a bound, and not that the bound cannot be read.
func Violated(err error) bool {
	unreadable := (*UnreadableBoundError)(nil)
	return err != nil && !errors.As(err, &unreadable)
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

// Bounds that hold for what surrounds the object: those of policies are outer, the namespace's may only narrow them.
func (s *Scope) Bounds() Bounds {
	var bounds Bounds
	for _, policy := range s.Policies {
		bounds = bounds.Narrow(policy.Bounds)
	}
	if s.Namespace != nil {
		bounds = bounds.Narrow(s.Namespace.Bounds)
	}
	return bounds
}

// Outer are the bounds of policies that deny, whatever the namespace says and in whatever mode it is.
func (s *Scope) Outer() Bounds {
	var bounds Bounds
	for _, policy := range s.Policies {
		if !policy.WarnOnly {
			bounds = bounds.Narrow(policy.Bounds)
		}
	}
	return bounds
}

// Enforced are the bounds that refuse: those of policies that only warn are left out.
func (s *Scope) Enforced() Bounds {
	bounds := s.Outer()
	if s.Namespace != nil {
		bounds = bounds.Narrow(s.Namespace.Bounds)
	}
	return bounds
}

// BoundsFor are the bounds that a default of one object is moved into. A max-ttl under a minute does not bind a CronJob's
// Job, which has to stay that long.
func (s *Scope) BoundsFor(facts *Facts) Bounds { return s.Bounds().suiting(facts) }

// EnforcedFor are the bounds that an explicit value of one object must lie within, else it is refused, and kept by the
// controller where it slipped past.
func (s *Scope) EnforcedFor(facts *Facts) Bounds { return s.Enforced().suiting(facts) }

// OuterFor are those of them that no mode of the namespace softens.
func (s *Scope) OuterFor(facts *Facts) Bounds { return s.Outer().suiting(facts) }

func (b Bounds) suiting(facts *Facts) Bounds {
	bounds := b
	if high := bounds.MaxTTL; facts.isCronJobsJob() && high != nil && high.Err == nil && high.TTL.After < minCronJobTTL {
		raised := *high
		raised.TTL.After = minCronJobTTL
		bounds.MaxTTL = &raised
	}
	return bounds
}
