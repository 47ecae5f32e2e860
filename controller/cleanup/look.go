package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// targetOf is the resource of an item.
func targetOf(item *v1alpha1.CleanupItem) *cleanup.Target {
	return &cleanup.Target{
		GroupVersionResource: schema.GroupVersionResource{Group: item.Group, Version: item.Version, Resource: item.Resource},
		Kind:                 item.Kind, Namespaced: item.Namespace != "",
	}
}

// look reads an object live, as the account of the run. It is nil if it is gone or being deleted;
// then gone says which.
func (r *run) look(ctx context.Context, item *v1alpha1.CleanupItem) (object *unstructured.Unstructured, gone engine.Judgement, err error) {
	object, err = r.survey.Get(ctx, targetOf(item), item.Namespace, item.Name)
	switch {
	case follow.IsGone(err), err == nil && object.GetUID() != item.UID:
		return nil, engine.Judgement{Verdict: engine.Gone}, nil
	case err != nil:
		return nil, gone, fmt.Errorf("reading %s %s/%s: %w", item.Kind, item.Namespace, item.Name, err)
	}
	if since := object.GetDeletionTimestamp(); since != nil {
		return nil, engine.Judgement{Verdict: engine.BeingDeleted, Since: since.Time}, nil
	}
	return object, gone, nil
}

// errNotServed: no version of a resource is served. Its kind may be gone, and its objects with it,
// or its API does not answer.
var errNotServed = errors.New("its resource is not served any more")

// lookElsewhere reads an object whose resource is not served any more: in another version. The
// error is errNotServed if there is none.
func (r *run) lookElsewhere(ctx context.Context, item *v1alpha1.CleanupItem, notServed error) (*unstructured.Unstructured, error) {
	served, err := r.c.options.Served(ctx)
	if silent := cleanup.SilentGroups(nil); err != nil && !errors.As(err, &silent) {
		return nil, err
	}
	i := slices.IndexFunc(served, func(one cleanup.Resource) bool { return one.Group == item.Group && one.Resource == item.Resource })
	switch {
	case i < 0:
		return nil, errNotServed
	case slices.Contains(served[i].Versions, item.Version):
		return nil, notServed
	}
	item.Version = served[i].Versions[0]
	object, _, err := r.look(ctx, item)
	return object, err
}
