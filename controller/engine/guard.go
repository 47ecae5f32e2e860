package engine

import (
	"fmt"
	"time"

	"curfew.dev/curfew/controller/servertime"
)

// reading is one reading of the clock. A decision takes one and passes it on; two readings in one
// decision are how waits become negative.
type reading struct {
	at   time.Time     // as the clock gave it
	wall int64         // unix nanoseconds
	mono time.Duration // does not jump
}

func (e *Engine) read() reading {
	at := e.opts.Clock.Now()
	return reading{at: at, wall: at.UnixNano(), mono: e.opts.monotonic(at)}
}

const (
	// pingHeld is how old the last Date header may be while deletions wait for a new one.
	pingHeld = time.Second
)

// guard decides by which instant to delete, and whether the time is known well enough. The instant
// is never later than the API server's own time, as far as Date headers prove that (S1).
type guard struct {
	skew    *servertime.Skew // nil: not checked
	maxSkew time.Duration

	started bool
	offset  time.Duration // wall minus mono at the last reading
	jumps   int           // number of jumps noticed
	jumped  time.Duration // the jump that is being waited out, 0: none
	since   time.Duration // mono at which the jump was noticed
	good    int64         // the last instant at which deletions were allowed,
	goodAt  time.Duration // and its mono; 0, 0: none yet
	held    string        // reason of the current hold, "": none
	message string
}

// Reasons of holds and breakers.
const (
	ReasonClockJump    = "ClockJump"
	ReasonClockSkew    = "ClockSkew"
	ReasonNoServerTime = "NoServerTime"
	ReasonUnreachable  = "Unreachable"
	ReasonServerErrors = "ServerErrors"
	ReasonRefused      = "Refused"
	ReasonNotJudged    = "NotJudged"
)

// now returns the instant to decide by in unix nanoseconds, and whether deletions may go on. The
// instant is the wall clock minus the amount by which it is proven to be ahead of the API server.
func (g *guard) now(r reading) (int64, bool) {
	now, ok := g.decide(r)
	if ok {
		g.good, g.goodAt = now, r.mono
	}
	return now, ok
}

// best is the most probable time. It serves to count overdue objects while deletions are held. It
// is the API server's time or, if that is unknown, the last good instant plus the monotonic time
// since.
func (g *guard) best(r reading) int64 {
	if g.skew != nil {
		if est := g.skew.Estimate(r.wall); est.Known {
			return r.wall - int64(est.Proven())
		}
	}
	if g.good != 0 {
		return g.good + int64(r.mono-g.goodAt)
	}
	return r.wall
}

func (g *guard) decide(r reading) (int64, bool) {
	offset := time.Duration(r.wall) - r.mono
	if g.started {
		if d := offset - g.offset; d > servertime.JumpBound || d < -servertime.JumpBound {
			g.jumped, g.since = d, r.mono
			g.jumps++
			if g.skew != nil {
				g.skew.Invalidate()
			}
		}
	}
	g.started, g.offset = true, offset

	if g.skew == nil {
		// Nothing to check against: wait for one more reading, a second later, that agrees with
		// this one.
		if g.jumped != 0 && r.mono-g.since >= time.Second {
			g.jumped = 0
		}
		g.hold(g.jumped != 0, ReasonClockJump, fmt.Sprintf("the clock jumped by %s", g.jumped))
		return r.wall, g.held == ""
	}
	est := g.skew.Estimate(r.wall)
	switch {
	case !est.Known && g.jumped != 0:
		g.hold(true, ReasonClockJump, fmt.Sprintf("the clock jumped by %s: waiting for the API server's time", g.jumped))
		return r.wall, false
	case !est.Known:
		g.hold(true, ReasonNoServerTime, "no answer of the API server has told its time yet")
		return r.wall, false
	}
	g.jumped = 0
	proven := est.Proven()
	g.hold(proven > g.maxSkew || proven < -g.maxSkew, ReasonClockSkew,
		fmt.Sprintf("the clock is off the API server's by %s, more than %s: set the clock of this host or of the API server's", proven, g.maxSkew))
	return r.wall - int64(max(0, proven)), g.held == ""
}

func (g *guard) hold(on bool, reason, message string) {
	if on {
		g.held, g.message = reason, message
		return
	}
	g.held, g.message = "", ""
}
