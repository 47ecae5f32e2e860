package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	match "curfew.dev/curfew/policy/tally"
)

// Disowning is a deletion of Curfew's. A Pod that has not finished is released first, and not
// counted: it did not fail by itself. If it cannot be deleted, its tally adopts it again.
type Disowning struct {
	Next deletion.Action
	// Tally is the controller that counts.
	Tally func() *Controller
}

// Do implements deletion.Action. Between the state that was judged and the one that is deleted there
// is nothing but the release (S1).
func (d Disowning) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	if due.Resource.GroupResource() != podResource.GroupResource() || due.DryRun {
		return d.Next.Do(ctx, due)
	}
	c := d.Tally()
	version, err := c.disown(ctx, &due)
	var out deletion.Answer
	switch {
	case errors.Is(err, errNotKnown):
		out = deletion.Answer{Outcome: deletion.Again, After: time.Second}
	case errors.Is(err, errUnlisted):
		out = deletion.Answer{Outcome: deletion.Refused, Err: err}
	case err != nil:
		out, _ = deletion.FailureOf(fmt.Errorf("releasing it from its PodTally: %w", err))
		if apierrors.IsNotFound(err) && out.Origin == deletion.FromResource {
			out = deletion.Answer{Outcome: deletion.Gone}
		}
	default:
		due.ResourceVersion = version
		out = d.Next.Do(ctx, due)
	}
	if w := c.space(due.Namespace); w != nil && out.Outcome != deletion.Done && out.Outcome != deletion.Gone {
		w.undeleted(due.UID)
	}
	return out
}

// errNotKnown: the tallies and Pods are not known yet.
var errNotKnown = errors.New("PodTallies are not known yet")

// disown releases an unfinished Pod that is about to be deleted, and returns the resourceVersion
// that it has then.
func (c *Controller) disown(ctx context.Context, due *deletion.Due) (string, error) {
	tallies, err := c.options.Tallies.In(due.Namespace)
	w := c.space(due.Namespace)
	switch {
	case err != nil:
		return c.unlisted(ctx, due, err)
	case w == nil && len(tallies) > 0, w != nil && !w.known():
		return "", errNotKnown
	case w == nil:
		return due.ResourceVersion, nil
	}
	w.deleting(due.UID)
	must, known := w.mustRelease(due.UID, due.ResourceVersion)
	if !known {
		live, err := c.options.Cluster.Pod(ctx, due.Namespace, due.Name)
		if err != nil {
			return "", err
		}
		if live.UID != due.UID || live.ResourceVersion != due.ResourceVersion {
			return due.ResourceVersion, nil // The deletion will find that out.
		}
		if must, known = w.mustReleasePod(live); !known {
			return "", errNotKnown
		}
	}
	if !must {
		return due.ResourceVersion, nil
	}
	began := c.options.Clock.Now()
	meta, err := c.options.Cluster.Patch(ctx, due.Namespace, due.Name, disowning(due.UID, due.ResourceVersion))
	c.metrics.step("release", began, c.options.Clock, err)
	if err != nil {
		return "", err
	}
	w.answered(due.UID, &meta.ObjectMeta)
	return meta.ResourceVersion, nil
}

// errUnlisted: PodTallies cannot be read, and one may have to count the Pod.
var errUnlisted = errors.New("PodTallies are not known, and one may have to count it, or say that it stays")

// unlisted decides about a Pod while PodTallies cannot be read. A Pod waits only if it carries
// their finalizer, or expires by a setting that a PodTally's would outrank.
func (c *Controller) unlisted(ctx context.Context, due *deletion.Due, cause error) (string, error) {
	live, err := c.options.Cluster.Pod(ctx, due.Namespace, due.Name)
	if err != nil {
		return "", err
	}
	if live.UID != due.UID || live.ResourceVersion != due.ResourceVersion {
		return due.ResourceVersion, nil // The deletion will find that out.
	}
	facts, level := policy.FactsOfPod(live), lifetime.ParseSource(due.Source).Level
	outranked := due.Trigger == string(policy.TriggerTTL) && (level == lifetime.LevelNamespace || level == lifetime.LevelPolicy)
	if match.Held(facts) || outranked && match.Exempt(facts) == "" {
		return "", fmt.Errorf("%w: %w", errUnlisted, cause)
	}
	return due.ResourceVersion, nil
}

// deleting notes that Curfew is about to delete a Pod.
func (s *space) deleting(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletions[uid] = true
}

// undeleted notes that Curfew has not deleted a Pod after all. If it was released for that, it is
// adopted again, and counted as any other (S7). The same happens if Curfew was killed in between.
func (s *space) undeleted(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.deletions, uid)
	if p := s.pods[uid]; p != nil {
		s.enqueue(p)
	}
}

// known reports whether tallies and Pods are known.
func (s *space) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// mustRelease reports whether a Pod has to be taken from a tally first. That is not known if the
// watch has not shown that state of the Pod yet.
func (s *space) mustRelease(uid types.UID, version string) (must, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, n := s.pods[uid], versionOf(version)
	switch {
	case p == nil && s.seen < n, p != nil && (p.version != n || p.unsure || p.orphaned()):
		return false, false
	case p == nil:
		return false, true
	}
	return p.disownable(), true
}

// mustReleasePod is the same for a live state.
func (s *space) mustReleasePod(live *corev1.Pod) (must, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := readPod(live)
	p.keeper, _ = s.match(live)
	return p.disownable(), !p.orphaned()
}
