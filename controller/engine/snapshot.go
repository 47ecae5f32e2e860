package engine

import "time"

// Tracked is the number of objects that wait for their expiry or for their action.
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

// overdueNow counts the overdue objects and returns the age of the oldest. Objects that wait for
// the rate of backfill have no age: their expiry may lie years back although they are not late.
// While a pause holds a trigger, all objects may be overdue, so overdueNow walks the index chunk by
// chunk. The engine's lock is not held.
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
			// A blocked object may never be deleted. It is counted as blocked, and must not hide or
			// look like a backlog.
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
