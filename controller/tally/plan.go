package tally

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/loop"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// tally is a PodTally and its known state.
type tally struct {
	name  string
	uid   types.UID
	match *match.Tally

	// version and status belong to the PodTally as it was last read or written, and ledger is the
	// exact part of that status.
	version string
	status  v1alpha1.PodTallyStatus
	ledger  ledger
	// pending is a write whose answer was lost. Nothing else is done until its outcome is known: a Pod
	// that it lists may be as good as counted.
	pending *plan
	wrote   time.Time
	// generation is the generation of the newest spec, and invalid its error.
	generation int64
	invalid    error
	edited     string // who else has written the status
	overtaken  bool   // by another process
	current    bool   // it is one of the namespace's

	// active are Pods with the finalizer that have not finished, conflicts the Pods that an older
	// tally holds.
	active, conflicts int64
	// work are Pods that may need something, the longest waiting first.
	work []types.UID
	// due is when it is worked on next, and notBefore when it may be after failures.
	due, notBefore time.Time
	failures       *loop.Backoff
}

// perRound is how many Pods one round adopts or releases: other tallies have their turn then.
const perRound = 500

// plan is what a tally needs next: first the status, if write is set, and after that the patches.
type plan struct {
	write  bool
	ledger ledger
	status v1alpha1.PodTallyStatus
	// taken are the Pods that this plan lists.
	taken []types.UID
	// adopts and releases are Pods that get or lose the finalizer without being counted.
	adopts, releases []*pod
	// more: there is work that had no room.
	more bool
}

// plan is the next step of a tally, the orphans included; nil while it must not do anything.
func (s *space) plan(t *tally, now time.Time) *plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || !t.current {
		return nil
	}
	if t.pending != nil {
		return t.pending
	}
	p := &plan{ledger: t.ledger.settle(func(uid types.UID) bool { return s.pods[uid].settled() })}
	settled := len(t.ledger.uncounted) - len(p.ledger.uncounted)
	mayWrite := t != s.orphans && (t.eager(settled) || now.Sub(t.wrote) >= writeEvery || now.Before(t.wrote))
	left := t.work[:0]
	for _, uid := range t.work {
		if !s.take(t, p, uid, mayWrite) {
			left = append(left, uid)
		}
	}
	t.work = left
	p.status = *t.status.DeepCopy()
	p.ledger.write(&p.status)
	p.status.Active = t.active
	p.write = mayWrite && t.worthWriting(p, settled, now)
	p.more = len(left) > 0
	return p
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
		if s.listed[uid] != nil {
			break
		}
		if !mayWrite || !into.ledger.fits(uid) {
			return false
		}
		into.ledger.add(uid, p.outcome())
		into.taken = append(into.taken, uid)
		s.listed[uid] = t
	case adopt:
		if s.listed[uid] != nil {
			break
		}
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

// worthWriting reports whether a status says something new.
func (t *tally) worthWriting(p *plan, settled int, now time.Time) bool {
	if settled > 0 || len(p.taken) > 0 || t.status.StartTime == nil || t.edited != "" || excluded(&t.status) {
		return true
	}
	if t.status.ObservedGeneration != t.generation || t.conflicts > 0 != meta.IsStatusConditionTrue(t.status.Conditions, v1alpha1.ConditionConflicting) {
		return true
	}
	return p.status.Active != t.status.Active && (now.Sub(t.wrote) >= idleEvery || now.Before(t.wrote))
}

// confirm notes that the status of a plan is written. Now the finalizers of the Pods that it lists
// may be removed.
func (s *space) confirm(t *tally, p *plan, version string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.version, t.status, t.wrote, t.pending, t.edited = version, p.status, now, nil, ""
	s.unlist(t)
	for _, one := range p.ledger.uncounted {
		s.listed[one.uid] = t
	}
	t.ledger = p.ledger
}

// unlist forgets which Pods a status lists.
func (s *space) unlist(t *tally) {
	for _, one := range t.ledger.uncounted {
		if s.listed[one.uid] == t {
			delete(s.listed, one.uid)
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
	for _, one := range t.ledger.uncounted {
		if p := s.pods[one.uid]; !p.settled() && !p.refused {
			out = append(out, new(*p))
		}
	}
	return out
}

// again puts Pods back whose patches were not sent, or have failed.
func (s *space) again(pods []*pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range pods {
		if known := s.pods[one.uid]; known != nil {
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
