package tally

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// read is a PodTally as it was read.
type read struct {
	object   *Object
	compiled *match.Tally
	invalid  error
}

// split compiles the PodTallies of a namespace, and returns those that count and those that are too
// many. Admission denies these, but they may be older than that, or have been created at once.
func split(objects []*Object) (counting, excess []*read) {
	of, all := map[*match.Tally]*read{}, make([]*match.Tally, 0, len(objects))
	for _, object := range objects {
		compiled, errs := match.Compile(&object.PodTally)
		of[compiled] = &read{object, compiled, errs.ToAggregate()}
		all = append(all, compiled)
	}
	within, beyond := match.Within(all)
	for _, compiled := range within {
		counting = append(counting, of[compiled])
	}
	for _, compiled := range beyond {
		excess = append(excess, of[compiled])
	}
	return counting, excess
}

// exclude has tallies that are too many say so. What their statuses list is counted once they are
// among the oldest.
func (c *Controller) exclude(ctx context.Context, excess []*read) {
	failures := &failures{}
	var writes []func(context.Context) bool
	for _, one := range excess {
		status := one.object.Status.DeepCopy()
		if excluded(status) {
			continue
		}
		writes = append(writes, func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, requestMost)
			defer cancel()
			now, err := c.options.ServerTime(ctx)
			if err == nil {
				meta.SetStatusCondition((*[]metav1.Condition)(&status.Conditions), metav1.Condition{
					Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTooManyTallies,
					Message:            fmt.Sprintf("the namespace has %d older PodTallies, and no more may count", match.MaxPerNamespace),
					ObservedGeneration: one.object.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
				})
				_, err = c.options.Cluster.WriteStatus(ctx, one.object.Namespace, one.object.Name, one.object.UID, one.object.ResourceVersion, status)
			}
			if err != nil && !apierrors.IsNotFound(err) {
				failures.add(err)
			}
			return overloaded(err)
		})
	}
	c.send(ctx, writes)
	if err := failures.error(); err != nil {
		c.log.Info("PodTallies that are too many could not be reported", "reason", err.Error())
	}
}

// excluded reports whether a status says that its tally is one too many.
func excluded(status *v1alpha1.PodTallyStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonTooManyTallies
}

// adjust takes over changes of the specs that change no more than ttlAfterCounted: a selector is
// immutable. It reports whether there are no others, so that nothing has to be listed again.
func (s *space) adjust(known []*match.Tally) bool {
	counting, _ := match.Within(known)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || len(counting) != len(s.tallies) {
		return false
	}
	for i, one := range counting { // Both are in the same order.
		t := s.tallies[i]
		if t.uid != one.UID || t.overtaken || t.invalid != nil || one.TTL != nil && one.TTL.Err != nil {
			return false
		}
	}
	for i, one := range counting {
		if t := s.tallies[i]; one.Generation > t.generation {
			t.match, t.generation = one, one.Generation
			s.wake(t)
		}
	}
	return true
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
