package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"curfew.dev/curfew/controller/pace"
)

// rooms limit how many requests and live judgements are under way, and share them out.
type rooms struct {
	*entries
	queues     []*queue
	conc       *pace.Concurrency
	requests   room    // DELETEs and other actions under way,
	judgements room    // and live judgements
	underway   []*stay // stays that take a slot, in both rooms, in the order of their start; some have ended
	waiting    []*waiter
	turns      uint64 // requests and live judgements so far
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
	maxSlow = 16
	// minJudging is how many live judgements may be under way even if fewer DELETEs may: they
	// share most of their reads.
	minJudging = 32
	maxSlowAll = 64
)

// queueFor finds the queue of a resource and a trigger, or makes one. The lock is held.
func (e *rooms) queueFor(o *KindOptions, t *trigger) *queue {
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
func (e *rooms) open(q *queue, r reading) bool {
	return r.mono >= q.pausedTo && (q.underway == 0 || !e.singled(q))
}

// room reports whether one more job of a partition may begin. judging: the job is judged live
// first, and needs a slot in both rooms.
func (e *rooms) room(q *queue, p *partition, judging bool) bool {
	return e.roomFor(&e.requests, &p.share) && (!judging || e.roomFor(&e.judgements, &p.judging)) && e.inLine(q, p) < maxSlow
}

// depart notes that a job is under way. The lock is held.
func (e *rooms) depart(j *job, judging bool) {
	j.queue.underway++
	in := &e.requests
	if judging {
		in = &e.judgements
	}
	e.begin(j, in, e.shareOf(j, in), j.started)
}

// begin moves a job into a room, and out of its previous one. The lock is held.
func (e *rooms) begin(j *job, in *room, s *share, at time.Duration) {
	e.leave(j)
	e.turns++
	j.started, s.turn = at, e.turns
	s.inFlight++
	j.stay = &stay{job: j, room: in, share: s, started: at, apart: s.slow}
	if s.slow {
		s.apart++
		in.apart++
		return
	}
	in.inFlight++
	e.underway = append(e.underway, j.stay)
}

// shareOf returns the share of a job in a room. The lock is held.
func (e *rooms) shareOf(j *job, in *room) *share {
	p := j.queue.partition(j.object.Namespace)
	if in == &e.judgements {
		return &p.judging
	}
	return &p.share
}

// leave moves a job out of its room. The lock is held.
func (e *rooms) leave(j *job) {
	of := j.stay
	if of == nil || of.over {
		return
	}
	of.over = true
	of.share.inFlight--
	if of.apart {
		of.share.apart--
		of.room.apart--
		return
	}
	of.room.inFlight--
}

// roomFor reports whether one more job of a share may begin in a room. The lock is held.
func (e *rooms) roomFor(in *room, s *share) bool {
	if !s.slow {
		return in.inFlight < e.limit(in)
	}
	most := max(1, min(maxSlowAll, e.opts.MaxConcurrency/2))
	// Shares without a job under way come first: however many hang, a share that has recovered is
	// found soon.
	return in.apart < most && (s.inFlight == 0 || s.inFlight < maxSlow && in.apart < max(1, most*3/4))
}

// limit is how many slots a room has.
func (e *rooms) limit(in *room) int {
	if in == &e.requests {
		return e.conc.Limit()
	}
	return max(e.conc.Limit(), min(minJudging, e.opts.MaxConcurrency))
}

// setApart takes the slots of jobs that have been under way for too long. The lock is held.
func (e *rooms) setApart(r reading) {
	for len(e.underway) > 0 {
		of := e.underway[0]
		if !of.over {
			if r.mono-of.started < e.patience() {
				return
			}
			e.setApartOne(of, r)
		}
		e.underway[0] = nil
		e.underway = e.underway[1:]
	}
}

// setApartOne takes the slot of a job. Other jobs of its namespace get none until its requests are
// answered quickly again. The lock is held.
func (e *rooms) setApartOne(of *stay, r reading) {
	j := of.job
	of.apart = true
	of.room.inFlight--
	of.room.apart++
	of.share.inFlight--
	e.separate(j)
	of.share = e.shareOf(j, of.room)
	of.share.inFlight++
	of.share.apart++
	e.slow(of.share, j, r.mono-of.started >= slowAfter, r)
}

// slow notes that a job of a share takes long. The lock is held.
func (e *rooms) slow(s *share, j *job, stuck bool, r reading) {
	if stuck && !s.stuck {
		s.stuck = true
		e.stuckShares++
		judging := s == e.shareOf(j, &e.judgements)
		e.note(func() {
			e.opts.Log.Info("requests take long: others do not wait for them", "kind", j.kind.Kind, "namespace", j.object.Namespace,
				"judging", judging, "longerThan", slowAfter.String())
		})
	}
	s.slow, s.since, s.good = true, r.mono, 0
}

// took notes how long a job was in the room that it has left. The lock is held.
func (e *rooms) took(of *stay, r reading) {
	switch {
	case r.mono-of.started < slowAfter:
		e.quick(of.share, of.job)
	case of.apart:
		e.slow(of.share, of.job, true, r)
	}
}

// quick notes a quick answer for a share. A slow share needs maxSlow of them in a row, since one
// answer proves little while others hang. The lock is held.
func (e *rooms) quick(s *share, j *job) {
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
func (e *rooms) forgive(s *share) {
	if s.stuck {
		e.stuckShares--
	}
	s.slow, s.stuck = false, false
}

// forgiveIdle does so for shares that have been idle for long. The lock is held.
func (e *rooms) forgiveIdle(r reading) {
	idle := func(s *share) bool { return s.slow && s.inFlight == 0 && r.mono-s.since >= remembered }
	for _, q := range e.queues {
		q.partitions(func(p *partition) {
			if idle(&p.judging) {
				e.forgive(&p.judging)
			}
			if idle(&p.share) && p.empty() {
				e.forgive(&p.share)
			}
			e.dissolve(q, p.namespace)
		})
	}
}

// separate gives a job's namespace a partition of its own, if there may be one more. Waiting
// entries of the namespace move there when they reach the top of their heap. The lock is held.
func (e *rooms) separate(j *job) {
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
func (e *rooms) dissolve(q *queue, namespace string) {
	if own := q.own[namespace]; own != nil && !own.slow && !own.judging.slow && own.empty() {
		delete(q.own, namespace)
		q.waiting.Dissolve(namespace)
	}
}

// patience is how long a job may keep its slot.
func (e *rooms) patience() time.Duration {
	if e.stuckShares > 0 {
		return waryAfter
	}
	return slowAfter
}

// untilApart returns how long until setApart has to be called, or 0 if nothing is under way.
func (e *rooms) untilApart(r reading) time.Duration {
	for _, of := range e.underway {
		if !of.over {
			return max(time.Millisecond, of.started+e.patience()-r.mono)
		}
	}
	return 0
}

// maxInLine is how long a job waits for a slot. Its judgement grows old meanwhile.
const maxInLine = 2 * time.Second

// ErrNoSlot is the error of submitted objects that are Held because too much else was under way.
// [Run.Judge] may return it, too.
var ErrNoSlot = errors.New("no slot became free in time")

// moveTo moves a job to another room as soon as that has a slot. It returns false if no slot
// becomes free in time. Only the job's own worker calls it.
func (e *rooms) moveTo(ctx context.Context, j *job, to *room) bool {
	if j.stay.room == to {
		return true
	}
	w := e.lineUp(j, to)
	select {
	case <-w.in:
		return true // The common case takes no timer.
	default:
	}
	over := e.opts.Clock.NewTimer(maxInLine)
	defer over.Stop()
	select {
	case <-w.in:
		return true
	case <-over.C():
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.unlock()
	i := slices.Index(e.waiting, w)
	if i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	return i < 0 // It may have come in at the last moment.
}

// lineUp moves a job out of its room and into the line for another one.
func (e *rooms) lineUp(j *job, to *room) *waiter {
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	was := j.stay
	e.leave(j)
	if was.room == &e.judgements {
		e.took(was, r)
	}
	w := &waiter{job: j, to: to, in: make(chan struct{})}
	e.waiting = append(e.waiting, w)
	e.letIn(r)
	e.wakeUp() // There is a slot where it was.
	return w
}

// letIn gives free slots to the jobs in line, before any new job begins. After a 429 of the API
// server it lets in one request a second. It does not ask the breakers, which have admitted these
// jobs already: a probe that finds out whether an outage is over must not wait for the end of the
// outage. The lock is held.
func (e *rooms) letIn(r reading) {
	if len(e.waiting) == 0 {
		return
	}
	e.waiting = slices.DeleteFunc(e.waiting, func(w *waiter) bool {
		s := e.shareOf(w.job, w.to)
		if !e.roomFor(w.to, s) || w.to == &e.requests && !e.passes(w.job, r) {
			return false
		}
		e.begin(w.job, w.to, s, r.mono)
		close(w.in)
		return true
	})
}

// passes reports whether a wait lets a job send its request, as one a second. The lock is held.
func (e *rooms) passes(j *job, r reading) bool {
	if !j.probe && e.pause.left(r) <= 0 {
		j.probe = e.pause.sent(r)
	}
	return j.probe || r.mono >= e.pause.to
}

// inLine is how many jobs of a partition wait for a slot.
func (e *rooms) inLine(q *queue, p *partition) (n int) {
	for _, w := range e.waiting {
		if w.job.queue == q && q.partition(w.job.object.Namespace) == p {
			n++
		}
	}
	return n
}

// singled reports whether only this queue gets 429. The lock is held.
func (e *rooms) singled(q *queue) bool {
	return q.refusals >= maxRefused &&
		(q.own429 || slices.ContainsFunc(e.queues, func(other *queue) bool { return other != q && other.quick > q.refused }))
}

// alone reports whether a job took long because of its kind or its namespace: requests of other
// queues were answered quickly meanwhile. The lock is held.
func (e *rooms) alone(j *job, r reading) bool {
	return r.mono-j.started >= slowAfter && slices.ContainsFunc(e.queues, func(q *queue) bool { return q.quick > j.started })
}

// unheard reports whether a job got no answer while the API server answered others. The lock is
// held.
func (e *rooms) unheard(j *job, r reading) bool {
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
