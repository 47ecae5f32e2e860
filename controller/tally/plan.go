package tally

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/loop"
)

// plan is the next step of a tally, the orphans included; nil while it must not do anything.
func (s *space) plan(t *tally, now, serverTime time.Time) *plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || !s.has(t) {
		return nil
	}
	if t.pending != nil {
		return t.pending
	}
	p := &plan{ledger: t.ledger.settle(func(uid types.UID) bool { return s.pods[uid].settled() })}
	settled := len(t.ledger.uncounted) - len(p.ledger.uncounted)
	mayWrite := t != s.orphans && (t.eager(settled) || t.unwritten(now, writeEvery))
	left := t.work[:0]
	for _, uid := range t.work {
		if !s.take(t, p, uid, mayWrite) {
			left = append(left, uid)
		}
	}
	t.work = left
	if mayWrite {
		p.status = *t.status.DeepCopy()
		p.ledger.write(&p.status)
		t.describe(&p.status, serverTime)
		p.write = t.edited != "" || !sameStatus(&p.status, &t.status) || t.active != t.status.Active && t.unwritten(now, idleEvery)
		p.status.Active = t.active
	}
	return p
}

// unwritten reports whether the status was not written for a while. A write in the future means that
// the clock was set back.
func (t *tally) unwritten(now time.Time, since time.Duration) bool {
	return now.Sub(t.wrote) >= since || now.Before(t.wrote)
}

// take takes a Pod into a plan, or off the work if it needs nothing. It reports whether either
// happened.
func (s *space) take(t *tally, into *plan, uid types.UID, mayWrite bool) bool {
	p := s.pods[uid]
	if p == nil || p.queued != t {
		return true // It is another tally's work by now, or no one's.
	}
	switch s.need(p) {
	case count:
		if !mayWrite || !into.ledger.fits(uid) {
			return false
		}
		into.ledger.add(uid, p.outcome())
		into.taken = append(into.taken, uid)
		s.listed[uid] = t
	case adopt:
		if len(into.adopts) == perRound {
			return false
		}
		copied := *p
		into.adopts = append(into.adopts, &copied)
	case release:
		if len(into.releases) == perRound {
			return false
		}
		into.releases = append(into.releases, new(*p))
	case nothing:
	}
	p.queued = nil
	return true
}

// confirm notes that the status of a plan is written. Now the finalizers of the Pods that it lists
// may be removed.
func (s *space) confirm(t *tally, p *plan, version string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.version, t.status, t.wrote, t.pending, t.edited = version, p.status, now, nil, ""
	s.unlist(t)
	for _, entry := range p.ledger.uncounted {
		s.listed[entry.uid] = t
	}
	t.ledger = p.ledger
}

// unlist forgets which Pods a status lists.
func (s *space) unlist(t *tally) {
	for _, entry := range t.ledger.uncounted {
		if s.listed[entry.uid] == t {
			delete(s.listed, entry.uid)
		}
	}
}

// abandon notes that the status of a plan was not written, and never will be.
func (s *space) abandon(t *tally, p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.pending = nil
	for _, uid := range p.taken {
		if s.listed[uid] == t {
			delete(s.listed, uid)
		}
		if known := s.pods[uid]; known != nil {
			s.enqueue(known)
		}
	}
}

// removals returns the Pods that a status lists and that still have to lose the finalizer. A Pod
// that lost it to another writer still needs the annotation: otherwise it could be adopted again.
func (s *space) removals(t *tally) []*pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*pod
	for _, entry := range t.ledger.uncounted {
		if p := s.pods[entry.uid]; !p.settled() && !p.refused {
			out = append(out, new(*p))
		}
	}
	return out
}

// changed reports whether one of some patched Pods has got, or lost, what the patches are about.
func (s *space) changed(patched []*pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(patched, func(was *pod) bool {
		now := s.pods[was.uid]
		return now == nil || now.removed != was.removed || now.held != was.held || now.counted != was.counted || now.released != was.released
	})
}

// again puts Pods back whose patches were not sent, or have failed.
func (s *space) again(pods []*pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		if known := s.pods[pod.uid]; known != nil {
			s.enqueue(known)
		}
	}
}

// hold keeps a plan whose status may have been written.
func (s *space) hold(t *tally, p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.pending = p
}

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
func (s *space) when(t *tally, now time.Time) (instant time.Time, ok bool) {
	instant = now
	switch since := now.Sub(t.wrote); {
	case !s.ready || !s.has(t) || t == s.orphans && len(t.work) == 0:
		return instant, false
	case t == s.orphans || since < 0 || t.eager(0):
	case len(t.work) > 0 || len(t.ledger.uncounted) > 0 || t.pending != nil:
		instant = t.wrote.Add(writeEvery)
	default:
		instant = t.wrote.Add(idleEvery)
	}
	if wait := t.notBefore.Sub(now); wait <= recheck && instant.Before(t.notBefore) {
		instant = t.notBefore
	}
	return instant, true
}

// rest ends a round. Another round does the remaining work; after a failure, later and later.
// After one that achieved nothing, the next is not at once: Pods may be changed in vain.
func (s *space) rest(t *tally, idle bool, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.due = time.Time{}
	if err == nil {
		if t.failures, t.notBefore = nil, (time.Time{}); idle {
			t.notBefore = now.Add(writeEvery)
		}
	} else {
		if t.failures == nil {
			t.failures = loop.NewBackoffOf(retryFirst, recheck)
		}
		t.notBefore = now.Add(min(t.failures.Next(), recheck))
	}
	settled, refused := 0, 0
	for _, entry := range t.ledger.uncounted {
		switch p := s.pods[entry.uid]; {
		case p.settled():
			settled++
		case p.refused:
			refused++ // It wakes the tally when it may be tried again.
		}
	}
	if settled >= writeAtOnce && err == nil {
		t.wrote = time.Time{} // They are counted at once.
	}
	if err != nil || len(t.work) > 0 || len(t.ledger.uncounted) > refused || t != s.orphans && t.active != t.status.Active {
		s.wake(t)
	}
}

// next is the tally with a name, nil if there is none, and how long it still has to wait after a
// failure. A wait that is longer than any failure causes means that the clock was set back.
func (s *space) next(name string, now time.Time) (next *tally, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all() {
		if t.name == name {
			next, wait = t, t.notBefore.Sub(now)
		}
	}
	if wait > recheck {
		wait = 0
	}
	return next, wait
}

// overtake notes that the known state of a tally cannot be trusted.
func (s *space) overtake(t *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.overtaken = true
}
