package engine

import (
	"time"
)

// room is how much of one sort is under way: requests, or live judgements. There are as many slots
// for requests as the API server is found to bear (package controller/pace). A live judgement takes
// none of these: many of them may wait for one shared read.
type room struct {
	inFlight int // what takes a slot,
	apart    int // and what takes none, because it takes long: see partition
}

// share is how much of one sort is under way of a queue, or of a part of it.
type share struct {
	inFlight int    // all that is under way,
	apart    int    // and how many of these take no slot
	turn     uint64 // when it was served last, in turns of all
	slow     bool   // what is begun takes no slot
	// stuck: something took longer than slowAfter, and not only longer than others may wait once
	// that is known of one. since is when that was last noticed, or slow, in monotonic time.
	stuck bool
	since time.Duration
	good  int // quick answers in a row
}

// stay is the time that a job is in a room.
type stay struct {
	job     *job
	room    *room
	share   *share
	started time.Duration // monotonic
	apart   bool
	over    bool
}

const (
	// slowAfter is far more than an API server takes that is merely busy, and no more than the
	// second that everybody may be late.
	slowAfter = time.Second
	// waryAfter takes its place while something is known to take long: others may hang as well, and
	// each of them would cost everybody a second. Who is suspected wrongly has slots all the same.
	waryAfter = slowAfter / 10
	// slowMost is how many of a slow share are under way, slowMostAll of all of them, and never more
	// than half of Options.MaxConcurrency. There may be more from before it was known.
	slowMost = 16
	// judgingLeast is how many live judgements may be under way, however few DELETEs: they share
	// most of what they read.
	judgingLeast = 32
	slowMostAll  = 64
)

// begin notes that a job is under way, in a room. It leaves the one where it was. The lock is held.
func (e *Engine) begin(j *job, in *room, s *share, at time.Duration) {
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

// shareOf is where a job belongs in a room. The lock is held.
func (e *Engine) shareOf(j *job, in *room) *share {
	p := j.queue.partition(j.object.Namespace)
	if in == &e.judgements {
		return &p.judging
	}
	return &p.share
}

// leave notes that a job is no longer in the room where it was. The lock is held.
func (e *Engine) leave(j *job) {
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

// roomFor reports whether one more of a share may be begun in a room. The lock is held.
func (e *Engine) roomFor(in *room, s *share) bool {
	if !s.slow {
		return in.inFlight < e.limit(in)
	}
	most := max(1, min(slowMostAll, e.opts.MaxConcurrency/2))
	// Those that have nothing under way come first: however many hang, one that has recovered is
	// answered soon.
	return in.apart < most && (s.inFlight == 0 || s.inFlight < slowMost && in.apart < max(1, most*3/4))
}

// limit is how many slots a room has.
func (e *Engine) limit(in *room) int {
	if in == &e.requests {
		return e.conc.Limit()
	}
	return max(e.conc.Limit(), min(judgingLeast, e.opts.MaxConcurrency))
}

// setApart has those that were begun longest ago take up no slot any more, if that is too long ago.
// The lock is held.
func (e *Engine) setApart(r reading) {
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

// setApartOne takes the slot of a job, and has others of its namespace take none until one is
// answered quickly. The lock is held.
func (e *Engine) setApartOne(of *stay, r reading) {
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

// slow notes that something of a share takes long. The lock is held.
func (e *Engine) slow(s *share, j *job, stuck bool, r reading) {
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

// took notes how long a job was in a room that it has left. The lock is held.
func (e *Engine) took(of *stay, r reading) {
	switch {
	case r.mono-of.started < slowAfter:
		e.quick(of.share, of.job)
	case of.apart:
		e.slow(of.share, of.job, true, r)
	}
}

// quick notes that something of a share was answered quickly. One answer alone proves little where
// others hang. The lock is held.
func (e *Engine) quick(s *share, j *job) {
	if s.good++; !s.slow || s.apart > 0 || s.good < slowMost {
		return
	}
	if s.stuck {
		e.note(func() {
			e.opts.Log.Info("requests are answered quickly again", "kind", j.kind.Kind, "namespace", j.object.Namespace)
		})
	}
	e.forgive(s)
}

// forgive forgets that a share took long. The lock is held.
func (e *Engine) forgive(s *share) {
	if s.stuck {
		e.stuckShares--
	}
	s.slow, s.stuck = false, false
}

// forgiveIdle does so for what has had nothing to do for long. The lock is held.
func (e *Engine) forgiveIdle(r reading) {
	idle := func(s *share) bool { return s.slow && s.inFlight == 0 && r.mono-s.since >= remembered }
	for _, q := range e.index.queues {
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

// patience is how long something may take before others no longer wait for it.
func (e *Engine) patience() time.Duration {
	if e.stuckShares > 0 {
		return waryAfter
	}
	return slowAfter
}

// untilApart returns how long until setApart is to be called, 0: nothing is under way.
func (e *Engine) untilApart(r reading) time.Duration {
	for _, of := range e.underway {
		if !of.over {
			return max(time.Millisecond, of.started+e.patience()-r.mono)
		}
	}
	return 0
}
