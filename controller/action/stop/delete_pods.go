package stop

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
)

// deletePods deletes the Pods that still run below the object. It holds once none does. The Job
// controller's finalizer and everybody else's stay: a Pod that has to be accounted for is, and goes
// then. Where it is not known whether others run below it, it does not hold, and they are looked
// for again.
func (s *stopping) deletePods(ctx context.Context) (bool, error) {
	running, unknown, err := s.pods.below(ctx, s.due.Namespace, s.due.UID, s.seen.created)
	if unknown != "" {
		s.doubt(unknown)
	}
	if len(running) == 0 {
		return err == nil && unknown == "", err
	}
	if err := s.confirm(ctx); err != nil {
		return false, err
	}
	if err == nil {
		defer s.pods.forget(s.due.Namespace)
	}
	for _, one := range running {
		if one.deleting {
			continue
		}
		sent, err := s.withinBudget(func() error {
			return s.options.Metadata.Resource(podResource).Namespace(s.due.Namespace).
				Delete(ctx, one.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.uid}})
		})
		switch {
		case !sent:
			return false, nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case err != nil:
			return false, fmt.Errorf("deleting Pod %s/%s: %w", s.due.Namespace, one.name, err)
		default:
			s.log.Info("deleted", "kind", "Pod", "object", s.due.Namespace+"/"+one.name, "uid", one.uid,
				"trigger", string(policy.TriggerDeadline), "of", s.plan.Kind.Kind+" "+s.due.ObjectName())
		}
	}
	return false, err
}

// doubt logs, once for each state, that Pods of the object may run on unnoticed.
func (s *stopping) doubt(reason string) {
	if s.firstTime("unknown") {
		s.log.Info("Pods may run on: an owner of theirs may not be read, so that it is not known whose they are", "kind", s.plan.Kind.Kind,
			"object", s.due.ObjectName(), "uid", s.due.UID, "reason", reason)
	}
}
