package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/engine/index"
)

// A queue holds the waiting entries of one resource for one trigger. A request may take long for
// reasons that concern its kind only: a conversion or admission webhook that hangs, an aggregated
// API that is down. Other kinds must not wait for it. Therefore
//
//   - of the queues with due entries, the one with the fewest requests under way is served first,
//     and of several such queues the one whose last turn was longest ago,
//   - a slow request takes no slot, see partition and room,
//   - a 429 of the API server itself pauses everything. A queue that gets it again and again, while
//     others do not, waits alone, and one request at a time shows whether it is over,
//   - a 429 for a submitted object delays its own batch: the API server answers the account of that
//     run,
//   - any other 429 delays its own object. If several objects of a queue get one in a row, the
//     queue waits alone.
type queue struct {
	of      schema.GroupVersionResource
	trigger *trigger
	// waiting holds the waiting entries of all partitions.
	waiting index.Queue
	// rest are the objects of all namespaces without a partition of their own.
	rest partition
	own  map[string]*partition
	// underway counts the requests and live judgements of all partitions.
	underway int

	quick   time.Duration // monotonic: the last quick answer, 0: none,
	quickOf string        // and its namespace

	refusals int           // answers of 429 in a row; answers to concurrent requests count as one
	own429   bool          // some of them not from the API server itself
	refused  time.Duration // monotonic: the first of them,
	again    time.Duration // and the last
	pausedTo time.Duration // monotonic: Retry-After, if only this queue gets 429
}

const (
	// maxRefused is how often a queue that gets 429, while others do not, pauses everything.
	maxRefused = 3
	// remembered is how long a quick answer shows that a queue as a whole does not hang, and how
	// long an idle share counts as slow.
	remembered = 10 * time.Minute
)

// queueFor finds the queue of a resource and a trigger, or makes one. The lock is held.
func (e *Engine) queueFor(o *KindOptions, t *trigger) *queue {
	i := slices.IndexFunc(e.queues, func(q *queue) bool { return q.of == o.Resource && q.trigger == t })
	if i >= 0 {
		return e.queues[i]
	}
	q := &queue{of: o.Resource, trigger: t}
	q.rest.Heaps = &q.waiting.Rest
	e.queues = append(e.queues, q)
	return q
}

// candidate is the next entry of a partition.
type candidate struct {
	queue     *queue
	partition *partition
	slot      uint32
}

// before reports whether a candidate is served before another one; earlier decides between equals.
func (c *candidate) before(other *candidate, earlier func() bool) bool {
	switch {
	case c.queue.trigger.Priority != other.queue.trigger.Priority:
		return c.queue.trigger.Priority < other.queue.trigger.Priority
	case c.partition.inFlight != other.partition.inFlight:
		return c.partition.inFlight < other.partition.inFlight
	case c.partition.lastTurn() != other.partition.lastTurn():
		return c.partition.lastTurn() < other.partition.lastTurn()
	default:
		return earlier()
	}
}

// open reports whether a queue may send anything now.
func (e *Engine) open(q *queue, r reading) bool {
	return r.mono >= q.pausedTo && (q.underway == 0 || !e.singled(q))
}

// room reports whether one more job of a partition may begin. judging: the job is judged live
// first, and needs a slot in both rooms.
func (e *Engine) room(q *queue, p *partition, judging bool) bool {
	return e.roomFor(&e.requests, &p.share) && (!judging || e.roomFor(&e.judgements, &p.judging)) && e.inLine(q, p) < maxSlow
}

// depart notes that a job is under way. The lock is held.
func (e *Engine) depart(j *job, judging bool) {
	j.queue.underway++
	in := &e.requests
	if judging {
		in = &e.judgements
	}
	e.begin(j, in, e.shareOf(j, in), j.started)
}

// arrive notes that a job has ended. The lock is held.
func (e *Engine) arrive(j *job, res *attemptResult, r reading) {
	q, of := j.queue, j.stay
	q.underway--
	left := of.over // It waited in line in vain; moveTo has noted its stay before that.
	e.leave(j)
	defer e.dissolve(q, j.object.Namespace)
	if left {
		return
	}
	long := r.mono-of.started >= slowAfter
	if long {
		e.took(of, r)
	}
	if res.reported == Throttled && res.Origin != action.FromAdmission {
		e.throttle(j, res, r)
		return
	}
	if res.Code == 0 && res.Err != nil {
		return
	}
	if res.Code > 0 || res.Outcome == action.Done || res.Outcome == action.Again { // A live read alone proves nothing.
		q.refusals, q.own429, q.pausedTo = 0, false, 0
	}
	if long {
		return
	}
	e.took(of, r)
	if of.room == &e.requests {
		q.quick, q.quickOf = r.mono, j.object.Namespace
	}
}

