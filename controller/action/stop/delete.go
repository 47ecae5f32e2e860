package stop

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/policy"
)

// maxReads bounds how often one attempt reads the same object again before its DELETE.
const maxReads = 3

// reader reads a child or a Pod live. It returns nil if the object need not be deleted any more.
type reader func(ctx context.Context, due *action.Due) (*metav1.PartialObjectMetadata, error)

// delete deletes a child or a Pod in the state of a live read, if that read still finds the object
// that was found below the stopped one (S1, S2). It uses the same action as all deletions of
// Curfew, so that a tallied Pod is released first. pending reports that --max-deletions-per-minute
// had no room, or that the action asks for another attempt.
func (s *stopping) delete(ctx context.Context, of action.Type, object metav1.Object, read reader) (pending bool, err error) {
	if err := s.confirm(ctx); err != nil {
		return true, err
	}
	due := action.Due{
		Type: of, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
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
		settle(out.Outcome == action.Done || out.Outcome == action.Failed && out.Code == 0)
		switch out.Outcome {
		case action.Done:
			s.deleted++
			s.log.Info("deleted", "kind", due.Kind, "object", due.ObjectName(), "uid", due.UID,
				"trigger", due.Trigger, "of", s.plan.Kind.Kind+" "+s.due.ObjectName())
			return false, nil
		case action.Gone:
			return false, nil
		case action.Again:
			return true, nil
		case action.Conflict:
		default:
			return true, refusal{out, fmt.Sprintf("deleting %s %s", due.Kind, due.ObjectName())}
		}
	}
	return true, nil
}

// sameController reports whether the same object controls both states.
func sameController(now, then metav1.Object) bool {
	a, b := metav1.GetControllerOfNoCopy(now), metav1.GetControllerOfNoCopy(then)
	return a != nil && b != nil && a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion
}

// refusal is the error of a DELETE that failed. It carries the API server's answer.
type refusal struct {
	action.Result
	doing string
}

func (r refusal) Error() string { return r.doing + ": " + r.Err.Error() }
func (r refusal) Unwrap() error { return r.Err }

// readPod reads the metadata of a Pod that has not finished. The phase is no metadata: the field
// selector of a LIST by name asks for both in one request.
func (s *stopping) readPod(ctx context.Context, due *action.Due) (*metav1.PartialObjectMetadata, error) {
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
func (s *stopping) readChild(ctx context.Context, due *action.Due) (*metav1.PartialObjectMetadata, error) {
	object, err := s.options.Metadata.Resource(due.Resource).Namespace(due.Namespace).Get(ctx, due.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// refused is the answer to the DELETE that an error is about.
func refused(err error) (action.Result, bool) {
	var of refusal
	if !errors.As(err, &of) {
		return action.Result{}, false
	}
	of.Err = err
	return of.Result, true
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
	for _, one := range running {
		if one.deleting {
			continue
		}
		meta := &metav1.ObjectMeta{Namespace: s.due.Namespace, Name: one.name, UID: one.uid, OwnerReferences: one.owners}
		pending, err := s.delete(ctx, podType, meta, s.readPod)
		if err != nil || pending {
			return false, err
		}
	}
	return false, err
}

// podType is what DELETEs of Pods need.
var podType = action.Type{Resource: podResource, Kind: "Pod", Namespaced: true, Protobuf: true}

// doubt logs, once for each state, that Pods of the object may run on unnoticed.
func (s *stopping) doubt(reason string) {
	if s.firstTime("unknown") {
		s.log.Info("Pods may run on: an owner of theirs may not be read, so that it is not known whose they are", "kind", s.plan.Kind.Kind,
			"object", s.due.ObjectName(), "uid", s.due.UID, "reason", reason)
	}
}
