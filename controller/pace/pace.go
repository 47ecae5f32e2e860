package pace

import (
	"math"
	"time"
)

// Rate bounds how many deletions fall into any 60 seconds. The API server deletes an object at some
// time between request and answer, so a deletion counts from its request until a minute after its
// answer. Rate counts in slices of a second of monotonic time and looks back over the full minute
// and the slice that it began in, so no burst exceeds the bound.
type Rate struct {
	Limit    int // 0: no bound
	underway int
	slices   [61]int // deletions by the second of their answer
	total    int
	last     int64 // the slice that was written last, in seconds
	// claims is how many deletions Reserve refused lately, the last time at claimed. Take leaves
	// that much room to Reserve, since the engine's own backlog would otherwise use all room at
	// once. It is at most half of the limit.
	claims  int
	claimed time.Duration
}

// claimFor is how long Take leaves room for a claim. Refused callers of Reserve ask again sooner.
const claimFor = 10 * time.Second

func (r *Rate) advance(mono time.Duration) {
	now := int64(mono / time.Second)
	if now <= r.last {
		return
	}
	if now-r.last >= int64(len(r.slices)) {
		clear(r.slices[:])
		r.total = 0
	} else {
		for s := r.last + 1; s <= now; s++ {
			i := s % int64(len(r.slices))
			r.total -= r.slices[i]
			r.slices[i] = 0
		}
	}
	r.last = now
}

// Take counts one deletion that is about to be asked for, if there is room.
func (r *Rate) Take(mono time.Duration) bool {
	if r.Wait(mono) > 0 {
		return false
	}
	r.underway++
	return true
}

// Reserve is Take for a DELETE that the engine does not send itself.
func (r *Rate) Reserve(mono time.Duration) bool {
	r.advance(mono)
	if r.Limit > 0 && r.total+r.underway >= r.Limit {
		r.claims, r.claimed = min(r.claims+1, (r.Limit+1)/2), mono
		return false
	}
	r.claims = max(0, r.claims-1)
	r.underway++
	return true
}

// Exhaust takes all of a minute's room: the previous process may have sent any number of deletions.
func (r *Rate) Exhaust(mono time.Duration) {
	r.advance(mono)
	if more := r.Limit - r.total; more > 0 {
		r.slices[r.last%int64(len(r.slices))] += more
		r.total += more
	}
}

// Done ends a deletion that Take or Reserve counted. happened says whether it may have happened.
func (r *Rate) Done(mono time.Duration, happened bool) {
	r.underway--
	if happened && r.Limit > 0 {
		r.advance(mono)
		r.slices[r.last%int64(len(r.slices))]++
		r.total++
	}
}

// Wait is how long until Take may succeed, if no answer comes before; 0: now.
func (r *Rate) Wait(mono time.Duration) time.Duration {
	if r.Limit == 0 {
		return 0
	}
	r.advance(mono)
	if r.claims > 0 && mono-r.claimed >= claimFor {
		r.claims = 0
	}
	if r.total+r.underway+r.claims < r.Limit {
		return 0
	}
	if r.total+r.underway < r.Limit {
		return min(time.Second, r.claimed+claimFor-mono)
	}
	for back := int64(len(r.slices)) - 1; back >= 0; back-- {
		s := r.last - back
		if s >= 0 && r.slices[s%int64(len(r.slices))] > 0 {
			return time.Duration(s+int64(len(r.slices)))*time.Second - mono
		}
	}
	return time.Second
}

// Concurrency finds out how many DELETEs may be under way, from the latency of the answers. It is
// TCP Vegas over requests: the requests under way that the latency does not account for are waiting
// in a queue somewhere in the API server.
//
//	queued = limit * (1 - base/latency)
//
// Few queued: grow. Many queued: shrink. On any machine the limit settles where the API server is
// always busy and its queue is short, and it shrinks as soon as other clients slow the API server
// down. Refusals (429, timeouts, errors of the 500s) halve the limit, and it grows slowly near the
// value where that happened. The base is the lowest recent mean latency. It is measured again every
// few seconds with very few requests at a time, so that Curfew's own queue does not count as base
// latency. If work comes in short bursts it is measured less often, since each measurement delays a
// burst.
//
// It is fed with samples and holds no clock and no lock; the engine's lock guards it.
type Concurrency struct {
	max float64
	// alpha and beta bound how many requests may be queued. Requests that wait for etcd's next
	// commit look queued too, but cost no other client anything. With 2 to 4 queued requests a
	// drain reached 0.6 of the API server's throughput, with 10 to 16 three quarters, but the last
	// of a hundred objects that fell due together was deleted later than by a bare loop; with 14
	// and more it is deleted sooner. From 32 on all clients only got slower (docs/performance.md).
	alpha, beta float64

	limit    float64
	starting bool // doubling, until the first sign of a queue

	// The window that is being collected.
	count   int
	sum     time.Duration
	peak    int
	quietTo time.Duration // no second halving and no growth before that: the same crowd is still being answered
	ceiling float64       // where it was refused last; near it growth is slow. 0: nowhere

	base     time.Duration // least mean of this epoch and the one before
	baseNew  time.Duration
	began    time.Duration // when this epoch began, 0: not yet
	idle     time.Duration // when nothing was under way last
	probing  bool
	leftover int     // answers to requests from before the probe, still to come
	resume   float64 // the limit after it
}

