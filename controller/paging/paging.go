// Package paging reads lists page by page ([Each]): it continues lists that the API server ended
// early ([Resume]), and bounds pages by their size ([Sizes], [Cap]).
package paging

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Limit is how many objects a page has at most unless the options say otherwise, and firstLimit the
// first page.
const Limit, firstLimit = 500, 50

// Each reads a list and passes its pages to take. If the client is a [Cap], the bytes of a page are
// bounded: a tenant may create objects of a megabyte each. Each returns the resourceVersion of the
// first page. Where the list outlives the API server's snapshot (see [Resume]), later objects are
// newer, and a watch from that resourceVersion brings what the earlier pages lack. An error is that
// of list or take.
func Each[L runtime.Object](ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), take func(L) error) (at string, err error) {
	sizes := NewSizes(firstLimit, cmp.Or(options.Limit, Limit))
	for {
		options.Limit = sizes.Next()
		measured, size := Measure(ctx)
		page, err := list(measured, options)
		if next, ok := Resume(err); ok {
			options.Continue = next
			continue
		}
		if sizes.TooLarge(err) {
			continue
		}
		if err != nil {
			return at, err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return at, err
		}
		sizes.Took(meta.LenList(page), *size, 0)
		at = cmp.Or(at, accessor.GetResourceVersion())
		if err := take(page); err != nil {
			return at, err
		}
		if options.Continue = accessor.GetContinue(); options.Continue == "" {
			return at, nil
		}
	}
}

// Resume returns where a list goes on that took longer than the API server keeps its snapshot: 410
// with a continue token. From there on the list is not consistent with its beginning. It returns
// false for any other error.
func Resume(err error) (next string, ok bool) {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return "", false
	}
	next = status.Status().Continue
	return next, next != ""
}
