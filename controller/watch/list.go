package watch

import (
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
	"curfew.dev/curfew/controller/paging"
)

// errStalled ends a stream that does not come to the end of its list.
var errStalled = errors.New("no bookmark came that ends the list")

const (
	// stallAfter is how often a stream is checked. A stream without any event since the last check
	// has stalled. maxStream bounds how long a stream may take to bring the list.
	stallAfter = time.Minute
	maxStream  = 10 * time.Minute
	// streamTries is how many streams in a row may end early before lists are read in pages.
	streamTries = 2
	// pagedFor is how long lists are read in pages before a stream is tried again.
	pagedFor = time.Hour
	// pageTries is how often a page is requested if its connection breaks. Without retries a long list
	// might never end.
	pageTries = 5
)

// list passes all objects on: none if the kind is not served. It returns the resourceVersion to
// watch from, and the watch itself if a stream has opened one.
func (f *Follower) list(ctx context.Context) (version string, events watch.Interface, err error) {
	f.again.Clear()
	f.asked, f.due = f.again, nil
	version, events, err = f.read(ctx)
	absent := f.Absent(ctx, err)
	if absent {
		version, err = "", f.begin(ctx)
	}
	if err != nil {
		return "", nil, err
	}
	f.end(version)
	if f.Relist > 0 {
		f.due = f.Clock.After(f.Relist)
	}
	switch was := f.absent; {
	case absent && !was:
		f.Log.Info("CRD is not installed: none of its objects count until it is")
	case was && !absent:
		f.Log.Info("CRD is installed")
	}
	if f.absent = absent; absent {
		err = errAbsent
	}
	return version, events, err
}

func (f *Follower) read(ctx context.Context) (version string, events watch.Interface, err error) {
	if f.Stream && !f.Clock.Now().Before(f.pagedUntil) {
		version, events, err = f.stream(ctx)
		switch {
		case errors.Is(err, errStalled) || f.cut >= streamTries && ctx.Err() == nil:
			// A stream that breaks starts over with the first object; a list in pages only repeats a page.
			f.Log.Info("the stream of a list does not come to its end, reading pages", "reason", err.Error())
			f.cut, f.pagedUntil = 0, f.Clock.Now().Add(pagedFor)
		case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
			return version, events, err
		}
	}
	version, err = f.pages(ctx)
	return version, nil, err
}

func (f *Follower) begin(ctx context.Context) error {
	if f.Begin == nil {
		return nil
	}
	return f.Begin(ctx)
}

func (f *Follower) end(version string) {
	if f.End != nil {
		f.End(version)
	}
}

func (f *Follower) pages(ctx context.Context) (string, error) {
	if err := f.begin(ctx); err != nil {
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
// see [paging.Each].
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
	return paging.Each(ctx, options, again, func(page runtime.Object) error { return meta.EachListItem(page, visit) })
}

func (f *Follower) stream(ctx context.Context) (string, watch.Interface, error) {
	if err := f.begin(ctx); err != nil {
		return "", nil, err
	}
	events, err := f.Watch(ctx, metav1.ListOptions{
		FieldSelector: f.FieldSelector, LabelSelector: f.LabelSelector, SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return "", nil, fmt.Errorf("watching: %w", err)
	}
	version, err := f.initialEvents(ctx, events.ResultChan())
	if err != nil {
		f.cut++
		events.Stop()
		return "", nil, err
	}
	f.cut = 0
	return version, events, nil
}

// initialEvents handles the events of a stream up to the bookmark that ends the list. The list is
// incomplete until that bookmark, so a stream without it must end (S3).
func (f *Follower) initialEvents(ctx context.Context, events <-chan watch.Event) (string, error) {
	began, progress := f.Clock.Now(), false
	over := f.Clock.NewTimer(stallAfter)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case now := <-over.C():
			if !progress || now.Sub(began) >= maxStream {
				return "", errStalled
			}
			progress = false
			over.Reset(stallAfter)
		case event, ok := <-events:
			progress = true
			switch {
			case !ok && f.Clock.Since(began) >= stallAfter:
				return "", errStalled
			case !ok:
				return "", errors.New("the watch ended before all of the list was there")
			}
			if version, listed, err := f.event(ctx, event); err != nil || listed {
				return version, err
			}
		}
	}
}
