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
// rate of backfill has no age: its expiry may lie years back, although it is not late. While a pause
// holds a trigger there may be as much as there are objects, so that it is counted piece by piece.
// The engine's lock is not held.
func (e *Engine) overdueNow() (count int, oldest time.Duration) {
	r := e.read()
	e.mu.Lock()
	now, ok := e.checkClock(r) // It may be the first to notice a jump.
	if !ok {
		now = e.guard.best(r) // By a clock that is wrong nothing might be overdue.
	}
	some := e.late > len(e.blocked) || e.dueBy(now)
	e.unlock()
	first := now
	for c, more := 0, some; more; c++ {
		e.mu.Lock()
		more = e.index.each(c, func(slot uint32, en *entry) {
			late := en.flags&flagLate != 0
			// What is blocked for a reason of its own may never go. It is counted elsewhere, and must
			// not hide or feign a backlog.
			if _, blocked := e.blocked[slot]; blocked || !late && (en.state != stateArmed || en.expiry > now) {
				return
			}
			count++
			if late || en.flags&flagBackfill == 0 {
				first = min(first, en.expiry)
			}
		})
		e.unlock()
	}
	return count, time.Duration(now - first)
}
