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
)

const (
	// roundMost bounds how long patches of one round are begun. Those that are left come again.
	roundMost = 10 * time.Second
	// requestMost bounds one request.
	requestMost = 30 * time.Second
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
	limited, cancel := context.WithTimeout(ctx, roundMost)
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

// checkOrphans is an error if the Pods that are about to be released may belong to a PodTally that
// admission has heard of and this process has not. One that is deleted right then would not count.
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

// knows reports whether there are no other PodTallies than those that are known.
func (s *space) knows(live []*Object) bool {
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
		ctx, cancel := context.WithTimeout(ctx, requestMost)
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
