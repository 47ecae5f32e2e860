package survey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
)

// pageSize bounds the objects of one answer, and wholePageSize the objects of the first answer if
// they are whole objects, which may have a megabyte each.
const pageSize, wholePageSize = 500, 50

// each calls f for every object that the policy may match, with a context that limits what the
// expressions for a page cost. It holds one page at a time.
func (s *Survey) each(ctx context.Context, f func(ctx context.Context, at *Place, object *unstructured.Unstructured) error) error {
	pages, limited := s.pages(s.policy.NeedsObject()), ctx
	pages.began = func() {
		limited = expression.Limited(ctx, pageCost, "the expressions cost more than they may for the objects of one page of a list")
	}
	for at := range s.listable {
		options := metav1.ListOptions{LabelSelector: s.policy.ServerSelector().String()}
		if at.Name != "" {
			options.FieldSelector = "metadata.name=" + at.Name
		}
		for _, namespace := range at.namespaces {
			err := pages.each(ctx, at.GroupVersionResource, namespace, options, func(object *unstructured.Unstructured) error {
				object.SetGroupVersionKind(at.GroupVersionKind())
				return f(limited, at, object)
			})
			if err = at.failed(err); err != nil {
				return fmt.Errorf("listing %s: %w", at.GroupResource(), err)
			}
			if at.broken != nil {
				break
			}
		}
	}
	return s.allBroken()
}

// listable are the places that can be listed so far.
func (s *Survey) listable(yield func(*Place) bool) {
	for i := range s.at {
		if s.at[i].broken == nil && !yield(&s.at[i]) {
			return
		}
	}
}

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
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// allBroken is an error if no kind can be listed: the API server may be at fault.
func (s *Survey) allBroken() error {
	if len(s.at) == 0 || slices.ContainsFunc(s.at, func(one Place) bool { return one.broken == nil }) {
		return nil
	}
	return fmt.Errorf("listing %s: %w", s.at[0].GroupResource(), s.at[0].broken)
}

// Unlisted are the kinds that were passed over because they could not be listed, with the reason,
// and the API groups that the policy may match and discovery did not show.
func (s *Survey) Unlisted() (out []string) {
	for i := range s.at {
		if err := s.at[i].broken; err != nil {
			out = append(out, fmt.Sprintf("%s: %v", s.at[i].GroupResource(), err))
		}
	}
	for _, group := range s.silent {
		if s.policy.Names(group) {
			out = append(out, fmt.Sprintf("API group %s: no answer", group))
		}
	}
	return out
}

// total counts all objects of the matched kinds and namespaces that are not being deleted, for
// maxPercentage.
func (s *Survey) total(ctx context.Context) (sum int64, err error) {
	pages := s.pages(false)
	for at := range s.listable {
		for _, namespace := range at.namespaces {
			err := pages.each(ctx, at.GroupVersionResource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
				if object.GetDeletionTimestamp() == nil && (at.only == nil || at.only[object.GetNamespace()]) {
					sum++
				}
				return nil
			})
			if err = at.failed(err); err != nil {
				return 0, fmt.Errorf("counting %s: %w", at.GroupResource(), err)
			}
			if at.broken != nil {
				break
			}
		}
	}
	return sum, s.allBroken()
}

// pages lists page by page.
type pages struct {
	reader lister
	whole  bool
	sizes  *paging.Sizes
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
	return &pages{reader: reader, whole: whole, sizes: paging.NewSizes(first, pageSize), spent: new(time.Duration)}
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

// each calls f for each object. A list that the API server ends early goes on.
func (p *pages) each(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, f func(*unstructured.Unstructured) error) error {
	for tries := 0; ; {
		options.Limit = p.sizes.Next()
		measured, size := paging.Measure(ctx)
		page, next, err := p.reader.List(measured, resource, namespace, p.whole, options)
		if resumed, ok := paging.Resume(err); ok {
			options.Continue = resumed
			continue
		}
		if p.sizes.TooLarge(err) {
			continue
		}
		if err != nil {
			if err := p.again(ctx, err, tries); err != nil {
				return err
			}
			tries++
			continue
		}
		tries = 0
		*p.spent = 0
		if p.began != nil {
			p.began()
		}
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		p.sizes.Took(len(page), *size, *p.spent)
		if page = nil; p.paged != nil {
			if err := p.paged(ctx); err != nil {
				return err
			}
		}
		if options.Continue = next; next == "" {
			return nil
		}
		if p.yield != nil {
			if err := p.yield(ctx, false); err != nil {
				return err
			}
		}
	}
}

// listError is the failure of a list itself, as opposed to a failure to handle its objects.
type listError struct{ err error }

func (e *listError) Error() string { return e.err.Error() }

func (e *listError) Unwrap() error { return e.err }

// liveFor is how old an answer to a lookup may be when a live judgement asks for it: many of them
// share one. docs/safety.md promises it.
const liveFor = time.Second

// servedFor is how old discovery may be when a run begins, and when a live judgement asks what
// mounts a volume.
const servedFor = 5 * time.Second

// maxLive is of how many namespaces live answers are kept.
const maxLive = 100

// memory remembers reads of namespaces. It reads each namespace once, for any number of callers.
type memory[T any] struct {
	// clock makes answers end after a while; nil keeps them.
	clock clock.PassiveClock
	while time.Duration

	mu    sync.Mutex
	known map[string]*found[T]
}

// found is the result of reading a namespace, or the error.
type found[T any] struct {
	turn chan struct{} // held while it is read or used
	ok   bool
	sent time.Time // when reading began
	all  T
	err  error
}

func newMemory[T any](clock clock.PassiveClock) *memory[T] {
	return &memory[T]{clock: clock, while: liveFor, known: map[string]*found[T]{}}
}

// Share lets many surveys have one answer of discovery, for servedFor. A policy that waits for a
// permission asks twice a minute.
func Share(clock clock.PassiveClock, served func(context.Context) ([]cleanup.Resource, error)) func(context.Context) ([]cleanup.Resource, error) {
	m := newMemory[[]cleanup.Resource](clock)
	m.while = servedFor
	return func(ctx context.Context) ([]cleanup.Resource, error) {
		return m.get(ctx, "", func(ctx context.Context, _ string) ([]cleanup.Resource, error) { return served(ctx) })
	}
}

// get answers with what read returns, or has returned. Who waits while others read has an answer
// that is no older than one of its own.
func (m *memory[T]) get(ctx context.Context, namespace string, read func(context.Context, string) (T, error)) (none T, err error) {
	asked := m.now()
	of := m.of(namespace)
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if !of.ok || m.clock != nil && asked.Sub(of.sent) >= m.while {
		of.sent = m.now()
		of.all, of.err = read(ctx, namespace)
		of.ok = ctx.Err() == nil // Its end is no answer for others.
	}
	return of.all, of.err
}

func (m *memory[T]) now() time.Time {
	if m.clock == nil {
		return time.Time{}
	}
	return m.clock.Now()
}

func (m *memory[T]) of(namespace string) *found[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.known[namespace]
	if of == nil {
		if m.clock != nil && len(m.known) >= maxLive {
			clear(m.known)
		}
		of = &found[T]{turn: make(chan struct{}, 1)}
		m.known[namespace] = of
	}
	return of
}