// throttle handles a 429. If the API server itself is overloaded, everything pauses. Otherwise the
// object waits (see finishEntry), and its queue as well once several different objects got a 429.
// The lock is held.
func (e *Engine) throttle(j *job, res *attemptResult, r reading) {
	to := r.mono + min(maxPause, res.After)
	if j.batch != nil {
		// The answer is for the account of the run: a tenant can make the API server send it.
		j.batch.pausedTo = max(j.batch.pausedTo, to, r.mono+minRetry)
		return
	}
	q, general := j.queue, res.overloaded(j.kind)
	q.own429 = q.own429 || !general
	if general || j.attempt == 0 {
		if q.refusals == 0 {
			q.refused = r.mono
		}
		if q.refusals == 0 || j.started >= q.again {
			q.refusals++
			q.again = r.mono
		}
	}
	switch {
	case q.own429 && e.singled(q):
		// It is a guess that the answer is about the kind: retry soon at first, with another
		// object.
		q.pausedTo = max(q.pausedTo, min(to, r.mono+minRetry<<min(q.refusals-maxRefused, 10)))
	case e.singled(q):
		q.pausedTo = max(q.pausedTo, to)
	case general:
		e.pausedTo = max(e.pausedTo, to)
	}
}

// overloaded reports whether a 429 means that the API server itself is overloaded. An aggregated
// API server has filters of its own.
func (res *attemptResult) overloaded(k *KindOptions) bool {
	return res.reported == Throttled && res.Origin == action.FromServer && !k.Aggregated
}

// singled reports whether only this queue gets 429. The lock is held.
func (e *Engine) singled(q *queue) bool {
	return q.refusals >= maxRefused &&
		(q.own429 || slices.ContainsFunc(e.queues, func(other *queue) bool { return other != q && other.quick > q.refused }))
}

// alone reports whether a job took long because of its kind or its namespace: requests of other
// queues were answered quickly meanwhile. The lock is held.
func (e *Engine) alone(j *job, r reading) bool {
	return r.mono-j.started >= slowAfter && slices.ContainsFunc(e.queues, func(q *queue) bool { return q.quick > j.started })
}

// ofNamespace reports whether the namespace of a job hangs, and not its kind: the last quick answer
// for the kind was for another namespace, and recent. The lock is held.
func (j *job) ofNamespace(r reading) bool {
	q := j.queue
	return j.object.Namespace != "" && q.quick > 0 && q.quickOf != j.object.Namespace && r.mono-q.quick < remembered
}

// unheard reports whether a job got no answer while the API server answered others. The lock is
// held.
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

// partition holds the waiting entries of a queue: of one slow namespace, or of all other
// namespaces. The admission webhooks of a namespace may answer each DELETE slowly, or never. Then
//
//   - a request that has been under way for slowAfter gives its slot back, and its namespace gets a
//     partition of its own: requests of that partition take no slot, and only a few of them are
//     sent at a time, until they are answered quickly again,
//   - while one partition is known to be stuck, requests of others count as slow after waryAfter,
//   - all slow partitions together may have at most half of Options.MaxConcurrency under way, and
//     take turns.
//
// Objects without a namespace share a partition. Beyond maxPartitions slow namespaces, the rest of
// the queue becomes slow as a whole.
//
// Live judgements have their own slots, which are shared out in the same way.
type partition struct {
	share           // the requests
	judging   share // the live judgements
	namespace string
	*index.Heaps
}

// maxPartitions bounds the partitions of a queue: every turn looks at all of them.
const maxPartitions = 128

func (p *partition) empty() bool {
	return p.inFlight+p.judging.inFlight == 0 && p.Due.Len()+p.Live.Len()+p.Backfill.Len()+p.Claimed.Len() == 0
}

// lastTurn is when a job of the partition began last.
func (p *partition) lastTurn() uint64 { return max(p.turn, p.judging.turn) }

// partition returns the partition of a namespace.
func (q *queue) partition(namespace string) *partition {
	if own := q.own[namespace]; own != nil {
		return own
	}
	return &q.rest
}

// partitions calls f for all partitions of a queue.
func (q *queue) partitions(f func(*partition)) {
	f(&q.rest)
	for _, own := range q.own {
		f(own)
	}
}

// separate gives a job's namespace a partition of its own, if there may be one more. Waiting
// entries of the namespace move there when they reach the top of their heap. The lock is held.
func (e *Engine) separate(j *job) {
	q, namespace := j.queue, j.object.Namespace
	if q.own[namespace] == nil && len(q.own) < maxPartitions {
		if q.own == nil {
			q.own = map[string]*partition{}
		}
		q.own[namespace] = &partition{namespace: namespace, Heaps: q.waiting.Separate(namespace)}
	}
}

// dissolve drops the partition of a namespace that is no longer slow and is empty. The lock is
// held.
func (e *Engine) dissolve(q *queue, namespace string) {
	if own := q.own[namespace]; own != nil && !own.slow && !own.judging.slow && own.empty() {
		delete(q.own, namespace)
		q.waiting.Dissolve(namespace)
	}
}
