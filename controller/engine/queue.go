package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/action"
)

// A queue is what waits of one resource for one trigger. A request may take long for reasons that
// concern its kind alone: a conversion or admission webhook that hangs, an aggregated API that is
// away. Other kinds must not wait for it. Therefore
//
//   - of the queues in which something is due, the one with the fewest requests under way is served
//     first, and among several of these the one whose last turn was longest ago,
//   - a request that has been under way for slowAfter takes up no room any more, and its queue is slow
//     from then on: its requests never take up room, and only a few of them are sent at a time, until
//     they are answered quickly again,
//   - a 429 of the API server itself pauses everything. A queue that gets it again and again, while
//     others do not, waits alone, and one request at a time shows whether it is over,
//   - any other 429 delays its own object. Where several objects of a queue get one in a row, the
//     queue waits alone.
type queue struct {
	due, backfill heap
	of            schema.GroupVersionResource
	trigger       *trigger
	inFlight      int    // requests under way,
	apart         int    // and those of them that take up no room
	turn          uint64 // when it was served last, in requests of all
	slow          bool
	quick         time.Duration // monotonic: the last quick answer, 0: none

	refusals int           // answers of 429 in a row, those to requests that were under way together counted as one;
	own      bool          // some of them not from the API server itself
	refused  time.Duration // monotonic: the first of these,
	again    time.Duration // and the last
	held     []Kind        // see Engine.Hold
	pausedTo time.Duration // monotonic: Retry-After, where it is this queue alone that is answered so
}

const (
	// slowAfter is far more than an API server takes that is merely busy, and no more than the
	// second that everybody may be late.
	slowAfter = time.Second
	// slowMost is how many requests of a slow queue are under way, slowMostAll of all of them.
	// There may be more from before it was known.
	slowMost    = 16
	slowMostAll = 64
	// refusedMost is how often everything is paused because of a queue that is answered 429, while
	// others are not.
	refusedMost = 3
)

// queueFor finds the queue of a resource and a trigger, or makes one. The lock is held.
func (e *Engine) queueFor(o *KindOptions, t *trigger) *queue {
	i := slices.IndexFunc(e.index.queues, func(q *queue) bool { return q.of == o.Resource && q.trigger == t })
	if i >= 0 {
		return e.index.queues[i]
	}
	q := &queue{of: o.Resource, trigger: t}
	e.index.queues = append(e.index.queues, q)
	return q
}

// before reports whether a queue is served before another one; earlier decides between equals.
func (q *queue) before(other *queue, earlier func() bool) bool {
	switch {
	case q.trigger.Priority != other.trigger.Priority:
		return q.trigger.Priority < other.trigger.Priority
	case q.inFlight != other.inFlight:
		return q.inFlight < other.inFlight
	case q.turn != other.turn:
		return q.turn < other.turn
	default:
		return earlier()
	}
}

// room reports whether another request of a queue may be sent.
func (e *Engine) room(q *queue, r reading) bool {
	if len(q.held) > 0 || r.mono < q.pausedTo || q.inFlight > 0 && e.singled(q) {
		return false
	}
	if q.slow {
		return q.inFlight < slowMost && e.apart < slowMostAll
	}
	return e.inFlight < e.conc.Limit()
}

// depart notes that a job is under way. The lock is held.
func (e *Engine) depart(j *job) {
	q := j.queue
	e.turns++
	q.turn = e.turns
	q.inFlight++
	if q.slow {
		j.apart = true
		q.apart++
		e.apart++
		return
	}
	e.inFlight++
	e.underway = append(e.underway, j)
}

