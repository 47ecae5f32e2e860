package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Left looks again for what blocks others: webhook configurations, finalizers of PodTallies, and
// CRDs, unless they are kept.
func (i *Installation) Left(ctx context.Context) (out []string, err error) {
	again, err := Find(ctx, i.clients, i.Options)
	if err != nil {
		return nil, err
	}
	for _, object := range again.of(webhooks, kinds) {
		out = append(out, i.named(object))
	}
	for _, pod := range again.Releases {
		out = append(out, fmt.Sprintf("the finalizer of pod/%s in namespace %s", pod.Name, pod.Namespace))
	}
	return out, nil
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
