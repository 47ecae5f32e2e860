package engine

import "time"

// Tracked is how many objects wait for their expiry or its being carried out.
func (e *Engine) Tracked() int {
	e.mu.Lock()
	defer e.unlock()
	return e.trackedNow()
}

// trackedNow is Tracked with the lock held.
func (e *Engine) trackedNow() (n int) {
	for _, k := range e.kinds {
		if k != nil {
			n += k.tracked
		}
	}
	return n
}

// overdueNow counts what is due and not done, and returns the age of the oldest. What waits for the
// rate of backfill has no age: its expiry may lie years back, although it is not late. The
// engine's lock is not held.
func (e *Engine) overdueNow() (count int, oldest time.Duration) {
	r := e.read()
	e.mu.Lock()
	now, ok := e.checkClock(r) // It may be the first to notice a jump.
	if !ok {
		now = e.guard.best(r) // By a clock that is wrong nothing might be overdue.
	}
	first := now
	// What is blocked for a reason of its own may never go. It is counted elsewhere, and must not
	// hide or feign a backlog.
	count = e.late - len(e.blocked)
	late := count > 0
	for _, q := range e.index.queues {
		q.partitions(func(p *partition) {
			for _, h := range p.heaps() {
				e.index.eachBefore(h, now, func(en *entry) {
					if en.state == stateArmed && en.flags&flagLate == 0 && en.expiry <= now {
						count++
						if h != &p.backfill {
							first = min(first, en.expiry)
						}
					}
				})
			}
		})
	}
	e.unlock()
	// Entries that wait for another attempt are in the heap by that instant, not by their expiry.
	for c, more := 0, late; more; c++ {
		e.mu.Lock()
		more = e.index.each(c, func(slot uint32, en *entry) {
			if _, blocked := e.blocked[slot]; en.flags&flagLate != 0 && !blocked {
				first = min(first, en.expiry)
			}
		})
		e.unlock()
	}
	return count, time.Duration(now - first)
}
