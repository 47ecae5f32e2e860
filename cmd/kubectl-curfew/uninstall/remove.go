package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/policy"
)

// Check asks the API server, in a dry run, whether all that a removal does is allowed.
func (i *Installation) Check(ctx context.Context) error {
	var errs []error
	for _, object := range i.Objects {
		if _, err := i.delete(ctx, object, true); err != nil {
			errs = append(errs, err)
		}
	}
	if len(i.Releases) > 0 {
		errs = append(errs, i.release(ctx, i.Releases[0], true))
	}
	return errors.Join(errs...)
}

// Remove removes the installation. It can be repeated after an error.
func (i *Installation) Remove(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		i.stage(webhooks), i.stage(workloads), i.stopped, i.stage(permissions),
		i.webhooksAgain, i.releaseAll, i.stage(kinds), i.stage(rest), i.stage(namespace),
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stage deletes the objects of a stage, and waits until they are gone.
func (i *Installation) stage(which stage) func(context.Context) error {
	return func(ctx context.Context) error {
		objects := i.of(which)
		for _, object := range objects {
			deleted, err := i.delete(ctx, object, false)
			if err != nil {
				return err
			}
			if deleted {
				i.Done(i.named(object) + " deleted")
			}
		}
		for _, object := range objects {
			i.Say("waiting for %s", object)
			if err := i.gone(ctx, object); err != nil {
				return err
			}
		}
		return nil
	}
}

// delete deletes exactly the object that was found. It returns false if another one has its name.
// The garbage collector deletes some that the controller wrote, and may be faster.
func (i *Installation) delete(ctx context.Context, object *Object, dryRun bool) (bool, error) {
	uid := object.GetUID()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err := i.clients.Objects.Resource(object.at).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), options)
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("deleting %s: %w", i.named(object), err)
	}
	return true, nil
}

// interval between two looks.
const interval = 250 * time.Millisecond

// until waits for a condition, at most as long as the options say.
func (i *Installation) until(ctx context.Context, met wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, interval, i.Timeout, true, met)
}

// gone waits until an object does not exist any more.
func (i *Installation) gone(ctx context.Context, object *Object) error {
	var last *unstructured.Unstructured
	err := i.until(ctx, func(ctx context.Context) (bool, error) {
		live, err := i.clients.Objects.Resource(object.at).Namespace(object.GetNamespace()).Get(ctx, object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && live.GetUID() != object.GetUID() {
			return true, nil
		}
		last = live
		return false, nil // An API server that does not answer is asked again.
	})
	if err == nil {
		return nil
	}
	why := "see its finalizers and conditions"
	if last != nil {
		why = cmp.Or(i.why(ctx, last), why)
	}
	return fmt.Errorf("%s is still there after %s: %s; run the command again when that is solved", i.named(object), i.Timeout, why)
}

// stopped waits until the Pods of the Deployments are gone. Those on a node that does not answer
// stay for long: they can do nothing when their permissions are gone.
func (i *Installation) stopped(ctx context.Context) error {
	if len(i.of(workloads)) == 0 {
		return nil
	}
	i.Say("waiting for the Pods of Curfew to stop")
	left := 0
	err := i.until(ctx, func(ctx context.Context) (bool, error) {
		list, err := i.clients.Metadata.Resource(pods).Namespace(i.Namespace).List(ctx, metav1.ListOptions{LabelSelector: policy.LabelPartOf + "=" + policy.PartOfCurfew})
		if err != nil {
			return false, nil
		}
		left = len(list.Items)
		return left == 0, nil
	})
	if err != nil && ctx.Err() == nil {
		i.Done(fmt.Sprintf("%d Pods of Curfew still run; they have no permissions from here on", left))
	}
	return ctx.Err()
}

// webhooksAgain deletes what the controller wrote while the static configurations were deleted.
func (i *Installation) webhooksAgain(ctx context.Context) error {
	again := &Installation{Options: i.Options, clients: i.clients}
	for _, each := range resources {
		if each.stage != webhooks {
			continue
		}
		if err := again.findResource(ctx, &each); err != nil {
			return err
		}
	}
	return again.stage(webhooks)(ctx)
}
