package uninstall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/wellknown"
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
		i.namespaceAgain, i.stage(webhooks), i.stage(workloads), i.stopped, i.stage(permissions),
		i.webhooksAgain, i.releaseAll, i.stage(kinds), i.stage(rest), i.stage(namespace),
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// namespaceAgain keeps the Namespace if something else was created in it since the question.
func (i *Installation) namespaceAgain(ctx context.Context) (err error) {
	if len(i.of(namespace)) == 0 {
		return nil
	}
	if i.Others, err = i.others(ctx); err == nil && len(i.Others) > 0 {
		i.Objects = slices.DeleteFunc(i.Objects, func(object *Object) bool { return object.stage == namespace })
		i.Done(fmt.Sprintf("namespace/%s kept: it has objects that are not part of Curfew: %s", i.Namespace, joined(i.Others, 5)))
	}
	return err
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
	options := *metav1.NewPreconditionDeleteOptions(string(object.GetUID()))
	options.PropagationPolicy = new(metav1.DeletePropagationBackground)
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
		options := metav1.ListOptions{LabelSelector: wellknown.LabelPartOf + "=" + wellknown.PartOfCurfew}
		list, err := i.clients.Metadata.Resource(pods).Namespace(i.Namespace).List(ctx, options)
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

// webhooksAgain deletes configurations that the controller wrote during the removal.
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

const (
	// atOnce is how many Pods are released at a time.
	atOnce = 16
	// rounds bounds how often Pods are looked for: something else adds the finalizer then.
	rounds = 5
)

// releaseAll removes the finalizer of PodTallies until a list shows no Pod that has it. A request
// of the controller may have been under way when its permissions ended.
func (i *Installation) releaseAll(ctx context.Context) error {
	total := 0
	for range rounds {
		if err := i.releases(ctx); err != nil {
			return err
		}
		if len(i.Releases) == 0 {
			if total > 0 {
				i.Done(released(total))
			}
			return nil
		}
		i.Say("releasing %d Pods from PodTallies", len(i.Releases))
		if err := i.releaseThese(ctx); err != nil {
			return err
		}
		total += len(i.Releases)
	}
	return fmt.Errorf("pods get finalizer %s again and again: a controller of Curfew still runs with permissions of its own",
		wellknown.FinalizerTally)
}

// released is the line about so many Pods.
func released(n int) string {
	if n == 1 {
		return "1 pod released: finalizer " + wellknown.FinalizerTally + " removed"
	}
	return fmt.Sprintf("%d pods released: finalizer %s removed", n, wellknown.FinalizerTally)
}

func (i *Installation) releaseThese(ctx context.Context) error {
	errs := make([]error, len(i.Releases))
	workqueue.ParallelizeUntil(ctx, atOnce, len(errs), func(n int) { errs[n] = i.release(ctx, i.Releases[n], false) })
	errs = slices.DeleteFunc(append(errs, ctx.Err()), func(err error) bool { return err == nil })
	if len(errs) > 3 { // One reason has a line for each Pod.
		errs = append(errs[:3], fmt.Errorf("and %d more Pods", len(errs)-3))
	}
	return errors.Join(errs...)
}

// release removes the finalizer from a Pod, and nothing else (S5). A Pod that a PodTally has as
// good as counted says so, so that it is not counted again if the tally is kept (S7).
func (i *Installation) release(ctx context.Context, pod Release, dryRun bool) error {
	metadata := map[string]any{"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{wellknown.FinalizerTally}}
	if pod.countedBy != "" {
		metadata["annotations"] = map[string]any{wellknown.AnnotationCountedBy: pod.countedBy}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = i.clients.Objects.Resource(pods).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // Conflict: another Pod has the name.
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing Pod %s in namespace %s: %w", pod.Name, pod.Namespace, err)
	}
	return nil
}

const fieldManager = "kubectl-curfew"

// Left looks again for what blocks others: webhook configurations, finalizers of PodTallies, and
// CRDs, unless they are kept.
func (i *Installation) Left(ctx context.Context) (out []string, err error) {
	again, err := Find(ctx, i.clients, i.Options)
	if err != nil {
		return nil, err
	}
	return append(console.Map(again.of(webhooks, kinds), i.named), console.Map(again.Releases, func(pod Release) string {
		return fmt.Sprintf("the finalizer of pod/%s in namespace %s", pod.Name, pod.Namespace)
	})...), nil
}

// why says what keeps an object that was deleted: its finalizers, the messages of its conditions,
// and for a CRD the objects of its kind that have finalizers.
func (i *Installation) why(ctx context.Context, object *unstructured.Unstructured) string {
	var reasons []string
	if object.GetObjectKind().GroupVersionKind().Kind == "CustomResourceDefinition" {
		resource, group, _ := strings.Cut(object.GetName(), ".")
		of := schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: resource}
		_ = i.metadata(ctx, of, func(one *metav1.ObjectMeta) {
			if len(one.Finalizers) > 0 {
				reasons = append(reasons, strings.TrimPrefix(one.Namespace+"/", "/")+one.Name+" has finalizers "+strings.Join(one.Finalizers, ", "))
			}
		})
		return joined(reasons, 3)
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		if condition["status"] == "True" {
			reasons = append(reasons, fmt.Sprint(condition["message"]))
		}
	}
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		reasons = append(reasons, "it has finalizers "+strings.Join(finalizers, ", "))
	}
	return joined(slices.Compact(reasons), 3)
}
