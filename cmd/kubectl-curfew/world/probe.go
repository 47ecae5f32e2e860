package world

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy"
)

// Probe is the result of two dry runs that create a Namespace, which each webhook answers in its
// own way.
type Probe struct {
	// Tried is false where the user may not create Namespaces.
	Tried bool
	// Defaults and Validates report whether the API server called the webhook.
	Defaults, Validates bool
}

// Probe finds out whether the API server calls the webhooks. Nothing is stored.
func (w *World) Probe(ctx context.Context) (Probe, error) {
	kind := Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces"}
	if may, err := w.MayI(ctx, kind, "", "", "create"); err != nil || !may {
		return Probe{}, err
	}
	filled, err := w.dryRunNamespace(ctx, "1h")
	if err != nil {
		return Probe{}, fmt.Errorf("creating a namespace in a dry run: %w", err)
	}
	_, defaults := filled.GetLabels()[policy.LabelInUse]
	_, err = w.dryRunNamespace(ctx, "soon")
	refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	if err != nil && !(refused && strings.Contains(err.Error(), policy.AnnotationDefaultTTL)) {
		return Probe{}, fmt.Errorf("creating a namespace with a bad default in a dry run: %w", err)
	}
	return Probe{Tried: true, Defaults: defaults, Validates: err != nil}, nil
}

func (w *World) dryRunNamespace(ctx context.Context, ttl string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetGenerateName("curfew-status-")
	object.SetAnnotations(map[string]string{policy.AnnotationDefaultTTL: ttl})
	return w.clients.Objects.Resource(namespaceResource).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
}
