package deadline

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// endings are the conditions, beside that of the mark, that say that a child has ended for good. It is then left alone.
var endings = []string{"Complete", "Completed", "Succeeded", "Failed"}

func resourceOf(child *v1alpha1.Child) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: child.Group, Version: child.Version, Resource: child.Resource}
}

// children reads the children that the object controls, afresh. Others of the same name are not its own (S2, S5).
func (s *stopping) children(ctx context.Context, child *v1alpha1.Child) (dynamic.ResourceInterface, []unstructured.Unstructured, error) {
	var client dynamic.ResourceInterface = s.options.Objects.Resource(resourceOf(child)).Namespace(s.request.Namespace)
	if child.Scope == v1alpha1.ScopeCluster {
		client = s.options.Objects.Resource(resourceOf(child))
	}
	var found []unstructured.Unstructured
	if child.Named == v1alpha1.ChildNamedSame {
		object, err := client.Get(ctx, s.request.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return client, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("reading %s %s/%s: %w", child.Kind, s.request.Namespace, s.request.Name, err)
		}
		found = append(found, *object)
	} else {
		options := metav1.ListOptions{Limit: 500}
		for more := true; more; more = options.Continue != "" {
			list, err := client.List(ctx, options)
			if err != nil {
				return nil, nil, fmt.Errorf("listing %s in namespace %q: %w", child.Resource, s.request.Namespace, err)
			}
			found = append(found, list.Items...)
			options.Continue = list.GetContinue()
		}
	}
	var own []unstructured.Unstructured
	for i := range found {
		if owner := metav1.GetControllerOf(&found[i]); owner != nil && owner.UID == s.request.UID {
			own = append(own, found[i])
		}
	}
	return client, own, nil
}

// markChild fails the object through its child, whose controller stops what it runs and whose own controller copies the mark. It
// holds once the object itself says so; while there is no child there is nothing to mark, and it is looked for again. A child that is
// not as it was read a moment ago, which may have completed, is a conflict: nothing else is stopped before it was judged again.
func (s *stopping) markChild(ctx context.Context, step v1alpha1.StopStep) (bool, error) {
	client, own, err := s.children(ctx, step.Child)
	if err != nil {
		return false, err
	}
	for i := range own {
		child := &own[i]
		if child.GetDeletionTimestamp() != nil || ended(child, step.ConditionType) {
			continue
		}
		now := s.options.Clock.Now()
		condition := s.condition(step, now)
		patch, err := conditionsOf(child.Object).patch(child.GetUID(), child.GetResourceVersion(), condition, step.Status)
		if err != nil {
			return false, err
		}
		options := metav1.PatchOptions{FieldManager: fieldManager}
		if s.request.DryRun {
			options.DryRun = []string{metav1.DryRunAll}
		}
		_, err = client.Patch(ctx, child.GetName(), types.JSONPatchType, patch, options, "status")
		switch {
		case statusCode(err) == 422, apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return false, apierrors.NewConflict(resourceOf(step.Child).GroupResource(), child.GetName(), err)
		case err != nil:
			return false, fmt.Errorf("marking %s %s/%s as failed: %w", step.Child.Kind, child.GetNamespace(), child.GetName(), err)
		case s.request.DryRun:
		case s.seen.Exceeded.IsZero():
			s.told(condition, now)
		}
	}
	return !s.seen.Exceeded.IsZero(), nil
}

// protected reports whether an object is out of Curfew's reach. What runs on below it is its author's will.
func protected(annotations map[string]string) bool {
	return (&policy.Facts{Annotations: annotations}).Protected()
}

func ended(child *unstructured.Unstructured, mark string) bool {
	list, _, _ := unstructured.NestedSlice(child.Object, "status", "conditions")
	for _, each := range list {
		condition, _ := each.(map[string]any)
		if condition["status"] != string(metav1.ConditionTrue) {
			continue
		}
		if kind, _ := condition["type"].(string); kind != "" && (kind == mark || slices.Contains(endings, kind)) {
			return true
		}
	}
	return false
}

// deleteChild deletes what the object runs, each child by UID and resourceVersion of the state that was just read. It holds once none
// is left: one that is being deleted is waited for, one that came back is deleted again.
func (s *stopping) deleteChild(ctx context.Context, kind *v1alpha1.Child) (bool, error) {
	client, own, err := s.children(ctx, kind)
	if err != nil {
		return false, err
	}
	background := metav1.DeletePropagationBackground
	for i := range own {
		child := &own[i]
		if child.GetDeletionTimestamp() != nil || protected(child.GetAnnotations()) {
			continue
		}
		uid, version := child.GetUID(), child.GetResourceVersion()
		err := client.Delete(ctx, child.GetName(), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &background,
		})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// Gone, or not what was read. There will be another look.
		case err != nil:
			return false, fmt.Errorf("deleting %s %s/%s: %w", kind.Kind, child.GetNamespace(), child.GetName(), err)
		default:
			s.log.Info("deleted", "kind", kind.Kind, "object", child.GetNamespace()+"/"+child.GetName(), "uid", uid,
				"trigger", string(policy.TriggerDeadline), "of", s.plan.Kind.Kind+" "+s.request.Namespace+"/"+s.request.Name)
		}
	}
	return !slices.ContainsFunc(own, func(child unstructured.Unstructured) bool { return !protected(child.GetAnnotations()) }), nil
}
