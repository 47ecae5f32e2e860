package feed

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/policy"
)

// Jobs is the kind batch/v1 Job. The API offers no selector for finished Jobs, so that all are
// watched.
func Jobs(client kubernetes.Interface) Kind {
	return Kind{
		Profile:  policy.JobProfile,
		Protobuf: true,
		List: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return client.BatchV1().Jobs(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.BatchV1().Jobs(metav1.NamespaceAll).Watch(ctx, options)
		},
		Get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		JSON: jsonOf(policy.JobProfile),
		Facts: func(object runtime.Object) (*policy.Facts, error) {
			job, ok := object.(*batchv1.Job)
			if !ok {
				return nil, fmt.Errorf("got a %T where a Job was asked for", object)
			}
			return policy.FactsOfJob(job), nil
		},
	}
}
