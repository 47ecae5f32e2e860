package stop

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/policy/v1alpha1"
)

// stopping is one attempt at one object.
type stopping struct {
	*Action
	plan *Plan
	seen *State
	due  *action.Due
	// marked reports that this attempt wrote the mark, and took how long that took.
	marked bool
	took   time.Duration
	// deleted is how many children and Pods this attempt deleted.
	deleted int
	// begun means that the first step has succeeded: the object has failed, or is suspended.
	begun bool
	// confirmed means that the object was just as it was judged when this attempt wrote to it, or
	// read it live.
	confirmed bool
	// left means that all children have finished by themselves, so that nothing was done.
	left bool
}

// steps carries out the steps that do not hold yet. An error in the first step ends the attempt: if
// Curfew stopped an object before it failed it in the state that was judged, it could undo a
// completion that came first.
func (s *stopping) steps(ctx context.Context) (pending bool, err error) {
	if first := s.plan.Steps; len(first) == 0 || first[0].Action != v1alpha1.StopMarkFailed && first[0].Action != v1alpha1.StopSuspend {
		return true, faultf("the first step that stops a %s is neither MarkFailed nor Suspend: correct spec.deadline.enforcement of its KindProfile", s.plan.Kind.Kind)
	}
	if s.seen.exceeded.IsZero() {
		if s.left, err = s.ranToItsEnd(ctx); s.left || err != nil {
			return true, err
		}
	}
	var errs []error
	for i, step := range s.plan.Steps {
		if i > 0 && !s.begun {
			return true, nil
		}
		holds, err := s.step(ctx, step)
		if err != nil && (step.Action == v1alpha1.StopMarkFailed || step.Action == v1alpha1.StopSuspend || apierrors.IsConflict(err)) {
			return true, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, err) // The other steps have their chance all the same.
		}
		pending = pending || !holds
		if s.due.DryRun {
			return pending, err
		}
	}
	return pending, errors.Join(errs...)
}

// confirm reads the object live, unless this attempt has written to it already, and returns a
// conflict if it has changed since it was judged. Call it before anything below the object is
// written or deleted (S1, S2).
func (s *stopping) confirm(ctx context.Context) error {
	if s.confirmed {
		return nil
	}
	object, err := s.options.Metadata.Resource(s.plan.Resource).Namespace(s.due.Namespace).Get(ctx, s.due.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading %s %s/%s: %w", s.plan.Kind.Kind, s.due.Namespace, s.due.Name, err)
	case object.UID != s.due.UID || object.ResourceVersion != s.due.ResourceVersion:
		return apierrors.NewConflict(s.plan.Resource.GroupResource(), s.due.Name, errors.New("it has changed since it was judged"))
	}
	s.confirmed = true
	return nil
}

func (s *stopping) step(ctx context.Context, step v1alpha1.StopStep) (holds bool, err error) {
	switch {
	case step.Action == v1alpha1.StopMarkFailed && step.Child == nil:
		return s.mark(ctx, step)
	case step.Action == v1alpha1.StopMarkFailed:
		return s.markChild(ctx, step)
	case step.Action == v1alpha1.StopDelete && step.Child != nil:
		return s.deleteChild(ctx, step.Child)
	case step.Action == v1alpha1.StopDeletePods:
		return s.deletePods(ctx)
	case step.Action == v1alpha1.StopSuspend:
		return s.suspend(ctx)
	default:
		return false, faultf("step %q of %s is not known: this is a bug", step.Action, s.plan.Kind.Kind)
	}
}

// isThere reads a child again.
func (s *stopping) isThere(ctx context.Context, client dynamic.ResourceInterface, child *unstructured.Unstructured) bool {
	now, err := client.Get(ctx, child.GetName(), metav1.GetOptions{})
	return err == nil && now.GetUID() == child.GetUID()
}
