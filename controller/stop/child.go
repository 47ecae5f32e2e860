package stop

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

func resourceOf(child *v1alpha1.Child) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: child.Group, Version: child.Version, Resource: child.Resource}
}

// children reads the children that the object controls, live. Others of the same name are not its
// own (S2, S5).
func (s *stopping) children(ctx context.Context, child *v1alpha1.Child) (dynamic.ResourceInterface, []unstructured.Unstructured, error) {
	var client dynamic.ResourceInterface = s.options.Objects.Resource(resourceOf(child)).Namespace(s.due.Namespace)
	if child.Scope == v1alpha1.ScopeCluster {
		client = s.options.Objects.Resource(resourceOf(child))
	}
	var own []unstructured.Unstructured
	take := func(object *unstructured.Unstructured) {
		if owner := metav1.GetControllerOfNoCopy(object); owner != nil && owner.UID == s.due.UID {
			own = append(own, *object)
		}
	}
	if child.Named == v1alpha1.ChildNamedSame {
		object, err := client.Get(ctx, s.due.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return client, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("reading %s %s/%s: %w", child.Kind, s.due.Namespace, s.due.Name, err)
		}
		take(object)
	} else {
		_, err := watch.Each(ctx, metav1.ListOptions{}, client.List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				take(&page.Items[i])
			}
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("listing %s in namespace %q: %w", child.Resource, s.due.Namespace, err)
		}
	}
	return client, own, nil
}

// ranToItsEnd reports whether all children of the object have finished by themselves. Then the
// object has its outcome, although its own controller has not written it yet, and Curfew must not
// overwrite a success or another reason for the failure. It reads the children live. If the state
// of a child cannot be read it returns an error, and nothing is stopped.
func (s *stopping) ranToItsEnd(ctx context.Context) (bool, error) {
	var looked []v1alpha1.Child
	found := false
	for _, step := range s.plan.Steps {
		if step.Child == nil || slices.Contains(looked, *step.Child) {
			continue
		}
		looked = append(looked, *step.Child)
		_, own, err := s.children(ctx, step.Child)
		if err != nil {
			return false, err
		}
		for i := range own {
			outcome, err := s.outcome(ctx, step.Child, &own[i])
			if err != nil || outcome == lifetime.NoOutcome || exceeded(&own[i]) {
				return false, err
			}
			if outcome == lifetime.Failed && own[i].GetDeletionTimestamp() != nil {
				return false, nil // It may have failed because it is being deleted.
			}
			found = true
		}
	}
	return found, nil
}

// outcome returns the final outcome of a child by the profile of its kind, or [lifetime.NoOutcome]
// if the child has not finished.
func (s *stopping) outcome(ctx context.Context, kind *v1alpha1.Child, child *unstructured.Unstructured) (lifetime.Outcome, error) {
	var profile *policy.Profile
	if s.options.Profile != nil {
		var err error
		if profile, err = s.options.Profile(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}); err != nil {
			return lifetime.NoOutcome, faultf("the profile of %s: %w", kind.Kind, err)
		}
	}
	if profile == nil || !profile.Finishable() || profile.Kind.Version != kind.Version {
		return outcomeByConditions(child), nil
	}
	facts := policy.FactsOfObjectContext(ctx, profile, child.Object)
	if err := ctx.Err(); err != nil {
		return lifetime.NoOutcome, err
	}
	if facts.StateError != nil {
		return lifetime.NoOutcome, faultf("the state of %s %s/%s cannot be read: %w",
			kind.Kind, child.GetNamespace(), child.GetName(), facts.StateError)
	}
	return facts.Outcome, nil
}

// outcomeByConditions judges children of kinds without a profile by the conditions that most kinds
// use.
func outcomeByConditions(child *unstructured.Unstructured) lifetime.Outcome {
	is := func(names ...string) bool {
		return hasTrue(child, func(condition, _ string) bool { return slices.Contains(names, condition) })
	}
	switch {
	case is("Complete", "Completed", "Succeeded"):
		return lifetime.Succeeded
	case is(defaultCondition):
		return lifetime.Failed
	default:
		return lifetime.NoOutcome
	}
}

// exceeded reports whether a child was failed for its deadline.
func exceeded(child *unstructured.Unstructured) bool {
	return hasTrue(child, func(_, reason string) bool { return reason == policy.ReasonDeadlineExceeded })
}

