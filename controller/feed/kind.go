package feed

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/wellknown"
)

// Kind is how one kind is read from the API server.
type Kind struct {
	Profile *policy.Profile
	// Protobuf reports that the kind is built in and supports protobuf.
	Protobuf bool
	// Aggregated reports that an aggregated API server serves the kind.
	Aggregated bool
	// FieldSelector and LabelSelector narrow list and watch to objects that can be due.
	FieldSelector, LabelSelector string
	// Label is the key of the TTL label if the kind is watched only for that label; else "".
	Label string
	// Triggers are why objects of the kind may be due. At least one.
	Triggers []*Trigger
	// Namespace is the only one that is looked at; "" for all.
	Namespace string

	// List reads all namespaces where namespace is "". Watch reads those that the feed looks at.
	List  func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	Watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// Get is a quorum read of one object.
	Get func(ctx context.Context, namespace, name string) (runtime.Object, error)
	// Whole is a quorum read of one object in its JSON form where Get reads metadata alone; nil
	// where Get reads all of it.
	Whole func(ctx context.Context, namespace, name string) (runtime.Object, error)
	// Facts reads the facts that the judge needs. The object is not kept.
	Facts func(ctx context.Context, object runtime.Object) (*policy.Facts, error)
	// JSON is an object in its JSON form, for the expressions of policies. It is only called if a
	// policy applies to the kind.
	JSON func(object runtime.Object) (map[string]any, error)
	// Runtime finds the runtime that an object uses; nil for kinds without runtimes.
	Runtime *expression.Runtime
	// Propagation of deletions; empty means Background.
	Propagation metav1.DeletionPropagation
	// Patch sends a merge patch; nil if Curfew never writes to the kind.
	Patch func(ctx context.Context, namespace, name string, kind types.PatchType, patch []byte) error

	// Observer sees all states. It may be nil.
	Observer Observer

	// rules are the profile that the objects are judged by; nil for Jobs, Pods and labels, which
	// have none that could change.
	rules *expression.Profile
}

// scope tells apart the feeds of a resource for one trigger.
func (k *Kind) scope() string {
	if k.Label == wellknown.LabelKyvernoTTL {
		return k.Namespace + "/" + k.Label
	}
	return k.Namespace
}

// finishedPods leaves the Pods in phase Succeeded and Failed, in one list and one watch.
const finishedPods = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"

// Jobs is the kind batch/v1 Job. The API offers no selector for finished Jobs, so that all are
// watched.
func Jobs(client kubernetes.Interface) Kind {
	kind := kindOf(policy.JobProfile, client.BatchV1().Jobs, metav1.NamespaceAll)
	kind.Protobuf = true
	return kind
}

// Pods is the kind v1 Pod. A feed lists and watches finished Pods only, unless one of its triggers
// is Unfinished in the list of package judging.
func Pods(client kubernetes.Interface) Kind {
	kind := kindOf(policy.PodProfile, client.CoreV1().Pods, metav1.NamespaceAll)
	kind.Protobuf, kind.FieldSelector = true, finishedPods
	kind.Patch = func(ctx context.Context, namespace, name string, kind types.PatchType, patch []byte) error {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, kind, patch, metav1.PatchOptions{})
		return err
	}
	return kind
}

// resourceClient is the part of a client that a feed needs.
type resourceClient[T, L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// kindOf is a kind that one client reads.
func kindOf[T, L runtime.Object, C resourceClient[T, L]](profile *policy.Profile, clientIn func(namespace string) C, namespace string) Kind {
	return Kind{
		Profile: profile, Namespace: namespace,
		List: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return clientIn(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return clientIn(namespace).Watch(ctx, options)
		},
		Get: func(ctx context.Context, namespace, name string) (runtime.Object, error) {
			return clientIn(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Facts: factsOf(profile), JSON: jsonOf(profile),
	}
}

// untyped and partial are clients whose Get reads no subresource.
type (
	untyped struct{ dynamic.ResourceInterface }
	partial struct{ metadata.ResourceInterface }
)

func (c untyped) Get(ctx context.Context, name string, options metav1.GetOptions) (*unstructured.Unstructured, error) {
	return c.ResourceInterface.Get(ctx, name, options)
}

func (c partial) Get(ctx context.Context, name string, options metav1.GetOptions) (*metav1.PartialObjectMetadata, error) {
	return c.ResourceInterface.Get(ctx, name, options)
}

// Objects is a kind with a KindProfile.
func Objects(client dynamic.Interface, profile *expression.Profile) Kind {
	out := Untyped(client, profile.Profile)
	out.Runtime, out.Propagation, out.rules = profile.Runtime, profile.Propagation, profile
	return out
}

// Untyped is any kind at all, read in its JSON form.
func Untyped(client dynamic.Interface, profile *policy.Profile) Kind {
	resource := client.Resource(profile.Kind.GroupVersion().WithResource(profile.Resource))
	return kindOf(profile, func(namespace string) untyped { return untyped{resource.Namespace(namespace)} }, metav1.NamespaceAll)
}

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
	gvr := kind.Kind.GroupVersion().WithResource(kind.Resource)
	resource := client.Resource(gvr)
	out := kindOf(profile, func(namespace string) partial { return partial{resource.Namespace(namespace)} }, kind.Namespace)
	out.Protobuf, out.Aggregated, out.Propagation = kind.Protobuf, kind.Aggregated, kind.Propagation
	out.Label, out.LabelSelector = wellknown.LabelTTL, wellknown.LabelTTL
	out.Whole = func(ctx context.Context, namespace, name string) (runtime.Object, error) {
		return whole.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if kind.Alias {
		// A selector cannot ask for one of two keys, so the alias has a watch of its own. An object
		// that has both is seen by the first alone.
		out.Label = wellknown.LabelKyvernoTTL
		out.LabelSelector = wellknown.LabelKyvernoTTL + ",!" + wellknown.LabelTTL
	}
	out.Triggers = []*Trigger{labelled(out.Label)}
	return out
}

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
			return new(policy.FactsOfMeta(profile, &read.ObjectMeta)), nil
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

// Observer sees every state of a kind's objects before it is judged. Begin and End enclose a list
// of the whole kind: objects that the list does not show are gone.
type Observer interface {
	Begin()
	See(object runtime.Object)
	Forget(uid types.UID)
	End()
}

// noObserver observes kinds that no other kind depends on.
type noObserver struct{}

func (noObserver) Begin()             {}
func (noObserver) See(runtime.Object) {}
func (noObserver) Forget(types.UID)   {}
func (noObserver) End()               {}
