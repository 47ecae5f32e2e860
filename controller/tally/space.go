package tally

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/tally"
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

func newSpace(namespace string, wake func(t *tally)) *space {
	s := &space{namespace: namespace, pods: map[types.UID]*pod{}, listed: map[types.UID]*tally{}, deletions: map[types.UID]bool{}, wake: wake}
	s.orphans = &tally{current: true}
	return s
}

// setTallies replaces the tallies, and keeps the state of each that stays. The Pods have to be
// listed next.
func (s *space) setTallies(now []*tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = false
	for _, t := range s.tallies {
		t.current = false
	}
	s.tallies = slices.Clone(now)
	slices.SortFunc(s.tallies, func(a, b *tally) int {
		if a.match.Before(b.match) {
			return -1
		}
		return 1
	})
	s.listed = map[types.UID]*tally{}
	for _, t := range s.tallies {
		t.current = true
		for _, one := range t.ledger.uncounted {
			s.listed[one.uid] = t
		}
		if t.pending != nil {
			for _, one := range t.pending.ledger.uncounted {
				s.listed[one.uid] = t
			}
		}
	}
}

// kept returns the tallies that need no new read. If another process has written one status, it may
// have taken over the others, too.
func (s *space) kept() map[types.UID]*tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[types.UID]*tally{}
	for _, t := range s.tallies {
		if t.overtaken {
			return nil
		}
		out[t.uid] = t
	}
	return out
}

// respec takes over the spec of a tally.
func (s *space) respec(t *tally, compiled *match.Tally, generation int64, invalid field.ErrorList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.match, t.generation, t.invalid = compiled, generation, invalid
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
		p.queued, p.lost = known.queued, known.lost && known.node == p.node
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
	if slices.Equal(others, s.conflicting) {
		return keeper, s.conflicting
	}
	s.conflicting = others
	return keeper, others
}

// concerns reports whether a Pod has to be kept.
func (p *pod) concerns(s *space) bool {
	return p.keeper != nil || p.held || p.removed || s.listed[p.uid] != nil
}

// answered takes over the metadata that a request has shown.
func (s *space) answered(uid types.UID, meta *metav1.ObjectMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil || p.removed || versionOf(meta.ResourceVersion) < p.version {
		return
	}
	s.account(p, -1)
	p.readMeta(meta)
	s.account(p, 1)
	s.enqueue(p)
}

// gone takes a Pod away that the watch says is deleted.
func (s *space) gone(uid types.UID, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, versionOf(version))
	s.drop(uid)
}

// missing notes that a request has found a Pod to be gone, or another one under its name.
func (s *space) missing(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil {
		s.account(p, -1)
		p.removed = true
		s.account(p, 1)
		s.enqueue(p)
	}
}

// unchanged reports whether nothing is known of a Pod that is newer than a state.
func (s *space) unchanged(of *pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[of.uid]
	return p != nil && !p.removed && p.version == of.version
}

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
	if t := s.listed[p.uid]; t != nil {
		s.wake(t)
		return
	}
	t := p.keeper
	if t == nil {
		t = s.orphans
	}
	if s.need(p) != nothing && !p.refused && p.queued != t {
		p.queued = t
		t.work = append(t.work, p.uid)
	}
	s.wake(t)
}

// need is what a Pod needs next. One that is being deleted is not adopted, or the deletion would
// never succeed.
func (s *space) need(p *pod) need {
	need := p.need()
	if need == adopt && s.deletions[p.uid] {
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

// refuse has a Pod wait whose patch was refused.
func (s *space) refuse(of *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[of.uid]; p != nil && p.version == of.version {
		p.refused = true
	}
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
func (s *space) lose(of *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[of.uid]; p != nil && p.node == of.node {
		s.account(p, -1)
		p.lost = true
		s.account(p, 1)
		s.enqueue(p)
	}
}

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
