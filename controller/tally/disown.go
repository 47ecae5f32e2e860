package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/action"
)

// Disowning is a deletion of Curfew's. A Pod that has not finished is released first, and never
// counted: it did not fail by itself.
type Disowning struct {
	Next action.Action
	// Tally is the controller that counts.
	Tally func() *Controller
}

// Do implements action.Action. Between the state that was judged and the one that is deleted there
// is nothing but the release (S1).
func (d Disowning) Do(ctx context.Context, due action.Due) action.Result {
	if due.Resource.GroupResource() != podResource.GroupResource() || due.DryRun {
		return d.Next.Do(ctx, due)
	}
	version, err := d.Tally().disown(ctx, &due)
	switch {
	case errors.Is(err, errNotKnown):
		return action.Result{Outcome: action.Again, After: time.Second}
	case apierrors.IsNotFound(err):
		return action.Result{Outcome: action.Gone}
	case err != nil:
		out, _ := action.FailureOf(fmt.Errorf("releasing it from its PodTally: %w", err))
		return out
	}
	due.ResourceVersion = version
	return d.Next.Do(ctx, due)
}

// errNotKnown: the tallies and Pods are not known yet.
var errNotKnown = errors.New("PodTallies are not known yet")

// disown releases an unfinished Pod that is about to be deleted, and returns the resourceVersion
// that it has then.
func (c *Controller) disown(ctx context.Context, due *action.Due) (string, error) {
	tallies, err := c.options.Tallies.In(due.Namespace)
	w := c.space(due.Namespace)
	switch {
	case err != nil, w == nil && len(tallies) > 0, w != nil && !w.known():
		return "", errNotKnown
	case w == nil:
		return due.ResourceVersion, nil
	}
	keeper, known := w.keeperOf(due.UID, due.ResourceVersion)
	if !known {
		live, err := c.options.Cluster.Pod(ctx, due.Namespace, due.Name)
		if err != nil {
			return "", err
		}
		if live.UID != due.UID || live.ResourceVersion != due.ResourceVersion {
			return due.ResourceVersion, nil // The deletion will find that out.
		}
		if keeper, known = w.keeperOfPod(live); !known {
			return "", errNotKnown
		}
	}
	if keeper == "" {
		return due.ResourceVersion, nil
	}
	began := c.options.Clock.Now()
	meta, err := c.options.Cluster.Patch(ctx, due.Namespace, due.Name, disowning(due.UID, due.ResourceVersion, keeper))
	c.metrics.step("release", began, c.options.Clock, err)
	if err != nil {
		return "", err
	}
	w.answered(due.UID, &meta.ObjectMeta)
	return meta.ResourceVersion, nil
}

// known reports whether tallies and Pods are known.
func (s *space) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// keeperOf is the tally that a Pod would be taken from, or "". It is not known if the watch has not
// shown that state of the Pod yet.
func (s *space) keeperOf(uid types.UID, version string) (keeper types.UID, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, at := s.pods[uid], versionOf(version)
	switch {
	case p == nil && s.seen < at, p != nil && (p.version != at || p.unsure || p.orphaned()):
		return "", false
	case p == nil || !p.running():
		return "", true
	}
	return p.keeper.uid, true
}

// keeperOfPod is the same for a live state.
func (s *space) keeperOfPod(live *corev1.Pod) (keeper types.UID, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := readPod(live)
	switch p.keeper, _ = s.match(live); {
	case p.orphaned():
		return "", false
	case !p.running():
		return "", true
	}
	return p.keeper.uid, true
}
