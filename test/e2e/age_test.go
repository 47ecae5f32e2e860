package e2e

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// age makes an object of a built-in kind as old as if it had been created at another time.
func (s *space) age(object *unstructured.Unstructured, created time.Time) {
	s.Helper()
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	s.poll("etcd to have another age of "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) (bool, error) {
		return suite.cluster.Age(ctx, resource.Resource, object.GetNamespace(), object.GetName(), created)
	})
}
