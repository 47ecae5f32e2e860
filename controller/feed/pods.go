package feed

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/policy"
)

// finishedPods leaves the Pods in phase Succeeded and Failed, in one list and one watch.
const finishedPods = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"

// Pods is the kind v1 Pod. Only finished ones are listed and watched.
func Pods(client kubernetes.Interface) Kind {
	return Kind{
		Profile:       policy.PodProfile,
		Protobuf:      true,
		FieldSelector: finishedPods,
		List: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
		},
		Get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		JSON: jsonOf(policy.PodProfile),
		Facts: func(object runtime.Object) (*policy.Facts, error) {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return nil, fmt.Errorf("got a %T where a Pod was asked for", object)
			}
			return policy.FactsOfPod(pod), nil
		},
		Patch: func(ctx context.Context, namespace, name string, kind types.PatchType, patch []byte) error {
			_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, kind, patch, metav1.PatchOptions{})
			return err
		},
	}
}