// arrive notes that it has come to its end. The lock is held.
func (e *Engine) arrive(j *job, res *attemptResult, r reading) {
	q := j.queue
	j.arrived = true
	q.inFlight--
	if j.apart {
		q.apart--
		e.apart--
	} else {
		e.inFlight--
	}
	if res.result == Throttled && res.Origin != action.FromAdmission {
		e.throttle(j, res, r)
		return
	}
	if res.Code == 0 && res.Err != nil {
		return
	}
	if res.Code > 0 || res.Outcome == action.Done || res.Outcome == action.Again { // A live read alone proves nothing.
		q.refusals, q.own, q.pausedTo = 0, false, 0
	}
	if r.mono-j.started >= slowAfter {
		return
	}
	q.quick = r.mono
	if q.slow && q.apart == 0 {
		q.slow = false
		e.note(func() { e.opts.Log.Info("requests of a kind are answered quickly again", "kind", j.kind.Kind) })
	}
}

// throttle obeys a 429. If the API server itself has too much to do, it pauses everything. Else the
// object waits (see finishEntry), and its queue as well once several objects got one: an object
// that is tried again is no news. The lock is held.
func (e *Engine) throttle(j *job, res *attemptResult, r reading) {
	q, general := j.queue, res.overloaded(j.kind)
	q.own = q.own || !general
	if general || j.attempt == 0 {
		if q.refusals == 0 {
			q.refused = r.mono
		}
		if q.refusals == 0 || j.started >= q.again {
			q.refusals++
			q.again = r.mono
		}
	}
	to := r.mono + min(pauseMost, res.After)
	switch {
	case q.own && e.singled(q):
		// That the kind is meant is a guess: it is asked again soon at first, with another object.
		q.pausedTo = max(q.pausedTo, min(to, r.mono+retryLeast<<min(q.refusals-refusedMost, 10)))
	case e.singled(q):
		q.pausedTo = max(q.pausedTo, to)
	case general:
		e.pausedTo = max(e.pausedTo, to)
	}
}

// overloaded reports whether a 429 says that the API server itself has too much to do. An
// aggregated API server has filters of its own.
func (res *attemptResult) overloaded(k *KindOptions) bool {
	return res.result == Throttled && res.Origin == action.FromServer && !k.Aggregated
}

// singled reports whether it is a queue alone that is answered 429. The lock is held.
func (e *Engine) singled(q *queue) bool {
	return q.refusals >= refusedMost &&
		(q.own || slices.ContainsFunc(e.index.queues, func(other *queue) bool { return other != q && other.quick > q.refused }))
}

// setApart has those that were sent longest ago take up no room any more, if that is too long ago.
// The lock is held.
func (e *Engine) setApart(r reading) {
	for len(e.underway) > 0 {
		j := e.underway[0]
		if !j.arrived {
			if r.mono-j.started < slowAfter {
				return
			}
			q := j.queue
			j.apart = true
			q.apart++
			e.apart++
			e.inFlight--
			if !q.slow {
				q.slow = true
				e.note(func() {
					e.opts.Log.Info("requests of a kind take long: others do not wait for them", "kind", j.kind.Kind, "longerThan", slowAfter.String())
				})
			}
		}
		e.underway[0] = nil
		e.underway = e.underway[1:]
	}
}

// untilApart returns how long until setApart is to be called, 0: nothing is under way.
func (e *Engine) untilApart(r reading) time.Duration {
	for _, j := range e.underway {
		if !j.arrived {
			return max(time.Millisecond, j.started+slowAfter-r.mono)
		}
	}
	return 0
}

// alone reports whether it was the kind of a job that took long: others were answered quickly
// meanwhile. The lock is held.
func (e *Engine) alone(j *job, r reading) bool {
	return r.mono-j.started >= slowAfter && slices.ContainsFunc(e.index.queues, func(q *queue) bool {
		return q != j.queue && q.quick > j.started
	})
}

// unheard reports whether a job waited in vain for an answer of its own, while the API server
// answered others. The lock is held.
func (e *Engine) unheard(j *job, r reading) bool {
	if e.alone(j, r) {
		return true
	}
	took := r.mono - j.started
	if took < slowAfter || e.opts.Skew == nil {
		return false
	}
	last := e.opts.Skew.Estimate(r.wall)
	return last.Known && last.Age < took
}
