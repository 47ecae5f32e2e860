package feed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// Objects is a kind with a KindProfile.
func Objects(client dynamic.Interface, profile *expression.Profile, namespace string) Kind {
	out := Untyped(client, profile.Profile, namespace)
	out.Runtime, out.Propagation, out.rules = profile.Runtime, profile.Propagation, profile
	return out
}

// Untyped is any kind at all, read in its JSON form.
func Untyped(client dynamic.Interface, profile *policy.Profile, namespace string) Kind {
	resource := client.Resource(profile.Kind.GroupVersion().WithResource(profile.Resource))
	return Kind{
		Profile: profile, Namespace: namespace,
		List: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return resource.Namespace(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Namespace(namespace).Watch(ctx, options)
		},
		Get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return resource.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Facts: factsOf(profile), JSON: jsonOf(profile),
	}
}
