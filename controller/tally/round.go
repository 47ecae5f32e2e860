package tally

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	// errGone: the tally was deleted, or created again under its name.
	errGone = errors.New("the PodTally is gone")
	// errOvertaken: another Curfew process has written the status. The known state of the Pods is
	// older than that, so they are listed again.
	errOvertaken = errors.New("PodTallies were changed, or another process counts them")
)

// maxRound bounds how long patches of one round are begun. Those that are left come again.
const maxRound = 10 * time.Second

// do has a round of a tally.
func (c *Controller) do(ctx context.Context, key string) {
	if !c.queue.Begin(key) {
		return
	}
	defer c.queue.End(key)
	namespace, name, _ := strings.Cut(key, "/")
	w := c.space(namespace)
	if w == nil {
		return
	}
	t, wait := w.next(name, c.options.Clock.Now())
	if t == nil {
		return
	}
	if wait > 0 { // It was woken during a round that failed.
		c.queue.AddAfter(key, wait)
		return
	}
	idle, err := c.round(ctx, w.space, t)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, errGone), errors.Is(err, errOvertaken):
		c.log.Info("reading PodTallies and Pods again", "namespace", namespace, "reason", err.Error())
		w.overtake(t)
		w.Again()
	case err != nil:
		c.log.Info("Pods could not be counted, trying again", "tally", key, "reason", err.Error())
	}
	w.rest(t, idle, err, c.options.Clock.Now())
}

// round does what a tally needs now: one write of its status, and the patches that it allows. A
// failure leaves everything to the next round, as a crash does. idle: it has achieved nothing.
func (c *Controller) round(ctx context.Context, s *space, t *tally) (idle bool, err error) {
	now, err := c.options.ServerTime(ctx)
	if err != nil {
		return false, fmt.Errorf("the API server's time: %w", err)
	}
	p := s.plan(t, c.options.Clock.Now(), now)
	if p == nil {
		return false, nil // Its Pods are not known yet.
	}
	if p.write {
		if err := c.writePlan(ctx, s, t, p); err != nil {
			return false, err
		}
	}
	if err := c.checkOrphans(ctx, s, t, p); err != nil {
		s.again(p.releases)
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, maxRound)
	defer cancel()
	var refusal atomic.Pointer[error]
	var patches []request
	removals := s.removals(t)
	for _, removal := range removals {
		patches = append(patches, c.patch(s, removal, "count", counting(removal.uid, t.uid), &refusal))
	}
	for _, adopted := range p.adopts {
		patches = append(patches, c.patch(s, adopted, "adopt", adoption(adopted), &refusal))
	}
	for _, released := range p.releases {
		patches = append(patches, c.patch(s, released, "release", releasing(released.uid, released.resourceVersion()), &refusal))
	}
	err = c.send(limited, patches)
	idle = !p.write && !s.changed(slices.Concat(removals, p.adopts, p.releases))
	s.again(slices.Concat(p.adopts, p.releases))
	if denied := refusal.Load(); denied != nil {
		c.log.Info("Pods could not be counted, trying again", "tally", s.namespace+"/"+t.name, "reason", (*denied).Error())
	}
	return idle, err
}

