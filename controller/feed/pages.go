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

// A page has at most pageSize objects, and the first one firstPage: [paging.Cap] bounds pages by
// their bytes, here and so in the API server.
const (
	firstPage = 50
	pageSize  = 500
	// pageTries is how often a page is read whose connection breaks. Without that, a long list might
	// never come to its end.
	pageTries = 5
)

// pages lists in pages and visits each object. It returns the resourceVersion of the first page.
// A list that takes longer than the API server keeps its snapshot goes on with newer objects: what
// the earlier pages lack has changed since the first one, and a watch from there brings it.
func (f *Feed) pages(ctx context.Context, namespace, selector string, visit func(*policy.Facts, runtime.Object) error) (string, error) {
	options := metav1.ListOptions{FieldSelector: f.kind.FieldSelector, LabelSelector: selector}
	sizes, first := paging.NewSizes(firstPage, pageSize), ""
	tries, delay := 1, loop.NewBackoff()
	for {
		options.Limit = sizes.Next()
		measured, size := paging.Measure(ctx)
		list, err := f.kind.List(measured, namespace, options)
		if next, ok := paging.Resume(err); ok {
			options.Continue = next
			continue
		}
		if sizes.TooLarge(err) {
			continue
		}
		if err != nil && tries < pageTries && !answered(err) && ctx.Err() == nil {
			tries++
			loop.Pause(ctx, f.options.Clock, delay.Next())
			continue
		}
		if err != nil {
			return "", err
		}
		tries = 1
		delay.Reset()
		accessor, err := meta.ListAccessor(list)
		if err != nil {
			return "", err
		}
		if first == "" {
			first = accessor.GetResourceVersion()
		}
		sizes.Took(meta.LenList(list), *size, 0)
		err = meta.EachListItem(list, func(object runtime.Object) error {
			facts, err := f.kind.Facts(ctx, object)
			if err != nil {
				return err
			}
			return visit(facts, object)
		})
		if err != nil {
			return "", err
		}
		if options.Continue = accessor.GetContinue(); options.Continue == "" {
			return first, nil
		}
	}
}

// answered reports whether an error is the answer of the API server.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}
