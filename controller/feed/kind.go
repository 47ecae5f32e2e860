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
	// Protobuf tells that the kind is built in and speaks it.
	Protobuf bool
	// FieldSelector narrows list and watch to what can be due.
	FieldSelector string

	// List and Watch read all namespaces where namespace is "".
	List  func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	Watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// Get is a quorum read of one object.
	Get func(ctx context.Context, namespace, name string) (runtime.Object, error)
	// Facts reads what the judge needs. The object is not kept.
	Facts func(object runtime.Object) (*policy.Facts, error)
	// JSON is an object in its JSON form, for the expressions of policies. It is only asked for where a policy speaks of the
	// kind.
	JSON func(object runtime.Object) (map[string]any, error)
	// Runtime says which runtime an object uses; nil for kinds that know none.
	Runtime *expression.Runtime
	// Propagation of deletions; empty means Background.
	Propagation metav1.DeletionPropagation
	// Patch sends a merge patch; nil where nothing is ever written to the kind.
	Patch func(ctx context.Context, namespace, name string, kind types.PatchType, patch []byte) error
}
