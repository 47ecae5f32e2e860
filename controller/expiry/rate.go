package expiry

import "time"

// rate bounds how many deletions fall into any 60 seconds. It counts in slices of a second over monotonic time and looks
// back over the full minute and the slice it began in, so the bound is never exceeded, whatever the burst.
type rate struct {
	limit  int // 0: no bound
	slices [61]int
	total  int
	last   int64 // the slice that was written last, in seconds
}

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

// take counts one deletion, if there is room, and tells in which slice.
func (r *rate) take(mono time.Duration) (slice int64, ok bool) {
	if r.limit == 0 {
		return 0, true
	}
	r.advance(mono)
	if r.total >= r.limit {
		return 0, false
	}
	r.slices[r.last%int64(len(r.slices))]++
	r.total++
	return r.last, true
}

// giveBack uncounts one that take counted and that did not happen.
func (r *rate) giveBack(slice int64, mono time.Duration) {
	if r.limit == 0 {
		return
	}
	r.advance(mono)
	i := slice % int64(len(r.slices))
	if r.last-slice < int64(len(r.slices)) && r.slices[i] > 0 {
		r.slices[i]--
		r.total--
	}
}

// wait is how long until take may succeed; 0: now.
func (r *rate) wait(mono time.Duration) time.Duration {
	if r.limit == 0 {
		return 0
	}
	r.advance(mono)
	if r.total < r.limit {
		return 0
	}
	for back := int64(len(r.slices)) - 1; back >= 0; back-- {
		s := r.last - back
		if s >= 0 && r.slices[s%int64(len(r.slices))] > 0 {
			return time.Duration(s+int64(len(r.slices)))*time.Second - mono
		}
	}
	return time.Second
}
