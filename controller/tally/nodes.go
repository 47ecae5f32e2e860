package tally

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

const (
	// chores is how often Pods that are being deleted are checked.
	chores = 30 * time.Second
	// overdueAfter is how long after its grace period a Pod may still be running.
	overdueAfter = 30 * time.Second
)

// overdue finds Pods that are being deleted and will never finish, because their Node is gone. It
// reports whether the namespace has no tallies and may have to be left.
func (c *Controller) overdue(ctx context.Context, s *space) (idle bool) {
	s.retry()
	now, err := c.options.ServerTime(ctx)
	if err != nil {
		return false
	}
	gone := map[string]bool{}
	waiting, idle := s.terminating(now.Add(-overdueAfter))
	for _, p := range waiting {
		lost, known := gone[p.node]
		if !known {
			if lost, err = c.options.Cluster.NodeGone(ctx, p.node); err != nil {
				c.log.Info("a Node could not be read, trying again", "object", klog.KRef("", p.node), "reason", err.Error())
				return idle
			}
			gone[p.node] = lost
		}
		if lost {
			s.lose(p)
		}
	}
	return idle
}

// refuse has a Pod wait whose patch was refused.
func (s *space) refuse(of *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[of.uid]; p != nil && p.version == of.version {
		p.refused = true
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

// terminating are unfinished Pods whose grace period ended before a time. idle means that there are
// no tallies.
func (s *space) terminating(before time.Time) (out []*pod, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.running() && !p.deleting.IsZero() && p.deleting.Before(before) {
			copied := *p
			out = append(out, &copied)
		}
	}
	return out, len(s.tallies) == 0
}

// lose notes that the Node of a Pod is gone.
func (s *space) lose(of *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[of.uid]; p != nil && p.node == of.node {
		s.account(p, -1)
		p.nodeGone = true
		s.account(p, 1)
		s.enqueue(p)
	}
}
