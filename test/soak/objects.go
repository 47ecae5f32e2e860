package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

//go:embed installation.yaml
var installation string

// world is the API server as the administrator reaches it, past all that breaks Curfew's
// connections.
type world struct {
	client dynamic.Interface
	owner  types.UID // of the Job that owns Pods
}

// Resources of the soak's objects, as etcd's keys have them.
const (
	jobs    = "jobs"
	pods    = "pods"
	batches = "batches"
)

var served = map[string]schema.GroupVersionKind{
	jobs: {Group: "batch", Version: "v1", Kind: "Job"}, pods: {Version: "v1", Kind: "Pod"}, batches: {Group: soakGroup, Version: "v1", Kind: "Batch"},
	"namespaces": {Version: "v1", Kind: "Namespace"}, "kindprofiles": {Group: "curfew.dev", Version: "v1alpha1", Kind: "KindProfile"},
	"lifecyclepolicies": {Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"},
	"cleanuppolicies":   {Group: "curfew.dev", Version: "v1alpha1", Kind: "CleanupPolicy"},
	"cleanupreports":    {Group: "curfew.dev", Version: "v1alpha1", Kind: "CleanupReport"},
	"roles":             {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	"rolebindings":      {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	"configmaps":        {Version: "v1", Kind: "ConfigMap"}, "serviceaccounts": {Version: "v1", Kind: "ServiceAccount"},
}

// of is a resource in a namespace; "" for one without namespaces.
func (w *world) of(resource, namespace string) dynamic.ResourceInterface {
	kind := served[resource]
	all := w.client.Resource(kind.GroupVersion().WithResource(resource))
	if namespace == "" {
		return all
	}
	return all.Namespace(namespace)
}

const (
	loaders = 24
	// requestPatience bounds one request, so that one that an outage swallowed is sent again.
	requestPatience = 10 * time.Second
)

// each does something to every object, several at a time, and ends with the first error.
func each(ctx context.Context, fleet []*object, do func(context.Context, *object) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for _, o := range fleet {
		group.Go(func() error {
			if err := do(ctx, o); err != nil {
				return fmt.Errorf("%s %s/%s: %w", o.kind, o.namespace, o.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// insist sends a request until the API server has answered it with something that will not change.
func insist(ctx context.Context, send func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, requestPatience)
		err := send(once)
		cancel()
		var status apierrors.APIStatus
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError &&
			status.Status().Code != http.StatusTooManyRequests && status.Status().Code != http.StatusUnauthorized:
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// create makes the object, and notes its UID and when it was created.
func (w *world) create(ctx context.Context, o *object) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": o.spec()}}
	object.SetGroupVersionKind(served[o.kind])
	object.SetName(o.name)
	object.SetAnnotations(o.annotations())
	object.SetFinalizers(o.finalizers())
	if o.way == ofJob {
		controls := true
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: ownerName, UID: w.owner, Controller: &controls}})
	}
	return insist(ctx, func(ctx context.Context) error {
		created, err := w.of(o.kind, o.namespace).Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // An answer was lost.
			created, err = w.of(o.kind, o.namespace).Get(ctx, o.name, metav1.GetOptions{})
		}
		if err == nil {
			o.uid, o.created = string(created.GetUID()), created.GetCreationTimestamp().Time
		}
		return err
	})
}

// patch sends a merge patch.
func (w *world) patch(ctx context.Context, o *object, patch any, subresources ...string) error {
	return w.merge(ctx, o.kind, o.namespace, o.name, patch, subresources...)
}

func (w *world) merge(ctx context.Context, resource, namespace, name string, patch any, subresources ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return insist(ctx, func(ctx context.Context) error {
		_, err := w.of(resource, namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
		return err
	})
}

// delete deletes the object of a UID, and nothing else of its name.
func (w *world) delete(ctx context.Context, o *object) error {
	uid, now, background := types.UID(o.uid), int64(0), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: &now, PropagationPolicy: &background}
	return insist(ctx, func(ctx context.Context) error { return w.of(o.kind, o.namespace).Delete(ctx, o.name, options) })
}

func (o *object) spec() map[string]any {
	// It never runs: the soak writes its status.
	pod := map[string]any{
		"restartPolicy": "Never", "schedulerName": "absent",
		"initContainers": []any{map[string]any{"name": "setup", "image": "registry.example/setup:1"}},
		"containers":     []any{map[string]any{"name": "work", "image": "registry.example/work:1"}},
	}
	switch ttl := whole(o.ttl); {
	case o.kind == pods:
		return pod
	case o.kind == jobs && o.way == byField:
		return map[string]any{"template": map[string]any{"spec": pod}, "ttlSecondsAfterFinished": ttl}
	case o.kind == jobs:
		return map[string]any{"template": map[string]any{"spec": pod}}
	case o.way == byField: // The KindProfile reads one or the other, see meanings.
		return map[string]any{"ttlSeconds": ttl, "keepSeconds": whole(far)}
	}
	return map[string]any{}
}

// finish writes into the status what the kind's own controller would have written, so that the
// object finished at an instant.
func (w *world) finish(ctx context.Context, o *object, t time.Time) error {
	var status map[string]any
	switch o.kind {
	case jobs:
		status = o.jobStatus(t)
	case pods:
		status = o.podStatus(t)
	default:
		// The KindProfile reads one time or the other, see meanings.
		status = map[string]any{"outcome": o.outcome(), "finishedAt": stamp(t), "verifiedAt": stamp(t.Add(o.verified))}
	}
	// With the UID, so that it never finishes another object that has taken the name.
	return w.patch(ctx, o, map[string]any{"metadata": map[string]any{"uid": o.uid}, "status": status}, "status")
}

func (o *object) outcome() string {
	if o.failed {
		return "Failed"
	}
	return "Succeeded"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func condition(kind, reason string, t time.Time) map[string]any {
	return map[string]any{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": stamp(t)}
}

// jobStatus has both conditions, as the API server wants to see the one that announces the end
// before or with the end.
func (o *object) jobStatus(t time.Time) map[string]any {
	status := map[string]any{"startTime": stamp(t.Add(-time.Minute))}
	if o.failed {
		status["failed"] = 1
		status["conditions"] = []any{condition("FailureTarget", "BackoffLimitExceeded", t), condition("Failed", "BackoffLimitExceeded", t)}
		return status
	}
	status["succeeded"], status["completionTime"] = 1, stamp(t)
	status["conditions"] = []any{condition("SuccessCriteriaMet", "CompletionsReached", t), condition("Complete", "CompletionsReached", t)}
	return status
}

// podStatus is that of a Pod whose container ended last, whose init container ended last, or that
// was evicted before any ran.
func (o *object) podStatus(t time.Time) map[string]any {
	status := map[string]any{"phase": o.outcome()}
	if o.silent {
		status["reason"] = "NodeLost"
		return status
	}
	ended := func(name string, instant time.Time) map[string]any {
		code := 0
		if o.failed {
			code = 1
		}
		return map[string]any{"name": name, "image": "registry.example/" + name + ":1", "imageID": "", "ready": false, "restartCount": 0,
			"state": map[string]any{"terminated": map[string]any{"exitCode": code, "startedAt": stamp(instant.Add(-time.Minute)), "finishedAt": stamp(instant)}}}
	}
	switch form := o.name[len(o.name)-1] % 3; {
	case form == 0 && o.failed:
		status["reason"] = "Evicted"
		status["conditions"] = []any{condition("DisruptionTarget", "TerminationByKubelet", t)}
	case form == 1:
		status["initContainerStatuses"] = []any{ended("setup", t)}
	default:
		status["initContainerStatuses"] = []any{ended("setup", t.Add(-2*time.Hour))}
		status["containerStatuses"] = []any{ended("work", t)}
	}
	return status
}
