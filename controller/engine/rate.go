package engine

import "time"

// rate bounds how many deletions fall into any 60 seconds. When an object goes is known no better than that it is between request and answer:
// so a deletion counts from when it is sent until a minute after its answer. It counts in slices of a second over monotonic time and
// looks back over the full minute and the slice it began in, so the bound is never exceeded, whatever the burst.
type rate struct {
	limit    int // 0: no bound
	underway int
	slices   [61]int // deletions by the second of their answer
	total    int
	last     int64 // the slice that was written last, in seconds
	// claims is how many deletions Reserve asked for in vain lately, the last time at claimed. So much room is left to
	// it: a backlog of the engine's own takes all room the moment there is any. It is never more than half of the limit.
	claims  int
	claimed time.Duration
}

// claimFor is how long room is left for a claim. Who is refused asks again sooner.
const claimFor = 10 * time.Second

func (r *rate) advance(mono time.Duration) {
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

// take counts one deletion that is about to be asked for, if there is room.
func (r *rate) take(mono time.Duration) bool {
	if r.wait(mono) > 0 {
		return false
	}
	r.underway++
	return true
}

// reserve is take for what the engine does not send itself.
func (r *rate) reserve(mono time.Duration) bool {
	r.advance(mono)
	if r.limit > 0 && r.total+r.underway >= r.limit {
		r.claims, r.claimed = min(r.claims+1, (r.limit+1)/2), mono
		return false
	}
	r.claims = max(0, r.claims-1)
	r.underway++
	return true
}

// exhaust takes all of a minute's room: nobody knows how many deletions another process sent before this one.
func (r *rate) exhaust(mono time.Duration) {
	r.advance(mono)
	if more := r.limit - r.total; more > 0 {
		r.slices[r.last%int64(len(r.slices))] += more
		r.total += more
	}
}

// settle says what became of one that take counted: whether it may have happened.
func (r *rate) settle(mono time.Duration, happened bool) {
	r.underway--
	if happened && r.limit > 0 {
		r.advance(mono)
		r.slices[r.last%int64(len(r.slices))]++
		r.total++
	}
}

// Reserve takes one deletion from the budget of MaxDeletionsPerMinute, for a DELETE that the engine does not
// send itself. ok is false where there is no room now. Else call settle once, with whether the deletion
// happened, or may have happened.
func (e *Engine) Reserve() (settle func(happened bool), ok bool) {
	e.mu.Lock()
	defer e.unlock()
	if !e.all.reserve(e.read().mono) {
		return nil, false
	}
	return func(happened bool) {
		e.mu.Lock()
		defer e.unlock()
		e.all.settle(e.read().mono, happened)
	}, true
}

// wait is how long until take may succeed, if no answer comes before; 0: now.
func (r *rate) wait(mono time.Duration) time.Duration {
	if r.limit == 0 {
		return 0
	}
	r.advance(mono)
	if r.claims > 0 && mono-r.claimed >= claimFor {
		r.claims = 0
	}
	if r.total+r.underway+r.claims < r.limit {
		return 0
	}
	if r.total+r.underway < r.limit {
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
