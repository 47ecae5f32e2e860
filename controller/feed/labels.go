package feed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// LabelledKind is a kind whose objects expire by a TTL label.
type LabelledKind struct {
	Kind          schema.GroupVersionKind
	Resource      string
	ClusterScoped bool
	// Protobuf reports that the kind is built in and supports protobuf.
	Protobuf bool
	// Aggregated reports that an aggregated API server serves the kind.
	Aggregated bool
	// Namespace is the only one that is watched; "" for all.
	Namespace string
	// Alias watches label cleanup.kyverno.io/ttl instead of curfew.dev/ttl.
	Alias bool
	// Propagation of deletions; empty means Options.Propagation.
	Propagation metav1.DeletionPropagation
}

// Labelled is any kind at all. It lists and watches only objects that carry the label, and only
// their metadata: a Secret is never read. If a LifecyclePolicy needs more to decide whether its
// bounds apply, the object is read whole, once, right before it would be deleted.
func Labelled(client metadata.Interface, whole dynamic.Interface, kind LabelledKind) Kind {
	profile := &policy.Profile{Name: kind.Kind.Kind, Kind: kind.Kind, Resource: kind.Resource, ClusterScoped: kind.ClusterScoped}
	at := kind.Kind.GroupVersion().WithResource(kind.Resource)
	resource := client.Resource(at)
	out := Kind{
		Profile: profile, Protobuf: kind.Protobuf, Aggregated: kind.Aggregated, Propagation: kind.Propagation, Namespace: kind.Namespace,
		Label: policy.LabelTTL, LabelSelector: policy.LabelTTL,
		List: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return resource.Namespace(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Namespace(kind.Namespace).Watch(ctx, options)
		},
		Get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return resource.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Whole: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return whole.Resource(at).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Facts: factsOf(profile), JSON: jsonOf(profile),
	}
	if kind.Alias {
		// A selector cannot ask for one of two keys, so the alias has a watch of its own. An object
		// that has both is seen by the first alone.
		out.Label = policy.LabelKyvernoTTL
		out.LabelSelector = policy.LabelKyvernoTTL + ",!" + policy.LabelTTL
	}
	out.Triggers = []*Trigger{labelled(out.Label)}
	return out
}

// read reads an object live: whole, if a policy has to see more than metadata.
func (f *Feed) read(ctx context.Context, namespace, name string) (runtime.Object, error) {
	if f.kind.Whole == nil {
		return f.kind.Get(ctx, namespace, name)
	}
	snapshot, err := f.options.Cached.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if expression.NeedsWhole(snapshot.Concerning(f.Kind())) {
		return f.kind.Whole(ctx, namespace, name)
	}
	return f.kind.Get(ctx, namespace, name)
}