// hasTrue reports whether a condition that is True fits.
func hasTrue(object *unstructured.Unstructured, fits func(condition, reason string) bool) bool {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range list {
		condition, _ := each.(map[string]any)
		kind, _ := condition["type"].(string)
		reason, _ := condition["reason"].(string)
		if condition["status"] == string(metav1.ConditionTrue) && fits(kind, reason) {
			return true
		}
	}
	return false
}

// markChild fails the object through its child: the child's controller stops the child, and the
// object's controller copies the mark. The step holds when the object itself is marked as failed.
// If no child exists yet, the next attempt looks again. If the child has changed since it was read,
// it may have completed: that is a conflict, and Curfew judges again before it stops anything else.
func (s *stopping) markChild(ctx context.Context, step v1alpha1.StopStep) (bool, error) {
	if !s.seen.exceeded.IsZero() {
		s.begun = true
	}
	client, own, err := s.children(ctx, step.Child)
	if err != nil {
		return false, err
	}
	for i := range own {
		child := &own[i]
		if exceeded(child) {
			s.begun = true
			continue
		}
		outcome, err := s.outcome(ctx, step.Child, child)
		if err != nil {
			return false, err
		}
		failed := hasTrue(child, func(condition, _ string) bool { return condition == step.ConditionType })
		if outcome != lifetime.NoOutcome || failed || spared(child) {
			continue
		}
		if err := s.confirm(ctx); err != nil {
			return false, err
		}
		now, err := s.options.ServerTime(ctx)
		if err != nil {
			return false, err
		}
		condition := s.condition(step, now)
		patch, err := conditionsOf(child.Object).patch(child.GetUID(), child.GetResourceVersion(), condition, step.Status)
		if err != nil {
			return false, err
		}
		_, err = client.Patch(ctx, child.GetName(), types.JSONPatchType, patch, s.patchOptions(), "status")
		switch {
		case apierrors.IsNotFound(err) && s.isThere(ctx, client, child):
			return false, faultf("%s %s/%s cannot be marked as failed, since %s has no status subresource: add it to the CustomResourceDefinition",
				step.Child.Kind, child.GetNamespace(), child.GetName(), resourceOf(step.Child).GroupResource())
		case statusCode(err) == http.StatusUnprocessableEntity && s.isUnchanged(ctx, client, child):
			return false, fmt.Errorf("marking %s %s/%s as failed: %w", step.Child.Kind, child.GetNamespace(), child.GetName(), err)
		case statusCode(err) == http.StatusUnprocessableEntity, apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return false, apierrors.NewConflict(resourceOf(step.Child).GroupResource(), child.GetName(), err)
		case err != nil:
			return false, fmt.Errorf("marking %s %s/%s as failed: %w", step.Child.Kind, child.GetNamespace(), child.GetName(), err)
		case s.due.DryRun:
			continue
		case s.seen.exceeded.IsZero():
			s.markAccepted(condition, now)
		}
		s.begun = true
	}
	return !s.seen.exceeded.IsZero(), nil
}

// protected reports whether the author has protected an object from Curfew. Everything below it
// keeps running as well.
func protected(annotations map[string]string) bool {
	return (&policy.Facts{Annotations: annotations}).Protected()
}

// spared reports whether an object is not to be touched: it is protected, or being deleted already.
func spared(object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil || protected(object.GetAnnotations())
}

// deleteChild deletes the children that the object runs. It holds once none is left: Curfew waits
// for a child that is being deleted, and deletes one that came back again.
func (s *stopping) deleteChild(ctx context.Context, kind *v1alpha1.Child) (bool, error) {
	_, own, err := s.children(ctx, kind)
	if err != nil {
		return false, err
	}
	// An aggregated API server may serve the kind: a profile does not say.
	target := deletion.Type{Resource: resourceOf(kind), Kind: kind.Kind, Namespaced: kind.Scope != v1alpha1.ScopeCluster, Aggregated: true}
	for i := range own {
		child := &own[i]
		if spared(child) {
			continue
		}
		pending, err := s.delete(ctx, target, child, s.readChild)
		if err != nil || pending {
			return false, err
		}
	}
	return !slices.ContainsFunc(own, func(child unstructured.Unstructured) bool { return !protected(child.GetAnnotations()) }), nil
}

// maxReads bounds how often one attempt reads the same object again before its DELETE.
const maxReads = 3

// reader reads a child or a Pod live. It returns nil if the object need not be deleted any more.
type reader func(ctx context.Context, due *deletion.Due) (*metav1.PartialObjectMetadata, error)

