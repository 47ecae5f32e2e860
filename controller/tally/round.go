package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/controller/loop"
)

const (
	// maxRound bounds how long patches of one round are begun. Those that are left come again.
	maxRound = 10 * time.Second
	// maxRequest bounds one request.
	maxRequest = 30 * time.Second
)

// round does what a tally needs now: one write of its status, and the patches that it allows. A
// failure leaves everything to the next round, as a crash does.
func (c *Controller) round(ctx context.Context, s *space, t *tally) error {
	p := s.plan(t, c.options.Clock.Now())
	if p == nil {
		return nil // Its Pods are not known yet.
	}
	if p.write {
		if err := c.writePlan(ctx, s, t, p); err != nil {
			return err
		}
	}
	if err := c.checkOrphans(ctx, s, t, p); err != nil {
		s.again(p.releases)
		return err
	}
	limited, cancel := context.WithTimeout(ctx, maxRound)
	defer cancel()
	failures, refusals := new(failures), new(failures)
	var patches []func(context.Context) bool
	for _, one := range s.removals(t) {
		patches = append(patches, c.patch(s, one, "count", counting(one.uid, t.uid), failures, refusals))
	}
	for _, one := range p.adopts {
		patches = append(patches, c.patch(s, one, "adopt", adoption(one), failures, refusals))
	}
	for _, one := range p.releases {
		patches = append(patches, c.patch(s, one, "release", releasing(one.uid, one.resourceVersion()), failures, refusals))
	}
	c.send(limited, patches)
	s.again(p.adopts)
	s.again(p.releases)
	if err := refusals.error(); err != nil {
		c.log.Info("Pods could not be counted, trying again", "tally", s.namespace+"/"+t.name, "reason", err.Error())
	}
	return failures.error()
}

// checkOrphans returns an error if the Pods that are about to be released may belong to a PodTally
// that admission knows and this process does not. A Pod that is deleted right then would not count.
func (c *Controller) checkOrphans(ctx context.Context, s *space, t *tally, p *plan) error {
	if t != s.orphans || len(p.releases) == 0 {
		return nil
	}
	live, err := c.tallies(ctx, s.namespace)
	if err != nil {
		return err
	}
	if !s.knows(live) {
		return errOvertaken
	}
	return nil
}

// knows reports whether the known PodTallies are all there are.
func (s *space) knows(live []*StoredTally) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	counting, _ := split(live)
	return !slices.ContainsFunc(counting, func(one *read) bool {
		return !slices.ContainsFunc(s.tallies, func(t *tally) bool { return t.uid == one.object.UID })
	})
}

// patch is one patch of a Pod. One that is refused for this Pod delays no other. It reports whether
// the API server had too much to do.
func (c *Controller) patch(s *space, of *pod, step string, body []byte, failures, refusals *failures) func(context.Context) bool {
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, maxRequest)
		defer cancel()
		began := c.options.Clock.Now()
		meta, err := c.options.Cluster.Patch(ctx, s.namespace, of.name, body)
		c.metrics.step(step, began, c.options.Clock, err)
		switch {
		case err == nil:
			s.answered(of.uid, &meta.ObjectMeta)
			return false
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
			// It is gone, it was created again, or it has changed.
			if read := c.reread(ctx, s, of); read != nil {
				failures.add(fmt.Errorf("reading Pod %s: %w", klog.KRef(s.namespace, of.name), read))
			} else if apierrors.IsInvalid(err) && s.unchanged(of) {
				s.refuse(of)
				refusals.add(fmt.Errorf("patching Pod %s: %w", klog.KRef(s.namespace, of.name), err))
			}
		case refused(err) && !overloaded(err):
			s.refuse(of)
			refusals.add(fmt.Errorf("patching Pod %s: %w", klog.KRef(s.namespace, of.name), err))
		default:
			failures.add(fmt.Errorf("patching Pod %s: %w", klog.KRef(s.namespace, of.name), err))
		}
		return overloaded(err)
	}
}

// reread reads a Pod live.
func (c *Controller) reread(ctx context.Context, s *space, of *pod) error {
	live, err := c.options.Cluster.Pod(ctx, s.namespace, of.name)
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != of.uid:
		s.missing(of.uid)
	case err != nil:
		return err
	default:
		s.observe(live, true)
	}
	return nil
}

// overloaded reports whether an error says that fewer requests should be under way.
func overloaded(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, context.DeadlineExceeded)
}

// failures collects the errors of one round.
type failures struct {
	mu    sync.Mutex
	first error
	count int
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.first == nil {
		f.first = err
	}
}

func (f *failures) error() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > 1 {
		return fmt.Errorf("%d Pods, the first: %w", f.count, f.first)
	}
	return f.first
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
		t.notBefore = now.Add(min(t.failures.Next(), recheck))
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

// waits is how long a tally still has to wait after a failure; 0 if it need not. A wait that is
// longer than any failure causes means that the clock was set back.
func (s *space) waits(t *tally, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := t.notBefore.Sub(now); wait > 0 && wait <= recheck {
		return wait
	}
	return 0
}

// overtake notes that the known state of a tally cannot be trusted.
func (s *space) overtake(t *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.overtaken = true
}

// overdue finds Pods that are being deleted and will never finish: their Node is gone, or is not
// ready and they were force-deleted. Kubernetes would not keep such a Pod, even if it still runs.
// It reports whether the namespace has no tallies and may have to be left.
func (c *Controller) overdue(ctx context.Context, s *space) (idle bool) {
	s.retry()
	now, err := c.options.ServerTime(ctx)
	if err != nil {
		return false
	}
	states := map[string]NodeState{}
	waiting, idle := s.terminating(now.Add(-overdueAfter))
	for _, p := range waiting {
		state, known := states[p.node]
		if !known {
			if state, err = c.options.Cluster.Node(ctx, p.node); err != nil {
				c.log.Info("a Node could not be read, trying again", "object", klog.KRef("", p.node), "reason", err.Error())
				return idle
			}
			states[p.node] = state
		}
		if state == NodeGone || state == NodeNotReady && p.forced {
			s.lose(p)
		}
	}
	return idle
}