const (
	// Start is the limit to begin with.
	Start            = 4
	concurrencyEpoch = 10 * time.Second
	// idleEpoch is the length of an epoch of short bursts: idle moments less than
	// concurrencyEpoch apart.
	idleEpoch = time.Minute
	minWindow = 8
)

func NewConcurrency(limit int, favourDrain bool) *Concurrency {
	c := &Concurrency{max: float64(max(1, limit)), alpha: 14, beta: 20, starting: true}
	if favourDrain {
		c.alpha, c.beta = 20, 36
	}
	c.limit = min(Start, c.max)
	return c
}

// Steady is the limit, without the few requests to which it is lowered now and then to find the
// base.
func (c *Concurrency) Steady() int {
	if c.probing {
		return int(c.resume)
	}
	return c.Limit()
}

// Window is what the samples of the current window come to.
func (c *Concurrency) Window() (samples int, latency time.Duration) { return c.count, c.sum }

// Limit is how many requests may be under way.
func (c *Concurrency) Limit() int { return max(1, int(c.limit)) }

// Sample is one answer.
type Sample struct {
	At      time.Duration // monotonic
	Latency time.Duration
	// InFlight is how many were under way when it came in, itself included.
	InFlight int
	// Refused: 429, a timeout, no answer, or an error of the 500s.
	Refused bool
}

func (c *Concurrency) Observe(s Sample) {
	if s.InFlight <= 1 {
		c.idle = s.At
	}
	if s.Refused {
		c.starting = false
		if c.probing {
			c.probing, c.limit = false, c.resume
		}
		if s.At >= c.quietTo {
			c.ceiling = c.limit
			c.limit = max(1, c.limit/2)
			c.quietTo = s.At + max(s.Latency, 100*time.Millisecond)
			c.reset()
		}
		return
	}
	if c.probing && c.leftover > 0 {
		c.leftover--
		return
	}
	c.count++
	c.sum += s.Latency
	c.peak = max(c.peak, s.InFlight)
	// A window covers at least one round of all that may be under way, so that its mean belongs to
	// this limit.
	if c.count < max(minWindow, c.Limit()) {
		return
	}
	c.close(s.At, s.InFlight-1)
}

// close ends a window. underway is how many are still to be answered.
func (c *Concurrency) close(at time.Duration, underway int) {
	mean := max(time.Microsecond, c.sum/time.Duration(c.count))
	peak := c.peak
	c.reset()

	if c.baseNew == 0 || mean < c.baseNew {
		c.baseNew = mean
	}
	if c.base == 0 || mean < c.base {
		c.base = mean
	}
	if c.probing {
		c.probing = false
		c.limit = c.resume
		return
	}
	switch {
	case c.began == 0:
		c.began = at
	case at >= max(c.began, c.idle)+concurrencyEpoch, at >= c.began+idleEpoch:
		c.began = at
		c.base, c.baseNew = c.baseNew, 0
		c.resume, c.limit, c.probing = c.limit, max(1, min(Start, c.limit/2)), true
		c.leftover = underway
		return
	}
	queued := c.limit * (1 - float64(c.base)/float64(mean))
	// Larger limits fluctuate more.
	scale := max(1, math.Log10(c.limit))
	used := float64(peak) >= c.limit*0.75 && at >= c.quietTo
	step := scale
	switch {
	case c.limit > c.ceiling:
		c.ceiling = 0
	case c.limit > c.ceiling*0.75:
		step = scale / 8
	}
	switch {
	case queued > c.beta*scale:
		c.starting = false
		c.limit -= max(1, (queued-c.beta*scale)/2)
	case queued < c.alpha*scale && used && c.starting:
		c.limit *= 2
	case queued < c.alpha*scale && used:
		c.limit += step
	case queued > c.alpha*scale:
		c.starting = false
	}
	c.limit = min(c.max, max(1, c.limit))
}

func (c *Concurrency) reset() {
	c.count, c.sum, c.peak = 0, 0, 0
}
