package tally

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

const (
	// chores is how often Pods that are being deleted are checked.
	chores = 30 * time.Second
	// overdueAfter is how long after its grace period a Pod may still be running.
	overdueAfter = 30 * time.Second
)

// NodeState is what matters of a Node.
type NodeState uint8

// States of a Node. One that is not ready may still run its Pods.
const (
	NodeReady NodeState = iota
	NodeNotReady
	NodeGone
)

// stateOf is not ready where the Node says so. The node controller says it of one that is silent.
func stateOf(node *corev1.Node) NodeState {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return NodeNotReady
		}
	}
	return NodeReady
}

// overdue finds Pods that are being deleted and will never finish: their Node is gone, or is not
// ready and they were force-deleted. Kubernetes would not keep such a Pod, wherever it still runs.
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
