package survey

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/watch"
)

// pageSize bounds the objects of one answer, and wholePageSize the objects of the first answer if
// they are whole objects, which may have a megabyte each.
const pageSize, wholePageSize = 500, 50

// pages lists page by page.
type pages struct {
	reader lister
	whole  bool
	sizes  *watch.Sizes
	spent  *time.Duration // on the objects of the page
	began  func()         // is called when a page was read; may be nil
	yield  func(ctx context.Context, inPage bool) error
	paged  func(ctx context.Context) error                  // is called after each page; may be nil
	wait   func(ctx context.Context, d time.Duration) error // before another try; may be nil
	waits  int                                              // so far
}

// pages lists what the policy may match, and lets other surveys work between two pages.
func (s *Survey) pages(whole bool) *pages {
	out := newPages(s.reader, whole)
	out.spent, out.yield, out.paged, out.wait = &s.spent, s.options.Yield, s.options.Paged, s.options.Wait
	return out
}

func newPages(reader lister, whole bool) *pages {
	first := int64(pageSize)
	if whole {
		first = wholePageSize
	}
	return &pages{reader: reader, whole: whole, sizes: watch.NewSizes(first, pageSize), spent: new(time.Duration)}
}

// each calls f for each object.
func (p *pages) each(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions,
	f func(*unstructured.Unstructured) error,
) error {
	list := func(measured context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		for tries := 0; ; tries++ {
			items, next, err := p.reader.List(measured, resource, namespace, p.whole, options)
			if err == nil {
				page := &unstructured.UnstructuredList{Items: items}
				page.SetContinue(next)
				return page, nil
			}
			if err := p.again(ctx, err, tries); err != nil {
				return nil, err
			}
		}
	}
	_, err := watch.EachSized(ctx, options, p.sizes, list, func(page *unstructured.UnstructuredList) (time.Duration, error) {
		*p.spent = 0
		if p.began != nil {
			p.began()
		}
		for i := range page.Items {
			if err := f(&page.Items[i]); err != nil {
				return 0, err
			}
		}
		spent, more := *p.spent, page.GetContinue() != ""
		page = nil // It takes no memory while others have their turn.
		if p.paged != nil {
			if err := p.paged(ctx); err != nil {
				return 0, err
			}
		}
		if more && p.yield != nil {
			return spent, p.yield(ctx, false)
		}
		return spent, nil
	})
	return err
}

const (
	// listWaits is how often the same page is tried again whose kind cannot be listed: that takes
	// seven seconds. A single answer must not drop a kind from a run.
	listWaits = 3
	// allWaits bounds them for a pass, if many kinds are broken.
	allWaits = 10 * listWaits
)

// again waits before a page is tried again, if that may help.
func (p *pages) again(ctx context.Context, err error, tries int) error {
	status := apierrors.APIStatus(nil)
	passing := OfItsKind(err) && errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError
	if p.wait == nil || tries == listWaits || p.waits == allWaits || !passing {
		return &listError{err}
	}
	p.waits++
	return p.wait(ctx, time.Second<<tries)
}

// listError is the failure of a list itself, as opposed to a failure to handle its objects.
type listError struct{ err error }

func (e *listError) Error() string { return e.err.Error() }

func (e *listError) Unwrap() error { return e.err }

// failed notes a list that failed because of its kind alone. Other errors it returns.
func (p *Place) failed(err error) error {
	list, ok := err.(*listError) // A wrapped one is another list.
	if ok && OfItsKind(list.err) {
		p.broken = list.err
		return nil
	}
	return err
}

// OfItsKind reports whether the API server answers that it cannot list a kind, because its
// conversion webhook or its own API server is broken, or the kind is gone. A server that is busy
// fails for all kinds, and missing rights are waited for.
func OfItsKind(err error) bool {
	status := apierrors.APIStatus(nil)
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
	busy := apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
	return !refused && !busy && errors.As(err, &status)
}
