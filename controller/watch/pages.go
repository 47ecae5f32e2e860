package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/transport"
)

// Limit is how many objects a page has at most unless the options say otherwise, and firstLimit the
// first page.
const Limit, firstLimit = 500, 50

// maxResumes is how often a list is resumed without a page in between.
const maxResumes = 3

// Each reads a list and passes its pages to take. If the client is a [Cap], the bytes of a page are
// bounded: a tenant may create objects of a megabyte each. Each returns the resourceVersion of the
// first page. Where the list outlives the API server's snapshot (see [Resume]), later objects are
// newer, and a watch from that resourceVersion brings what the earlier pages lack. An error is that
// of list or take.
func Each[L runtime.Object](
	ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), take func(L) error,
) (version string, err error) {
	sizes := NewSizes(firstLimit, cmp.Or(options.Limit, Limit))
	return EachSized(ctx, options, sizes, list, func(page L) (time.Duration, error) { return 0, take(page) })
}

// EachSized is Each with pages of sizes that several lists share. take returns how long it worked
// on the objects of a page. The page takes memory no longer than take needs it.
func EachSized[L runtime.Object](
	ctx context.Context, options metav1.ListOptions, sizes *Sizes, list func(context.Context, metav1.ListOptions) (L, error),
	take func(L) (spent time.Duration, err error),
) (version string, err error) {
	for resumes := 0; ; {
		options.Limit = sizes.Next()
		measured, size := Measure(ctx)
		page, err := list(measured, options)
		if next, ok := Resume(err); ok && resumes < maxResumes {
			options.Continue = next
			resumes++
			continue
		}
		if sizes.TooLarge(err) {
			continue
		}
		if err != nil {
			return version, err
		}
		resumes = 0
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return version, err
		}
		version = cmp.Or(version, accessor.GetResourceVersion())
		objects, next := meta.LenList(page), accessor.GetContinue()
		spent, err := take(page)
		if err != nil {
			return version, err
		}
		sizes.Took(objects, *size, spent)
		if options.Continue = next; next == "" {
			return version, nil
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

const (
	// maxBytes is how large a page may be, and goodBytes how large pages become.
	maxBytes, goodBytes = 4 << 20, 2 << 20
	// goodTime is how long it takes to work through a page.
	goodTime = time.Second
)

// Sizes adapts the number of objects in a page to their size and to the time of an answer: small
// objects come by the hundred, and large ones never take more than some megabytes. It relies on
// [Cap] to end an answer that is too large.
type Sizes struct{ next, most int64 }

// NewSizes begins with pages of a first size, which grow up to a largest one.
func NewSizes(first, most int64) *Sizes { return &Sizes{min(first, most), most} }

// Next is the limit of the next page.
func (s *Sizes) Next() int64 { return s.next }

// Took notes what a page of so many objects took.
func (s *Sizes) Took(objects int, size int64, spent time.Duration) {
	if objects == 0 {
		return
	}
	next := min(s.most, 2*s.next)
	if size > 0 {
		next = min(next, int64(objects)*goodBytes/size)
	}
	if spent > 0 {
		next = min(next, int64(float64(objects)*float64(goodTime)/float64(spent)))
	}
	s.next = max(1, next)
}

// TooLarge reports whether the error of a list means that it should be tried again with the smaller
// limit that Next returns now.
func (s *Sizes) TooLarge(err error) bool {
	if !apierrors.IsRequestEntityTooLargeError(err) || s.next == 1 {
		return false
	}
	s.next = max(1, s.next/4)
	return true
}

type answerKey struct{}

// answer is how large the answer to a request may be, and how large it was. Pages take none of the
// shared budget.
type answer struct {
	most, size int64
	page       bool
}

// Measure has [Cap] bound the pages that are answered to requests with this context, and write down
// their size.
func Measure(ctx context.Context) (measured context.Context, size *int64) {
	page := &answer{most: maxBytes, page: true}
	return context.WithValue(ctx, answerKey{}, page), &page.size
}

// Bound has [Cap] bound any answer to requests with this context. Answers of more than small bytes
// wait for a part of one budget: many that are read at the same time take no more than it.
func Bound(ctx context.Context, most int64) context.Context {
	return context.WithValue(ctx, answerKey{}, &answer{most: most})
}

const (
	small, budgetBytes = 64 << 10, 32 << 20
	// maxKept is how large the fields of one object may be that [Fields] keeps.
	maxKept = 256 << 10
)

var budget = semaphore.NewWeighted(budgetBytes)

// Cap answers 413 in the place of an answer that is too large, so that the process never holds it.
// The API server has no such limit. A page of one object is never too large.
func Cap(next http.RoundTripper) http.RoundTripper { return &transport.Wrapper{Next: next, Do: capped} }

func capped(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	ctx := request.Context()
	bounds, bounded := ctx.Value(answerKey{}).(*answer)
	if err != nil || !bounded {
		return response, err
	}
	from := response.Body
	defer func() { _ = from.Close() }()
	limit := bounds.most
	if request.URL.Query().Get("limit") == "1" {
		limit = 1 << 40
	}
	body, err := io.ReadAll(io.LimitReader(from, small))
	if err != nil {
		return nil, err
	}
	if len(body) == small && !bounds.page {
		weight := min(limit, budgetBytes)
		if err := budget.Acquire(ctx, weight); err != nil {
			return nil, err
		}
		defer budget.Release(weight)
	}
	body, err = io.ReadAll(io.MultiReader(bytes.NewReader(body), io.LimitReader(from, limit+1-int64(len(body)))))
	if err != nil {
		return nil, err
	}
	size := int64(len(body))
	if bounds.page {
		bounds.size = size // A list reads one page at a time. Other requests may share their context.
	}
	if size > limit {
		err = apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the answer has more than %d bytes", limit))
	} else if keep, ok := ctx.Value(fieldsKey{}).(func([]string) bool); ok && response.StatusCode == http.StatusOK {
		if !bounds.page {
			limit = maxKept
		}
		body, err = prune(body, keep, limit)
	}
	if large := (*apierrors.StatusError)(nil); errors.As(err, &large) {
		status := large.Status()
		status.Kind, status.APIVersion = "Status", metav1.SchemeGroupVersion.Version
		body, err = json.Marshal(status)
		response.StatusCode, response.Status = http.StatusRequestEntityTooLarge, "413 Request Entity Too Large"
		response.Header = http.Header{"Content-Type": {"application/json"}}
	}
	if err != nil {
		return nil, err
	}
	response.ContentLength, response.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	return response, nil
}
