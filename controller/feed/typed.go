package feed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/policy"
)

// finishedPods leaves the Pods in phase Succeeded and Failed, in one list and one watch.
const finishedPods = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"

// Jobs is the kind batch/v1 Job. The API offers no selector for finished Jobs, so that all are
// watched, in one namespace or with "" in all.
func Jobs(client kubernetes.Interface, namespace string) Kind {
	return typed(policy.JobProfile, client.BatchV1().Jobs, namespace)
}

// Pods is the kind v1 Pod. Only finished ones are listed and watched, in one namespace
// or with "" in all.
func Pods(client kubernetes.Interface, namespace string) Kind {
	kind := typed(policy.PodProfile, client.CoreV1().Pods, namespace)
	kind.FieldSelector = finishedPods
	kind.Patch = func(ctx context.Context, namespace, name string, kind types.PatchType, patch []byte) error {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, kind, patch, metav1.PatchOptions{})
		return err
	}
	return kind
}

// typedClient is the part of a typed client that a feed needs.
type typedClient[T, L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

func typed[T, L runtime.Object, C typedClient[T, L]](profile *policy.Profile, in func(namespace string) C, namespace string) Kind {
	return Kind{
		Profile:   profile,
		Namespace: namespace,
		Protobuf:  true,
		List: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return in(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return in(namespace).Watch(ctx, options)
		},
		Get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return in(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Facts: factsOf(profile), JSON: jsonOf(profile),
	}
}
