package webhook

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy"
)

var (
	bindingKind = corev1.SchemeGroupVersion.WithKind("Binding")
	podResource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// PodGetter reads Pods.
type PodGetter interface {
	// Pod returns the JSON form of a Pod, which the caller may change; nil if there is none.
	Pod(ctx context.Context, namespace, name string) (map[string]any, error)
}

// LivePods reads Pods from the API server.
type LivePods struct{ Reader client.Reader }

// Pod implements [PodGetter].
func (p LivePods) Pod(ctx context.Context, namespace, name string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	pod := &corev1.Pod{}
	if err := p.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("from the API server: %w", err)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
}

// validateBinding judges the change of a Binding to its Pod: the API server copies annotations and
// labels. Schedulers send what the Pod already has, so the Pod has to be read.
func (w *Webhooks) validateBinding(ctx context.Context, request *request, now time.Time) answer {
	if w.pods == nil {
		return untouched()
	}
	name := cmp.Or(request.review.Name, request.facts.Name)
	pod, err := w.pods.Pod(ctx, request.facts.Namespace, name)
	if err != nil {
		return failed(fmt.Sprintf("curfew could not read Pod %q, which the Binding changes", name), err)
	}
	if pod == nil {
		return untouched() // The API server refuses the Binding.
	}
	bound := *request
	bound.kind, bound.resource, bound.operation = policy.PodProfile.Kind, podResource, admissionv1.Update
	profile := w.Profiles().For(bound.kind)
	bound.old, bound.oldFacts = pod, policy.FactsOfObjectContext(ctx, profile, pod)
	bound.object = merged(merged(pod, "annotations", request.facts.Annotations), "labels", request.facts.Labels)
	bound.facts = policy.FactsOfObjectContext(ctx, profile, bound.object)
	return w.validate(ctx, &bound, now)
}

// merged returns a copy of an object with more annotations or labels.
func merged(object map[string]any, where string, more map[string]string) map[string]any {
	if len(more) == 0 {
		return object
	}
	before, _ := object["metadata"].(map[string]any)
	out, metadata := maps.Clone(object), maps.Clone(before)
	if metadata == nil {
		metadata = map[string]any{}
	}
	had, _ := before[where].(map[string]any)
	entries := make(map[string]any, len(had)+len(more))
	maps.Copy(entries, had)
	for key, value := range more {
		entries[key] = value
	}
	metadata[where], out["metadata"] = entries, metadata
	return out
}
