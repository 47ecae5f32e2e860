package tally

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
)

// space is a namespace: its tallies, and the Pods that concern them. It is a state machine without
// requests; [Controller] carries out what plan asks for.
type space struct {
	namespace string

	mu   sync.Mutex
	pods map[types.UID]*pod
	// tallies, the oldest first.
	tallies []*tally
	// orphans are Pods with the finalizer that no tally selects: a tally without a status.
	orphans *tally
	// listed are the tallies in whose status a Pod waits to be counted. No other may list it.
	listed map[types.UID]*tally
	// deletions are Pods that Curfew is deleting, or has deleted. They are not adopted.
	deletions map[types.UID]bool
	// listing are the Pods that a list has shown so far; nil without one.
	listing map[types.UID]bool
	// ready: Pods and statuses are known, and the Pods were listed after the statuses were read. Only
	// then the finalizer of a Pod proves that no other process has counted it (S7).
	ready bool
	// conflicting are the younger tallies of the last Pod that had some. Pods mostly have the same,
	// which they share.
	conflicting []*tally
	// seen is the newest resourceVersion of all Pods.
	seen uint64
	// wake has a tally worked on. The lock is held.
	wake func(t *tally)
}

// setTallies replaces the tallies, and keeps the state of each that stays. The Pods have to be
// listed next.
func (s *space) setTallies(now []*tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.tallies = false, now
	s.listed = map[types.UID]*tally{}
	for _, t := range s.tallies {
		for _, entry := range t.ledger.uncounted {
			s.listed[entry.uid] = t
		}
		if t.pending != nil {
			for _, entry := range t.pending.ledger.uncounted {
				s.listed[entry.uid] = t
			}
		}
	}
}

// merge returns the state of tallies that were just read, the oldest first. It keeps what is known
// of them but the spec. The others are fresh: all of them if another process has written one status,
// since it may have taken over the others, too.
func (s *space) merge(read []*tally) (now, fresh []*tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[types.UID]*tally{}
	for _, t := range s.tallies {
		known[t.uid] = t
	}
	overtaken := slices.ContainsFunc(s.tallies, func(t *tally) bool { return t.overtaken })
	for _, t := range read {
		if old := known[t.uid]; old == nil || overtaken {
			fresh = append(fresh, t)
		} else {
			old.match, old.invalid = t.match, t.invalid
			t = old
		}
		now = append(now, t)
	}
	return now, fresh
}

// beginList begins a list of all Pods.
func (s *space) beginList() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = map[types.UID]bool{}
}

// endList drops the Pods that the list has not shown, and has all tallies worked on.
func (s *space) endList(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.pods {
		if !s.listing[uid] {
			s.drop(uid)
		}
	}
	for uid := range s.deletions {
		if !s.listing[uid] {
			delete(s.deletions, uid)
		}
	}
	s.listing, s.ready, s.seen = nil, true, max(s.seen, versionOf(version))
	for _, t := range s.all() {
		s.wake(t)
	}
}

func (s *space) all() []*tally { return append(slices.Clone(s.tallies), s.orphans) }

func (s *space) has(t *tally) bool { return t == s.orphans || slices.Contains(s.tallies, t) }

// observe takes over a state of a Pod from the list or the watch, or (live) from a request.
func (s *space) observe(from *corev1.Pod, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := readPod(from)
	if !live {
		s.seen = max(s.seen, p.version)
	}
	if s.listing != nil && !live {
		s.listing[p.uid] = true
	}
	p.keeper, p.others = s.match(from)
	known := s.pods[p.uid]
	if known == nil && live {
		return // The watch has shown its end.
	}
	if known != nil {
		s.account(known, -1)
		p.queued, p.lost = known.queued, known.lost
		if known.removed || p.version < known.version {
			// A request has shown a newer state already (S7), whose labels may be others. Only which
			// tallies exist may be news.
			known.unsure = known.unsure || known.keeper != p.keeper
			known.keeper, known.others = p.keeper, p.others
			p = known
		}
	}
	if s.pods[p.uid] = p; p.concerns(s) || live {
		s.account(p, 1)
		s.enqueue(p)
		return
	}
	delete(s.pods, p.uid)
}

