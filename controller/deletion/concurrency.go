package deletion

import (
	"math"
	"time"
)

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
	// epochRounds bounds what measuring costs where each answer takes long: about three rounds of
	// each epoch.
	epochRounds = 40
	minWindow   = 8
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
func (c *Concurrency) close(d time.Duration, underway int) {
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
	long := epochRounds * c.base
	switch {
	case c.began == 0:
		c.began = d
	case d >= max(c.began, c.idle)+max(concurrencyEpoch, long), d >= c.began+max(idleEpoch, long):
		c.began = d
		c.base, c.baseNew = c.baseNew, 0
		c.resume, c.limit, c.probing = c.limit, max(1, min(Start, c.limit/2)), true
		c.leftover = underway
		return
	}
	queued := c.limit * (1 - float64(c.base)/float64(mean))
	// Larger limits fluctuate more.
	scale := max(1, math.Log10(c.limit))
	used := float64(peak) >= c.limit*0.75 && d >= c.quietTo
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
