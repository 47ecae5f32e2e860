package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed installation.yaml
var installation string

// world is the API server as the administrator reaches it, past all that breaks Curfew's
// connections.
type world struct {
	typed   kubernetes.Interface
	batches dynamic.NamespaceableResourceInterface
	// profiles are KindProfiles.
	profiles dynamic.ResourceInterface
	owner    types.UID // of the Job that owns Pods
}

var (
	batchResource   = schema.GroupVersionResource{Group: soakGroup, Version: "v1", Resource: batches}
	profileResource = schema.GroupVersionResource{Group: "curfew.dev", Version: "v1alpha1", Resource: "kindprofiles"}
)

func newWorld(config *rest.Config) (*world, error) {
	config = rest.CopyConfig(config)
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &world{typed: typed, batches: custom.Resource(batchResource), profiles: custom.Resource(profileResource)}, nil
}

const (
	loaders = 24
	// requestPatience bounds one request, so that one that an outage swallowed is sent again.
	requestPatience = 10 * time.Second
)

// each does something to every object, several at a time, and ends with the first error.
func each(ctx context.Context, fleet []*object, do func(context.Context, *object) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range loaders {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(fleet) {
					return
				}
				if err := do(ctx, fleet[i]); err != nil {
					cancel(fmt.Errorf("%s %s/%s: %w", fleet[i].kind, fleet[i].namespace, fleet[i].name, err))
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
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
	meta := metav1.ObjectMeta{Name: o.name, Annotations: o.annotations(), Finalizers: o.finalizers()}
	return insist(ctx, func(ctx context.Context) error {
		var created metav1.Object
		var err error
		switch o.kind {
		case jobs:
			created, err = w.typed.BatchV1().Jobs(o.namespace).Create(ctx, o.job(meta), metav1.CreateOptions{})
		case pods:
			created, err = w.typed.CoreV1().Pods(o.namespace).Create(ctx, o.pod(meta, w.owner), metav1.CreateOptions{})
		default:
			created, err = w.batches.Namespace(o.namespace).Create(ctx, o.batch(meta), metav1.CreateOptions{})
		}
		if apierrors.IsAlreadyExists(err) {
			// An answer was lost.
			created, err = w.read(ctx, o)
		}
		if err == nil {
			o.uid, o.created = string(created.GetUID()), created.GetCreationTimestamp().Time
		}
		return err
	})
}

func (w *world) read(ctx context.Context, o *object) (read metav1.Object, err error) {
	switch o.kind {
	case jobs:
		read, err = w.typed.BatchV1().Jobs(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	case pods:
		read, err = w.typed.CoreV1().Pods(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	default:
		read, err = w.batches.Namespace(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	}
	return read, err
}

// patch sends a merge patch.
func (w *world) patch(ctx context.Context, o *object, patch any, subresources ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return insist(ctx, func(ctx context.Context) error {
		var err error
		switch o.kind {
		case jobs:
			_, err = w.typed.BatchV1().Jobs(o.namespace).Patch(ctx, o.name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
		case pods:
			_, err = w.typed.CoreV1().Pods(o.namespace).Patch(ctx, o.name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
		default:
			_, err = w.batches.Namespace(o.namespace).Patch(ctx, o.name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
		}
		return err
	})
}

// delete deletes the object of a UID, and nothing else of its name.
func (w *world) delete(ctx context.Context, o *object) error {
	uid, now, background := types.UID(o.uid), int64(0), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: &now, PropagationPolicy: &background}
	return insist(ctx, func(ctx context.Context) error {
		switch o.kind {
		case jobs:
			return w.typed.BatchV1().Jobs(o.namespace).Delete(ctx, o.name, options)
		case pods:
			return w.typed.CoreV1().Pods(o.namespace).Delete(ctx, o.name, options)
		default:
			return w.batches.Namespace(o.namespace).Delete(ctx, o.name, options)
		}
	})
}

func (o *object) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		// It never runs: the soak writes its status.
		SchedulerName:  "absent",
		InitContainers: []corev1.Container{{Name: "setup", Image: "registry.example/setup:1"}},
		Containers:     []corev1.Container{{Name: "work", Image: "registry.example/work:1"}},
	}
}

func (o *object) job(meta metav1.ObjectMeta) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: o.podSpec()}}}
	if o.way == byField {
		ttl := int32(o.ttl / time.Second)
		job.Spec.TTLSecondsAfterFinished = &ttl
	}
	return job
}

func (o *object) pod(meta metav1.ObjectMeta, owner types.UID) *corev1.Pod {
	if o.way == ofJob {
		controls := true
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: ownerName, UID: owner, Controller: &controls}}
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: o.podSpec()}
}

func (o *object) batch(meta metav1.ObjectMeta) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": soakGroup + "/v1", "kind": "Batch", "spec": map[string]any{}}}
	if o.way == byField {
		// The KindProfile reads one or the other, see meanings.
		out.Object["spec"] = map[string]any{"ttlSeconds": int64(o.ttl / time.Second), "keepSeconds": int64(far / time.Second)}
	}
	out.SetName(meta.Name)
	out.SetAnnotations(meta.Annotations)
	out.SetFinalizers(meta.Finalizers)
	return out
}
