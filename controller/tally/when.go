package tally

import (
	"time"

	"curfew.dev/curfew/controller/loop"
)

const (
	// writeEvery is the time between two writes of a status that counts few Pods, and idleEvery that
	// between two that only say how many Pods are active.
	writeEvery = time.Second
	idleEvery  = 5 * time.Second
	// writeAtOnce is how many Pods make a write worth while at any time.
	writeAtOnce = 100
)

// eager reports whether the next write need not wait: it is the first, it counts many Pods, or many
// wait to be listed and there is room.
func (t *tally) eager(settled int) bool {
	room := maxUncounted - len(t.ledger.uncounted)
	return t.status.StartTime == nil || settled >= writeAtOnce || len(t.work) >= writeAtOnce && room >= writeAtOnce
}

// when is the time at which a tally should have a round; not ok if it needs none.
func (s *space) when(t *tally, now time.Time) (at time.Time, ok bool) {
	at = now
	switch since := now.Sub(t.wrote); {
	case !s.ready || !t.current || t == s.orphans && len(t.work) == 0:
		return at, false
	case t == s.orphans || since < 0 || t.eager(0):
	case len(t.work) > 0 || len(t.ledger.uncounted) > 0 || t.pending != nil:
		at = t.wrote.Add(writeEvery)
	default:
		at = t.wrote.Add(idleEvery)
	}
	if at.Before(t.notBefore) {
		at = t.notBefore
	}
	return at, true
}

// rest ends a round. Another round does the remaining work; after a failure, later and later.
func (s *space) rest(t *tally, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.due = time.Time{}
	if err == nil {
		t.failures, t.notBefore = nil, time.Time{}
	} else {
		if t.failures == nil {
			t.failures = loop.NewBackoffOf(retryFirst, recheck)
		}
		t.notBefore = now.Add(t.failures.Next())
	}
	settled := 0
	for _, one := range t.ledger.uncounted {
		if s.pods[one.uid].settled() {
			settled++
		}
	}
	if settled >= writeAtOnce && err == nil {
		t.wrote = time.Time{} // They are counted at once.
	}
	if err != nil || len(t.work) > 0 || len(t.ledger.uncounted) > 0 || t != s.orphans && t.active != t.status.Active {
		s.wake(t)
	}
}

// overtake notes that the known state of a tally cannot be trusted.
func (s *space) overtake(t *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.overtaken = true
}