// checkOrphans returns an error if the Pods that are about to be released may belong to a PodTally
// that admission knows and this process does not. A Pod that is deleted right then would not count.
func (c *Controller) checkOrphans(ctx context.Context, s *space, t *tally, p *plan) error {
	if t != s.orphans || len(p.releases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
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
	return !slices.ContainsFunc(counting, func(read *tally) bool {
		return !slices.ContainsFunc(s.tallies, func(t *tally) bool { return t.uid == read.uid })
	})
}

// writePlan writes the status of a plan. When its answer is lost, the plan stays pending, and the
// same status is written again until its outcome is known.
func (c *Controller) writePlan(ctx context.Context, s *space, t *tally, p *plan) error {
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
	began := c.options.Clock.Now()
	version, err := c.put(ctx, s, t, p)
	c.metrics.step("status", began, c.options.Clock, err)
	switch {
	case err == nil:
		c.metrics.counted.WithLabelValues("succeeded").Add(float64(p.ledger.succeeded - t.ledger.succeeded))
		c.metrics.counted.WithLabelValues("failed").Add(float64(p.ledger.failed - t.ledger.failed))
		if held := heldBy(&p.status); held != heldBy(&t.status) && held != "" {
			c.warn(s.namespace, t, v1alpha1.ReasonNeedsNewerVersion, held)
		}
		s.confirm(t, p, version, c.options.Clock.Now())
		return nil
	case errors.Is(err, errGone), errors.Is(err, errOvertaken), refused(err) && t.pending == nil:
		s.abandon(t, p)
	default:
		s.hold(t, p)
		if refused(err) { // An earlier attempt may have been stored: read the status.
			err = fmt.Errorf("%w: %w", errOvertaken, err)
		}
	}
	return fmt.Errorf("writing the status: %w", err)
}

// put writes a status over the one that is known.
func (c *Controller) put(ctx context.Context, s *space, t *tally, p *plan) (version string, err error) {
	err = follow.Overwrite(ctx, c.options.Clock, errGone, func(ctx context.Context) (err error) {
		version, err = c.options.Cluster.WriteStatus(ctx, s.namespace, t.name, t.uid, t.version, &p.status)
		return err
	}, func(ctx context.Context) (written bool, err error) {
		live, err := c.options.Cluster.Tally(ctx, s.namespace, t.name)
		switch {
		case err != nil:
			return false, err
		case live.UID != t.uid:
			return false, errGone
		case sameStatus(&live.Status, &p.status): // The answer to an earlier attempt was lost.
			version, written = live.ResourceVersion, true
		case live.Status.Transitions > t.status.Transitions:
			return false, errOvertaken
		case sameStatus(&live.Status, &t.status): // Something else of the object has changed.
		case live.Editor == "":
			return false, errOvertaken
		default:
			// What this process knows is what the status has to say: no one else counts.
			c.edited(s.namespace, t, live.Editor, "Curfew has restored it")
		}
		t.version = live.ResourceVersion
		return written, nil
	})
	return version, err
}

// takeOver raises status.transitions of tallies that this process begins to count. Any other that
// still counts them fails at its next write. Otherwise two of them could each list a Pod in the
// status of another tally, if one has not heard yet that it moved (S7).
func (c *Controller) takeOver(ctx context.Context, namespace string, fresh []*tally) error {
	var writes []request
	for _, t := range fresh {
		what := "taking over PodTally " + klog.KRef(namespace, t.name).String()
		writes = append(writes, c.request("status", what, func(ctx context.Context) error {
			t.status.Transitions++
			version, err := c.options.Cluster.WriteStatus(ctx, namespace, t.name, t.uid, t.version, &t.status)
			if err == nil {
				t.version = version
			}
			return err
		}))
	}
	return cmp.Or(c.send(ctx, writes), ctx.Err()) // After the end of ctx some may not have been written.
}

// request is one request of a step. An object that is gone needs none.
func (c *Controller) request(step, what string, send request) request {
	return func(ctx context.Context) error {
		began := c.options.Clock.Now()
		err := send(ctx)
		c.metrics.step(step, began, c.options.Clock, err)
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s: %w", what, err)
	}
}

// patch is one patch of a Pod. If it is refused, the Pod waits for the next chores and delays no
// other. A refusal that concerns this Pod alone is no error of the round.
func (c *Controller) patch(s *space, p *pod, step string, body []byte, refusal *atomic.Pointer[error]) request {
	return func(ctx context.Context) error {
		began := c.options.Clock.Now()
		meta, err := c.options.Cluster.Patch(ctx, s.namespace, p.name, body)
		c.metrics.step(step, began, c.options.Clock, err)
		if err == nil {
			s.answered(p.uid, &meta.ObjectMeta)
			return nil
		}
		err = fmt.Errorf("patching Pod %s: %w", klog.KRef(s.namespace, p.name), err)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			// It is gone, it was created again, or it has changed; or else a webhook chose the code.
			err = cmp.Or(c.reread(ctx, s, p), err)
		}
		busy := overloaded(err)
		if !busy && !refused(err) {
			return err
		}
		if waits := s.refuse(p); waits && !busy {
			refusal.Store(&err)
		}
		if busy {
			return err
		}
		return nil
	}
}

// reread reads a Pod live.
func (c *Controller) reread(ctx context.Context, s *space, p *pod) error {
	live, err := c.options.Cluster.Pod(ctx, s.namespace, p.name)
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != p.uid:
		s.missing(p.uid)
	case err != nil:
		return fmt.Errorf("reading Pod %s: %w", klog.KRef(s.namespace, p.name), err)
	default:
		s.observe(live, true)
	}
	return nil
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
			s.lose(p.uid)
		}
	}
	return idle
}

const (
	// chores is how often Pods that are being deleted are checked.
	chores = 30 * time.Second
	// overdueAfter is how long after its grace period a Pod may still be running.
	overdueAfter = 30 * time.Second
)