// delete deletes a child or a Pod in the state of a live read, if that read still finds the object
// that was found below the stopped one (S1, S2). It uses the same action as all deletions of
// Curfew, so that a tallied Pod is released first. pending reports that --max-deletions-per-minute
// had no room, or that the action asks for another attempt.
func (s *stopping) delete(ctx context.Context, target deletion.Type, object metav1.Object, read reader) (pending bool, err error) {
	if err := s.confirm(ctx); err != nil {
		return true, err
	}
	due := deletion.Due{
		Type: target, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		Propagation: metav1.DeletePropagationBackground, Expiry: s.due.Expiry, Source: s.due.Source, Trigger: string(policy.TriggerDeadline),
	}
	for range maxReads {
		now, err := read(ctx, &due)
		switch {
		case err != nil:
			return true, fmt.Errorf("reading %s %s: %w", due.Kind, due.ObjectName(), err)
		case now == nil || now.UID != due.UID || spared(now) || !sameController(now, object):
			return false, nil
		}
		if due.ResourceVersion == now.ResourceVersion {
			due.Disproved++
		}
		due.ResourceVersion, due.Finalizers = now.ResourceVersion, now.Finalizers
		settle, room := func(bool) {}, true
		if s.due.Reserve != nil {
			settle, room = s.due.Reserve()
		}
		if !room {
			return true, nil
		}
		out := s.options.Delete.Do(ctx, due)
		// A DELETE without an answer may have been carried out.
		settle(out.Outcome == deletion.Done || out.Outcome == deletion.Failed && out.Code == 0)
		switch out.Outcome {
		case deletion.Done:
			s.deleted++
			s.log.Info("deleted", "kind", due.Kind, "object", due.ObjectName(), "uid", due.UID,
				"trigger", due.Trigger, "of", s.plan.Kind.Kind+" "+s.due.ObjectName())
			return false, nil
		case deletion.Gone:
			return false, nil
		case deletion.Again:
			return true, nil
		case deletion.Conflict:
		default:
			s.refused = cmp.Or(s.refused, &out)
			return true, fmt.Errorf("deleting %s %s: %w", due.Kind, due.ObjectName(), out.Err)
		}
	}
	return true, nil
}

// sameController reports whether the same object controls both states.
func sameController(now, then metav1.Object) bool {
	a, b := metav1.GetControllerOfNoCopy(now), metav1.GetControllerOfNoCopy(then)
	return a != nil && b != nil && a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion
}

// readPod reads the metadata of a Pod that has not finished. The phase is no metadata: the field
// selector of a LIST by name asks for both in one request.
func (s *stopping) readPod(ctx context.Context, due *deletion.Due) (*metav1.PartialObjectMetadata, error) {
	list, err := s.options.Metadata.Resource(podResource).Namespace(due.Namespace).
		List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + due.Name + "," + runningPods})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Name == due.Name {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// readChild reads the metadata of a child.
func (s *stopping) readChild(ctx context.Context, due *deletion.Due) (*metav1.PartialObjectMetadata, error) {
	object, err := s.options.Metadata.Resource(due.Resource).Namespace(due.Namespace).Get(ctx, due.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// deletePods deletes the Pods that still run below the object. It holds when no Pod runs there. The
// finalizer of the Job controller stays: a Pod that its Job has not accounted for is deleted after
// its Job has. If an owner may not be read, it is not known whether more Pods run, and Curfew looks
// for them again.
func (s *stopping) deletePods(ctx context.Context) (bool, error) {
	running, unknown, err := s.pods.below(ctx, s.due.Namespace, s.due.UID, s.seen.created)
	if unknown != "" {
		s.doubt(unknown)
	}
	if len(running) == 0 {
		return err == nil && unknown == "", err
	}
	if err == nil {
		defer s.pods.forget(s.due.Namespace)
	}
	for _, pod := range running {
		if pod.deleting {
			continue
		}
		meta := &metav1.ObjectMeta{Namespace: s.due.Namespace, Name: pod.name, UID: pod.uid, OwnerReferences: pod.owners}
		pending, err := s.delete(ctx, podType, meta, s.readPod)
		if err != nil || pending {
			return false, err
		}
	}
	return false, err
}

// podType is what DELETEs of Pods need.
var podType = deletion.Type{Resource: podResource, Kind: "Pod", Namespaced: true, Protobuf: true}

// doubt logs, once for each state, that Pods of the object may run on unnoticed.
func (s *stopping) doubt(reason string) {
	if s.firstTime("unknown") {
		s.log.Info("Pods may run on: an owner of theirs may not be read, so that it is not known whose they are", "kind", s.plan.Kind.Kind,
			"object", s.due.ObjectName(), "uid", s.due.UID, "reason", reason)
	}
}
