package pause

import (
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/quote"
)

// View is the set of pauses in effect at a moment. It never changes.
type View struct {
	// Unread says why the pauses cannot be read: then everything is held. "" where they are known.
	Unread string
	// Version differs where something else is held.
	Version uint64

	held []judging.Pause
}

func unread(err error) View { return View{Unread: quote.ShortenTo(err.Error(), 300)} }

// Holds reports whether the actions of a trigger on an object are held. The scope is
// [judging.PauseScope] of the object.
func (v *View) Holds(trigger policy.Trigger, scope string) bool {
	return v.some(func(p *judging.Pause) bool { return p.Holds(trigger, scope) })
}

// HoldsAll reports whether all actions of a trigger are held, in any namespace.
func (v *View) HoldsAll(trigger policy.Trigger) bool {
	return v.some(func(p *judging.Pause) bool { return p.HoldsAll(trigger) })
}

// any reports whether anything at all is held.
func (v *View) any() bool { return v.some(func(*judging.Pause) bool { return true }) }

// all reports whether everything is held.
func (v *View) all() bool {
	return v.some(func(p *judging.Pause) bool { return len(p.Triggers) == 0 && len(p.Namespaces) == 0 })
}

func (v *View) some(which func(*judging.Pause) bool) bool {
	if v.Unread != "" {
		return true
	}
	return slices.ContainsFunc(v.held, func(pause judging.Pause) bool { return which(&pause) })
}

// Count is the number of pauses in effect.
func (v *View) Count() int { return len(v.held) }

// Messages describe the pauses in effect.
func (v *View) Messages() (out []string) {
	for i := range v.held {
		out = append(out, v.held[i].Message())
	}
	return out
}
