package deletion

import "time"

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
