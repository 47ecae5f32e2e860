package expire

import (
	"context"
	"fmt"
	"time"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

const (
	// pingHeld is how old the last Date header may be while deletions wait for a new one.
	pingHeld = time.Second
)

// guard decides by which instant to delete, and whether the time is known well enough. The instant
// is never later than the API server's own time, as far as Date headers prove that (S1).
type guard struct {
	*entries
	skew *deletion.Skew // nil: not checked

	started bool
	offset  time.Duration // wall minus mono at the last reading
	jumps   int           // number of jumps noticed
	jumped  time.Duration // the jump that is being waited out, 0: none
	since   time.Duration // mono at which the jump was noticed
	good    int64         // the last instant at which deletions were allowed,
	goodAt  time.Duration // and its mono; 0, 0: none yet
	ping    pinger
	held    string // reason of the current hold, "": none
	message string
}

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
		if d := offset - g.offset; d > deletion.JumpBound || d < -deletion.JumpBound {
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
		g.hold(true, ReasonNoServerTime, "the API server's time is not known yet")
		return r.wall, false
	}
	g.jumped = 0
	proven := est.Proven()
	g.hold(proven > maxSkew || proven < -maxSkew, ReasonClockSkew,
		fmt.Sprintf("the clock is off the API server's by %s, more than %s: set the clock of this host or of the API server's",
			proven, maxSkew))
	return r.wall - int64(max(0, proven)), g.held == ""
}

func (g *guard) hold(on bool, reason, message string) {
	if on {
		g.held, g.message = reason, message
		return
	}
	g.held, g.message = "", ""
}

// pinger keeps the estimate of the skew alive where nothing else talks to the API server.
type pinger struct {
	next    time.Duration // monotonic: not before
	busy    bool
	narrows int // pings spent on narrowing the estimate since it last started again
	jumps   int
}

// precise is the width down to which pings narrow the estimate; the answers to DELETEs narrow it
// further. maxNarrows bounds the number of these pings.
const (
	precise    = 50 * time.Millisecond
	maxNarrows = 10
)

// pingIfNeeded asks for the API server's time if deletions wait for it, if the last answer is too
// old, or if the estimate is coarse. The lock is held.
func (e *guard) pingIfNeeded(ctx context.Context, r reading) {
	p := &e.ping
	if e.opts.Skew == nil || p.busy || r.mono < p.next {
		return
	}
	if p.jumps != e.jumps {
		p.jumps, p.narrows = e.jumps, 0
	}
	est := e.opts.Skew.Estimate(r.wall)
	coarse := est.Hi-est.Lo > precise && p.narrows < maxNarrows
	if est.Known && e.held == "" && est.Age < deletion.PingEvery && !coarse {
		return
	}
	if coarse {
		p.narrows++
	}
	p.busy = true
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		ctx, cancel := context.WithTimeout(ctx, deletion.PingEvery)
		defer cancel()
		if err := e.opts.Ping(ctx); err != nil {
			e.opts.Log.V(2).Info("asking for the API server's time", "err", err)
		}
		r := e.read()
		e.mu.Lock()
		p.busy = false
		p.next = r.mono + e.opts.Skew.Estimate(r.wall).PingIn(r.wall, pingHeld)
		e.unlock()
		e.wakeUp()
	}()
}

// checkClock returns the instant to decide by, and whether deletions may go on. An engine that does
// not run, such as that of a standby whose metrics are scraped, publishes nothing. The lock is
// held.
func (e *guard) checkClock(r reading) (now int64, ok bool) {
	held, jumps := e.held, e.jumps
	now, ok = e.now(r)
	if !e.running {
		return now, ok
	}
	if e.jumps != jumps {
		// Retries and tombstones were scheduled by a clock that was wrong.
		e.rewake(now+int64(maxBackoff), func(en *index.Record) bool {
			return en.State == index.Armed && en.Wake > en.Expiry || en.State == index.Tombstone
		})
	}
	if e.held != held {
		e.clockEvent(held, r)
	}
	return now, ok
}

func (e *guard) clockEvent(before string, r reading) {
	ev := BreakerEvent{Class: classClock, Scope: classClock, Open: e.held != "", Reason: e.held, Message: e.message}
	if !ev.Open {
		ev.Reason, ev.Message = before, "deletions resumed: the clock agrees with the API server's"
	}
	if ev.Reason == ReasonNoServerTime {
		return // Every start begins with this hold.
	}
	e.publish(ev)
}
