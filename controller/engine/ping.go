package engine

import (
	"context"
	"time"

	"curfew.dev/curfew/controller/servertime"
)

// pinger keeps the estimate of the skew alive where nothing else talks to the API server.
type pinger struct {
	next    time.Duration // monotonic: not before
	busy    bool
	narrows int // pings spent on narrowing the estimate since it last started again
	jumps   int
}

// precise is the width down to which pings narrow the estimate; the answers to DELETEs narrow it
// further. narrowMost bounds the number of these pings.
const (
	precise    = 50 * time.Millisecond
	narrowMost = 10
)

// pingIfNeeded asks for the API server's time if deletions wait for it, if the last answer is too
// old, or if the estimate is coarse. The lock is held.
func (e *Engine) pingIfNeeded(ctx context.Context, r reading) {
	p := &e.ping
	if e.opts.Skew == nil || p.busy || r.mono < p.next {
		return
	}
	if p.jumps != e.guard.jumps {
		p.jumps, p.narrows = e.guard.jumps, 0
	}
	est := e.opts.Skew.Estimate(r.wall)
	coarse := est.Hi-est.Lo > precise && p.narrows < narrowMost
	if est.Known && e.guard.held == "" && est.Age < servertime.PingEvery && !coarse {
		return
	}
	if coarse {
		p.narrows++
	}
	p.busy = true
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		ctx, cancel := context.WithTimeout(ctx, servertime.PingEvery)
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
