package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/loop"
)

const (
	// maxStream bounds how long a stream may take to bring the list, and pagedFor is how long lists are
	// read in pages after one that did not.
	maxStream = 3 * time.Minute
	pagedFor  = time.Hour
	// pageTries is how often a page is requested if its connection breaks. Without retries a long list
	// might never end.
	pageTries = 5
)

// list passes all objects on: none if the kind is not served. It returns the resourceVersion to
// watch from, and the watch itself if a stream has opened one.
func (f *Follower) list(ctx context.Context) (version string, events watch.Interface, err error) {
	f.again.Clear()
	f.asked, f.due = nil, nil
	version, events, err = f.read(ctx)
	if f.Absent(ctx, err) {
		if err = f.Begin(ctx); err == nil {
			f.End("")
			err = errAbsent
		}
	}
	if f.asked = f.again; err != nil {
		return "", nil, err
	}
	f.End(version)
	if f.Relist > 0 {
		f.due = f.Clock.After(f.Relist)
	}
	return version, events, nil
}

// read streams the list if it can. A stream that breaks would start over with the first object; a
// list in pages only repeats a page.
func (f *Follower) read(ctx context.Context) (version string, events watch.Interface, err error) {
	if f.Stream && !f.Clock.Now().Before(f.pagedUntil) {
		version, events, err = f.stream(ctx)
		switch {
		case errors.Is(err, errCut) && ctx.Err() == nil:
			f.Log.Info("a list is not streamed to its end, reading pages", "reason", err.Error())
			f.pagedUntil = f.Clock.Now().Add(pagedFor)
		case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err): // Else it cannot stream.
			return version, events, err
		}
	}
	version, err = f.pages(ctx)
	return version, nil, err
}

func (f *Follower) pages(ctx context.Context) (string, error) {
	if err := f.Begin(ctx); err != nil {
		return "", err
	}
	options := metav1.ListOptions{FieldSelector: f.FieldSelector, LabelSelector: f.LabelSelector}
	version, err := Objects(ctx, f.Clock, options, f.List, func(object runtime.Object) error { return f.Observe(ctx, object) })
	if err != nil {
		return "", fmt.Errorf("listing: %w", err)
	}
	return version, nil
}

// Objects lists in pages and visits each object. It returns the resourceVersion of the first page:
// see [Each].
func Objects(
	ctx context.Context, clock clock.Clock, options metav1.ListOptions,
	list func(context.Context, metav1.ListOptions) (runtime.Object, error), visit func(runtime.Object) error,
) (version string, err error) {
	again := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		delay := loop.NewBackoff()
		for tries := 1; ; tries++ {
			page, err := list(ctx, options)
			answered := apierrors.APIStatus(nil)
			if err == nil || tries == pageTries || errors.As(err, &answered) || ctx.Err() != nil {
				return page, err
			}
			loop.Pause(ctx, clock, delay.Next())
		}
	}
	return Each(ctx, options, again, func(page runtime.Object) error { return meta.EachListItem(page, visit) })
}

func (f *Follower) stream(ctx context.Context) (string, watch.Interface, error) {
	if err := f.Begin(ctx); err != nil {
		return "", nil, err
	}
	events, err := f.Watch(ctx, metav1.ListOptions{
		FieldSelector: f.FieldSelector, LabelSelector: f.LabelSelector, SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return "", nil, fmt.Errorf("watching: %w", err)
	}
	// The list is incomplete until its last bookmark, so a stream without it must end (S3).
	version, listed, err := f.drain(ctx, "", events.ResultChan(), f.Clock.After(maxStream))
	if err == nil && listed {
		return version, events, nil
	}
	events.Stop()
	return "", nil, fmt.Errorf("%w: %w", errCut, cmp.Or(err, errors.New("no bookmark came that ends the list")))
}
