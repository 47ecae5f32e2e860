package feed

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
)

// factsOf reads objects in the forms that the clients return. If ctx ends while an expression of
// the profile is evaluated, that is an error and no fact about the object.
func factsOf(profile *policy.Profile) func(context.Context, runtime.Object) (*policy.Facts, error) {
	return func(ctx context.Context, object runtime.Object) (*policy.Facts, error) {
		switch read := object.(type) {
		case *batchv1.Job:
			return policy.FactsOfJob(read), nil
		case *corev1.Pod:
			return policy.FactsOfPod(read), nil
		case *metav1.PartialObjectMetadata:
			facts := policy.FactsOfMeta(profile, &read.ObjectMeta)
			return &facts, nil
		case *unstructured.Unstructured:
			return policy.FactsOfObjectContext(ctx, profile, read.Object), ctx.Err()
		default:
			return nil, fmt.Errorf("got a %T where a %s was asked for", object, profile.Kind.Kind)
		}
	}
}

// jsonOf turns objects into their JSON form, with the kind that typed lists and watches leave out.
func jsonOf(profile *policy.Profile) func(runtime.Object) (map[string]any, error) {
	return func(object runtime.Object) (map[string]any, error) {
		if read, ok := object.(*unstructured.Unstructured); ok {
			return read.Object, nil
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		content["apiVersion"], content["kind"] = profile.Kind.GroupVersion().String(), profile.Kind.Kind
		return content, nil
	}
}
