package feed

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
)

// pageTries is how often a page is requested if its connection breaks. Without retries a long list
// might never end.
const pageTries = 5

// pages lists in pages and visits each object. It returns the resourceVersion of the first page:
// see [paging.Each].
func (f *Feed) pages(ctx context.Context, namespace, selector string, visit func(*policy.Facts, runtime.Object) error) (string, error) {
	options := metav1.ListOptions{FieldSelector: f.kind.FieldSelector, LabelSelector: selector}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		delay := loop.NewBackoff()
		for tries := 1; ; tries++ {
			list, err := f.kind.List(ctx, namespace, options)
			if err == nil || tries == pageTries || answered(err) || ctx.Err() != nil {
				return list, err
			}
			loop.Pause(ctx, f.options.Clock, delay.Next())
		}
	}
	return paging.Each(ctx, options, list, func(page runtime.Object) error {
		return meta.EachListItem(page, func(object runtime.Object) error {
			facts, err := f.kind.Facts(ctx, object)
			if err != nil {
				return err
			}
			return visit(facts, object)
		})
	})
}

// answered reports whether an error is the answer of the API server.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}
