package feed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
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
	if k.Label == policy.LabelKyvernoTTL {
		return k.Namespace + "/" + k.Label
	}
	return k.Namespace
}