// match finds the tally that counts a Pod, and the younger ones that match it, too.
func (s *space) match(from *corev1.Pod) (keeper *tally, others []*tally) {
	facts := policy.FactsOfPod(from)
	for _, t := range s.tallies {
		switch {
		case !t.match.Selects(facts):
		case keeper == nil:
			keeper = t
		default:
			others = append(others, t)
		}
	}
	if !slices.Equal(others, s.conflicting) {
		s.conflicting = others
	}
	return keeper, s.conflicting
}

// concerns reports whether a Pod has to be kept.
func (p *pod) concerns(s *space) bool {
	return p.keeper != nil || p.held || p.removed || s.listed[p.uid] != nil
}

// update changes what is known of a Pod.
func (s *space) update(uid types.UID, change func(*pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil {
		s.account(p, -1)
		change(p)
		s.account(p, 1)
		s.enqueue(p)
	}
}

// answered takes over the metadata that a request has shown.
func (s *space) answered(uid types.UID, meta *metav1.ObjectMeta) {
	s.update(uid, func(p *pod) {
		if !p.removed && versionOf(meta.ResourceVersion) >= p.version {
			p.readMeta(meta)
		}
	})
}

// gone takes a Pod away that the watch says is deleted.
func (s *space) gone(uid types.UID, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, versionOf(version))
	s.drop(uid)
}

// missing notes that a request has found a Pod to be gone, or another one under its name.
func (s *space) missing(uid types.UID) { s.update(uid, func(p *pod) { p.removed = true }) }

func (s *space) drop(uid types.UID) {
	delete(s.deletions, uid)
	if p := s.pods[uid]; p != nil {
		s.account(p, -1)
		delete(s.pods, uid)
		if t := s.listed[uid]; t != nil {
			s.wake(t)
		} else if p.keeper != nil {
			s.wake(p.keeper)
		}
	}
}

// account adds a Pod to the numbers of its tallies, or takes it away. They write that down, even if
// the Pod does not concern them any more.
func (s *space) account(p *pod, sign int64) {
	if p.running() {
		p.keeper.active += sign
		s.wake(p.keeper)
	}
	for _, t := range p.others {
		t.conflicts += sign
		s.wake(t)
	}
}

// enqueue has a Pod worked on that needs something, or that is about to be counted.
func (s *space) enqueue(p *pod) {
	t := cmp.Or(s.listed[p.uid], p.keeper, s.orphans)
	if s.need(p) != nothing && !p.refused && p.queued != t {
		p.queued = t
		t.work = append(t.work, p.uid)
	}
	s.wake(t)
}

// need is what a Pod needs next. One that a status lists loses its finalizer by removals. One that
// is being deleted is not adopted, or the deletion would never succeed.
func (s *space) need(p *pod) need {
	need := p.need()
	if s.listed[p.uid] != nil || need == adopt && s.deletions[p.uid] {
		return nothing
	}
	return need
}

// progress notes that the watch has shown everything up to a resourceVersion.
func (s *space) progress(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, versionOf(version))
}

// refuse has a Pod wait whose patch was refused. It returns false if a newer state is known.
func (s *space) refuse(patched *pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[patched.uid]
	if p == nil || p.removed || p.version != patched.version {
		return false
	}
	p.refused = true
	return true
}

// terminating are unfinished Pods whose grace period ended before a time. idle means that there are
// no tallies.
func (s *space) terminating(before time.Time) (out []*pod, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.running() && !p.deleting.IsZero() && p.deleting.Before(before) {
			out = append(out, new(*p))
		}
	}
	return out, len(s.tallies) == 0
}

// lose notes that a Pod can no longer run.
func (s *space) lose(uid types.UID) { s.update(uid, func(p *pod) { p.lost = true }) }

// retry has some Pods tried again whose patches were refused.
func (s *space) retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := perRound
	for _, p := range s.pods {
		if p.refused && left > 0 {
			left--
			p.refused = false
			s.enqueue(p)
		}
	}
}

// perRound is how many Pods one round adopts or releases: other tallies have their turn then.
const perRound = 500
