package engine

import (
	"slices"
	"time"

	"curfew.dev/curfew/controller/pace"
)

// slots limit how many jobs are under way, and share them out. A job holds one slot from its live
// judgement to the answer to its request.
type slots struct {
	*entries
	queues   []*queue
	conc     *pace.Concurrency
	inFlight int    // jobs with a slot
	apart    int    // jobs without a slot, because they are slow: see partition
	underway []*job // jobs that take a slot, in the order of their start; some have ended
	turns    uint64 // jobs so far
	// stuckShares counts shares with flag stuck.
	stuckShares int
	pause       retryAfter // the API server itself refuses
}

const (
	// slowAfter is far longer than a busy API server takes, and no longer than the second by which
	// any deletion may be late.
	slowAfter = time.Second
	// waryAfter replaces slowAfter while a share is stuck: others may hang as well, and each would
	// delay all deletions by a second. A share that is slow by mistake still makes progress.
	waryAfter = slowAfter / 10
	// maxSlow bounds the jobs of a slow share, and maxSlowAll the jobs of all slow shares; never
	// more than half of Options.MaxConcurrency. Jobs that began before the share was slow may
	// exceed it.
	maxSlow    = 16
	maxSlowAll = 64
)

// queueFor finds the queue of a resource and a trigger, or makes one. The lock is held.
func (e *slots) queueFor(o *KindOptions, t *trigger) *queue {
	i := slices.IndexFunc(e.queues, func(q *queue) bool { return q.of == o.Resource && q.trigger == t })
	if i >= 0 {
		return e.queues[i]
	}
	q := &queue{of: o.Resource, trigger: t}
	q.rest.Heaps = &q.waiting.Rest
	e.queues = append(e.queues, q)
	return q
}

// open reports whether a queue may send anything now.
func (e *slots) open(q *queue, r reading) bool {
	return r.mono >= q.pausedTo && (q.underway == 0 || !e.singled(q))
}

// begin notes that a job is under way. The lock is held.
func (e *slots) begin(j *job) {
	j.queue.underway++
	e.turns++
	j.share = &j.queue.partition(j.object.Namespace).share
	j.share.turn = e.turns
	j.share.inFlight++
	if j.apart = j.share.slow; j.apart {
		j.share.apart++
		e.apart++
		return
	}
	e.inFlight++
	e.underway = append(e.underway, j)
}

// end notes that a job has ended. The lock is held.
func (e *slots) end(j *job) {
	j.queue.underway--
	j.over = true
	j.share.inFlight--
	if j.apart {
		j.share.apart--
		e.apart--
		return
	}
	e.inFlight--
}

// free reports whether one more job of a share may begin. The lock is held.
func (e *slots) free(s *share) bool {
	if !s.slow {
		return e.inFlight < e.conc.Limit()
	}
	most := max(1, min(maxSlowAll, e.opts.MaxConcurrency/2))
	// Shares without a job under way come first: however many hang, a share that has recovered is
	// found soon.
	return e.apart < most && (s.inFlight == 0 || s.inFlight < maxSlow && e.apart < max(1, most*3/4))
}

// setApart takes the slots of jobs that have been under way for too long. The lock is held.
func (e *slots) setApart(r reading) {
	for len(e.underway) > 0 {
		j := e.underway[0]
		if !j.over {
			if r.mono-j.started < e.patience() {
				return
			}
			e.setApartOne(j, r)
		}
		e.underway[0] = nil
		e.underway = e.underway[1:]
	}
}

// setApartOne takes the slot of a job. Other jobs of its namespace get none until they are quick
// again. The lock is held.
func (e *slots) setApartOne(j *job, r reading) {
	j.apart = true
	e.inFlight--
	e.apart++
	j.share.inFlight--
	e.separate(j)
	j.share = &j.queue.partition(j.object.Namespace).share
	j.share.inFlight++
	j.share.apart++
	e.slow(j.share, j, r.mono-j.started >= slowAfter, r)
}

// slow notes that a job of a share takes long. The lock is held.
func (e *slots) slow(s *share, j *job, stuck bool, r reading) {
	if stuck && !s.stuck {
		s.stuck = true
		e.stuckShares++
		e.note(func() {
			e.opts.Log.Info("requests take long: others do not wait for them", "kind", j.kind.Kind, "namespace", j.object.Namespace,
				"longerThan", slowAfter.String())
		})
	}
	s.slow, s.since, s.good = true, r.mono, 0
}

// took notes how long a job took. The lock is held.
func (e *slots) took(j *job, r reading) {
	switch {
	case r.mono-j.started < slowAfter:
		e.quick(j.share, j)
	case j.apart:
		e.slow(j.share, j, true, r)
	}
}

// quick notes a quick answer for a share. A slow share needs maxSlow of them in a row, since one
// answer proves little while others hang. The lock is held.
func (e *slots) quick(s *share, j *job) {
	if s.good++; !s.slow || s.apart > 0 || s.good < maxSlow {
		return
	}
	if s.stuck {
		e.note(func() {
			e.opts.Log.Info("requests are answered quickly again", "kind", j.kind.Kind, "namespace", j.object.Namespace)
		})
	}
	e.forgive(s)
}

// forgive ends the slow state of a share. The lock is held.
func (e *slots) forgive(s *share) {
	if s.stuck {
		e.stuckShares--
	}
	s.slow, s.stuck = false, false
}

// forgiveIdle does so for shares that have been idle for long. The lock is held.
func (e *slots) forgiveIdle(r reading) {
	idle := func(s *share) bool { return s.slow && s.inFlight == 0 && r.mono-s.since >= remembered }
	for _, q := range e.queues {
		q.partitions(func(p *partition) {
			if idle(&p.share) && p.empty() {
				e.forgive(&p.share)
			}
			e.dissolve(q, p.namespace)
		})
	}
}

// separate gives a job's namespace a partition of its own, if there may be one more. Waiting
// entries of the namespace move there when they reach the top of their heap. The lock is held.
func (e *slots) separate(j *job) {
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
func (e *slots) dissolve(q *queue, namespace string) {
	if own := q.own[namespace]; own != nil && !own.slow && own.empty() {
		delete(q.own, namespace)
		q.waiting.Dissolve(namespace)
	}
}

// patience is how long a job may keep its slot.
func (e *slots) patience() time.Duration {
	if e.stuckShares > 0 {
		return waryAfter
	}
	return slowAfter
}

// untilApart returns how long until setApart has to be called, or 0 if nothing is under way.
func (e *slots) untilApart(r reading) time.Duration {
	for _, j := range e.underway {
		if !j.over {
			return max(time.Millisecond, j.started+e.patience()-r.mono)
		}
	}
	return 0
}

// singled reports whether only this queue gets 429. The lock is held.
func (e *slots) singled(q *queue) bool {
	return q.refusals >= maxRefused &&
		(q.own429 || slices.ContainsFunc(e.queues, func(other *queue) bool { return other != q && other.quick > q.refused }))
}

// alone reports whether a job took long because of its kind or its namespace: requests of other
// queues were answered quickly meanwhile. The lock is held.
func (e *slots) alone(j *job, r reading) bool {
	return r.mono-j.started >= slowAfter && slices.ContainsFunc(e.queues, func(q *queue) bool { return q.quick > j.started })
}

// unheard reports whether a job got no answer while the API server answered others. The lock is
// held.
func (e *slots) unheard(j *job, r reading) bool {
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
