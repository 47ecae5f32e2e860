package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Tracked is how many objects wait for their expiry or its being carried out.
func (e *Engine) Tracked() int {
	e.mu.Lock()
	defer e.unlock()
	n := 0
	for _, k := range e.kinds {
		if k != nil {
			n += k.tracked
		}
	}
	return n
}

// Lookup returns what is known of one object: where it is tracked for several reasons, the one that
// comes first.
func (e *Engine) Lookup(uid types.UID) (Status, bool) {
	e.mu.Lock()
	defer e.unlock()
	var first Status
	found := false
	for _, slot := range e.index.entriesOf(uid) {
		if e.index.at(slot).state == stateTombstone {
			continue
		}
		if s := e.status(slot); !found || s.Object.Expiry.Before(first.Object.Expiry) {
			first, found = s, true
		}
	}
	return first, found
}

func (e *Engine) status(slot uint32) Status {
	en := e.index.at(slot)
	s := Status{Object: e.index.object(slot), Attempts: int(en.attempts), State: Waiting}
	if en.pos >= 0 {
		s.Next = time.Unix(0, en.wake).UTC()
	}
	switch {
	case en.state == stateInFlight:
		s.State = InFlight
	case en.state == stateReported:
		s.State = Reported
	case en.state == stateTerminating && en.flags&flagStuck != 0:
		s.State = Stuck
	case en.state == stateTerminating:
		s.State = Terminating
	case en.flags&flagLate != 0:
		s.State = Retrying
	}
	return s
}

// overdueNow counts what is due and not done, and finds the oldest. The engine's lock is not held.
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
		for _, h := range []*heap{&q.due, &q.backfill} {
			e.index.eachBefore(h, now, func(en *entry) {
				if en.state == stateArmed && en.flags&flagLate == 0 && en.expiry <= now {
					count++
					first = min(first, en.expiry)
				}
			})
		}
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
