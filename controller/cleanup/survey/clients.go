package survey

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// Clients read from the API server. They are a [Reader] but for Lacks.
type Clients struct {
	Objects  dynamic.Interface
	Metadata metadata.Interface
}

// List implements [Reader].
func (c Clients) List(ctx context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
	if whole {
		list, err := c.Objects.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.GetContinue(), nil
	}
	list, err := c.Metadata.Resource(resource).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	out := make([]unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		if err := convert(&list.Items[i], &out[i]); err != nil {
			return nil, "", err
		}
	}
	return out, list.Continue, nil
}

// Each calls f for each object of a resource. Its pages are bounded by bytes if the transport of
// the client is a [paging.Cap].
func (c Clients) Each(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, f func(*unstructured.Unstructured) error) error {
	return newPages(c, true).each(ctx, resource, namespace, options, f)
}

// Get implements [Reader].
func (c Clients) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, whole bool) (*unstructured.Unstructured, error) {
	if whole {
		return c.Objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	meta, err := c.Metadata.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, convert(meta, out)
}

// convert makes an object from metadata alone.
func convert(meta *metav1.PartialObjectMetadata, out *unstructured.Unstructured) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return fmt.Errorf("metadata of %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	out.Object = content
	return nil
}

// NewBudget returns the budget of all expressions in the live judgements of one attempt at a batch:
// the same as for a page of a list.
func NewBudget() *expression.Budget {
	return expression.NewBudget(pageCost, "the expressions cost more than they may for the objects of one batch")
}

// Away calls f, which reads from the API server, and then waits until expressions may be evaluated.
// It returns the error of f, or why the wait ended.
type Away func(ctx context.Context, f func() error) error

// JudgeLive decides about an object that was just read, with lookups that are read again. Its
// expressions count for the budget. Many may call it at once.
func (s *Survey) JudgeLive(ctx context.Context, at *cleanup.Target, object *unstructured.Unstructured, source platform.Source, budget *expression.Budget, away Away) (cleanup.Decision, error) {
	var in *surroundings
	err := away(ctx, func() (err error) {
		if in, err = s.surroundings(ctx, object, source); err == nil {
			in.lookups, in.away = s.liveLookups(ctx, in.snapshot), away
		}
		return err
	})
	if err != nil {
		return cleanup.Decision{}, err
	}
	return s.judge(budget.In(ctx), at, object, in)
}

// surroundings are what an object is judged by.
type surroundings struct {
	snapshot *platform.Snapshot
	// namespace is nil if the object has none, or if it is not known.
	namespace *resolution.NamespacePolicy
	lookups   *lookups
	// away is around each lookup; nil for a list.
	away Away
}

func (s *Survey) surroundings(ctx context.Context, object *unstructured.Unstructured, source platform.Source) (*surroundings, error) {
	snapshot, err := s.snapshot(ctx, source)
	if err != nil {
		return nil, err
	}
	in := &surroundings{snapshot: snapshot, lookups: s.lookups}
	if name := object.GetNamespace(); name != "" {
		if in.namespace, err = source.Namespace(ctx, name); err != nil && !errors.Is(err, platform.ErrUnknown) {
			return nil, err
		}
	}
	return in, nil
}
