package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

const (
	// maxRound bounds how long patches of one round are begun. Those that are left come again.
	maxRound = 10 * time.Second
	// maxRequest bounds one request, and one write of a status with its conflicts.
	maxRequest = 30 * time.Second
)

// do has a round of a tally.
func (c *Controller) do(ctx context.Context, key string) {
	if !c.queue.Begin(key) {
		return
	}
	defer c.queue.End(key)
	namespace := namespaceOf(key)
	c.mu.Lock()
	w, t := c.spaces[namespace], c.work[key]
	c.mu.Unlock()
	if w == nil || t == nil {
		return
	}
	if wait := w.waits(t, c.options.Clock.Now()); wait > 0 { // It was woken during a round that failed.
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
	p := s.plan(t, c.options.Clock.Now())
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
	failures, refusals := new(failures), new(failures)
	var patches []func(context.Context) bool
	removals := s.removals(t)
	for _, one := range removals {
		patches = append(patches, c.patch(s, one, "count", counting(one.uid, t.uid), failures, refusals))
	}
	for _, one := range p.adopts {
		patches = append(patches, c.patch(s, one, "adopt", adoption(one), failures, refusals))
	}
	for _, one := range p.releases {
		patches = append(patches, c.patch(s, one, "release", releasing(one.uid, one.resourceVersion()), failures, refusals))
	}
	c.send(limited, patches)
	idle = !p.write && !s.changed(slices.Concat(removals, p.adopts, p.releases))
	s.again(p.adopts)
	s.again(p.releases)
	if err := refusals.error(); err != nil {
		c.log.Info("Pods could not be counted, trying again", "tally", s.namespace+"/"+t.name, "reason", err.Error())
	}
	return idle, failures.error()
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
	return !slices.ContainsFunc(counting, func(one *read) bool {
		return !slices.ContainsFunc(s.tallies, func(t *tally) bool { return t.uid == one.object.UID })
	})
}

// writePlan writes the status of a plan. When its answer is lost, the plan stays pending, and the
// same status is written again until its outcome is known.
func (c *Controller) writePlan(ctx context.Context, s *space, t *tally, p *plan) error {
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
	if t.pending == nil {
		now, err := c.options.ServerTime(ctx)
		if err != nil {
			s.abandon(t, p)
			return fmt.Errorf("the API server's time: %w", err)
		}
		t.describe(&p.status, now)
	}
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
	case errors.Is(err, errGone), errors.Is(err, errOvertaken):
		s.abandon(t, p)
	case refused(err) && t.pending != nil: // An earlier attempt may have been stored: read the status.
		s.hold(t, p)
		err = fmt.Errorf("%w: writing the status: %w", errOvertaken, err)
	case refused(err):
		s.abandon(t, p)
		err = fmt.Errorf("writing the status: %w", err)
	default:
		s.hold(t, p)
		err = fmt.Errorf("writing the status: %w", err)
	}
	return err
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
	failures := &failures{}
	var writes []func(context.Context) bool
	for _, t := range fresh {
		what := "taking over PodTally " + klog.KRef(namespace, t.name).String()
		writes = append(writes, c.request("status", failures, what, func(ctx context.Context) error {
			t.status.Transitions++
			version, err := c.options.Cluster.WriteStatus(ctx, namespace, t.name, t.uid, t.version, &t.status)
			if err == nil {
				t.version = version
			}
			return err
		}))
	}
	c.send(ctx, writes)
	if err := ctx.Err(); err != nil {
		return err // Some may not have been written.
	}
	return failures.error()
}

// request is one request of a step, for the pool. An object that is gone needs none.
func (c *Controller) request(step string, failures *failures, what string, send func(context.Context) error) func(context.Context) bool {
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, maxRequest)
		defer cancel()
		began := c.options.Clock.Now()
		err := send(ctx)
		c.metrics.step(step, began, c.options.Clock, err)
		if err != nil && !apierrors.IsNotFound(err) {
			failures.add(fmt.Errorf("%s: %w", what, err))
		}
		return overloaded(err)
	}
}

// overwrite writes a status over the one that was read.
func (c *Controller) overwrite(ctx context.Context, object *StoredTally, status *v1alpha1.PodTallyStatus) (string, error) {
	return c.options.Cluster.WriteStatus(ctx, object.Namespace, object.Name, object.UID, object.ResourceVersion, status)
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
			// It is gone, it was created again, or it has changed; or else a webhook chose the code.
			if read := c.reread(ctx, s, of); read != nil {
				failures.add(fmt.Errorf("reading Pod %s: %w", klog.KRef(s.namespace, of.name), read))
			} else if s.unchanged(of) {
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

const (
	// chores is how often Pods that are being deleted are checked.
	chores = 30 * time.Second
	// overdueAfter is how long after its grace period a Pod may still be running.
	overdueAfter = 30 * time.Second
)
