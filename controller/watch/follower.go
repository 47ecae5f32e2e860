package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
)

// Options say how a kind is read, and who gets its objects. The functions are called one after
// another. Gather, Unserved, Bookmark and Changed may be nil.
type Options struct {
	List  func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// LabelSelector and FieldSelector narrow both.
	LabelSelector, FieldSelector string

	// Stream reads lists as the beginning of a watch if the API server can (KEP-3157), so that neither
	// side holds the list.
	Stream bool
	// Relist is how long after a list all objects are listed again, to find changes that the watch
	// missed (S3). With 0 they are listed at the end of each watch, which is cheap for small kinds.
	Relist time.Duration
	// Backoff is the wait after failures; nil means the usual one.
	Backoff *loop.Backoff
	// Gather is how long a call of [Follower.Again] waits for others.
	Gather func() time.Duration
	// Unserved reports whether the API server serves no such kind, which then has no objects. A 404 for
	// a list does not say so: a proxy may have sent it.
	Unserved func(ctx context.Context) (bool, error)

	// Begin is called before a list, and End after it, with its resourceVersion. A list that fails has
	// no End.
	Begin func(ctx context.Context) error
	End   func(version string)
	// Observe gets each state of an object, from a list or a watch, and Deleted its end, from a watch.
	Observe func(ctx context.Context, object runtime.Object) error
	Deleted func(object metav1.Object)
	// Bookmark gets the resourceVersion up to which the watch has shown all changes.
	Bookmark func(version string)
	// Changed is called after each failure, and when nothing is missing any more. It must not block.
	Changed func()

	Clock clock.Clock // nil means the real one
	Log   logr.Logger
}

// Follower follows the objects of one kind.
type Follower struct {
	Options
	again, wake loop.Signal
	gap         atomic.Pointer[gap]

	// Run alone uses these. due is when to list again, and asked is the signal for that, or nil once it
	// was received. After a stream that did not bring its list, pages are read until pagedUntil.
	due        <-chan time.Time
	asked      loop.Signal
	pagedUntil time.Time
}

// gap is a time in which not all objects are known, or their changes are not being watched.
type gap struct {
	since time.Time
	err   error // nil if nothing has failed: it is time to list again
}

const (
	// usefulAfter is how long a watch must last for the list before it to count as a success.
	usefulAfter = 10 * time.Second
	// patience is how long a list on schedule may take until objects count as missing.
	patience = time.Minute
	// absentFor is how long a kind that is not served is left alone, and at most one that may not be
	// read. Its first refusals are retried at once: an API server that has just started refuses until
	// it has read its roles.
	absentFor, retryFirst = 30 * time.Second, 200 * time.Millisecond
)

var (
	// ErrNotListed: the API server has not answered yet.
	ErrNotListed = errors.New("not listed yet")
	errListAgain = errors.New("time to list again")
	errEnded     = errors.New("the watch has ended")
	errAbsent    = errors.New("the CRD is not installed: none of its objects count until it is")
	errCut       = errors.New("the stream broke")
)

// New makes a follower that does nothing until Run.
func New(options Options) *Follower {
	f := &Follower{Options: options, again: loop.NewSignal(), wake: loop.NewSignal()}
	f.Clock = cmp.Or[clock.Clock](f.Clock, clock.RealClock{})
	if f.Backoff == nil {
		f.Backoff = loop.NewBackoff()
	}
	f.gap.Store(&gap{f.Clock.Now(), ErrNotListed})
	return f
}

// Again lists all objects again.
func (f *Follower) Again() { f.again.Set() }

// Asked reports whether Again was called since the list under way began.
func (f *Follower) Asked() bool { return len(f.again) > 0 }

// Wake ends the wait after a failure, or for a kind that is not served.
func (f *Follower) Wake() { f.wake.Set() }

// Following reports whether all objects are known and their changes are being watched.
func (f *Follower) Following() bool { return f.gap.Load() == nil }

// Err returns the failure because of which not all is known, or nil.
func (f *Follower) Err() error {
	if open := f.gap.Load(); open != nil {
		return open.err
	}
	return nil
}

// IncompleteSince returns since when not all is known, or zero while it is. A list on schedule
// counts only if it takes long.
func (f *Follower) IncompleteSince() time.Time {
	open := f.gap.Load()
	if open == nil || open.err == nil && f.Clock.Since(open.since) < patience {
		return time.Time{}
	}
	return open.since
}

// Run follows the kind until ctx is done. It gives up on nothing: whatever fails is tried again
// (S3).
func (f *Follower) Run(ctx context.Context) {
	f.gap.Store(&gap{f.Clock.Now(), ErrNotListed})
	refusals := loop.NewBackoffOf(retryFirst, absentFor)
	for ctx.Err() == nil {
		version, events, err := f.list(ctx)
		if err == nil {
			began := f.Clock.Now()
			err = f.follow(ctx, version, events)
			f.gap.CompareAndSwap(nil, &gap{since: f.Clock.Now()})
			if f.Clock.Since(began) >= usefulAfter { // A watch that ends sooner shows that the list cannot be followed.
				f.Backoff.Reset()
				refusals.Reset()
			}
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil || errors.Is(err, errListAgain):
			continue
		case errors.Is(err, errAbsent):
			f.failed(err)
			wait = absentFor
		case errors.Is(err, errEnded):
			wait = f.Backoff.Next()
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // A permission, or an API group, may be missing for long.
			f.failed(err)
			wait = refusals.Next()
		default:
			f.failed(err)
			wait = f.Backoff.Next()
		}
		_ = f.pause(ctx, wait)
	}
}

// Absent reports whether the error of a list or watch means that there are no objects, because the
// kind is not served.
func (f *Follower) Absent(ctx context.Context, err error) bool {
	if f.Unserved == nil || !apierrors.IsNotFound(err) {
		return false
	}
	unserved, err := f.Unserved(ctx)
	return err == nil && unserved
}

// failed notes why not all is known.
func (f *Follower) failed(err error) {
	now, logged := &gap{f.Clock.Now(), err}, false
	if before := f.gap.Load(); before != nil {
		now.since, logged = before.since, before.err != nil && before.err.Error() == err.Error()
	}
	if f.gap.Store(now); !logged {
		f.Log.Info("list and watch failed, trying again", "reason", err.Error())
	}
	f.changed()
}

// complete notes that all objects are known and their changes are being watched.
func (f *Follower) complete() {
	if before := f.gap.Swap(nil); before != nil && before.err != nil {
		f.changed()
	}
}

func (f *Follower) changed() {
	if f.Changed != nil {
		f.Changed()
	}
}

// follow handles events from a resourceVersion on, and resumes a watch where it ended. It returns
// errListAgain, errEnded, or why the watch cannot be resumed.
func (f *Follower) follow(ctx context.Context, version string, events watch.Interface) (err error) {
	delay := loop.NewBackoff()
	for {
		next := version
		if events == nil {
			events, err = f.Watch(ctx, metav1.ListOptions{
				FieldSelector: f.FieldSelector, LabelSelector: f.LabelSelector, ResourceVersion: version, AllowWatchBookmarks: true,
			})
		}
		if err == nil {
			f.complete()
			next, _, err = f.drain(ctx, version, events.ResultChan(), nil)
			events.Stop()
			if err == nil && f.Relist == 0 {
				err = errEnded
			}
			if err != nil {
				return err
			}
		} else if err = fmt.Errorf("watching: %w", err); ctx.Err() != nil || f.Relist == 0 || refused(err) {
			return err
		} else {
			f.failed(err)
		}
		if events = nil; next != version {
			version = next
			delay.Reset()
		} else if err = f.pause(ctx, delay.Next()); err != nil { // No watch is opened again in a tight loop.
			return err
		}
	}
}

// refused reports whether a watch cannot be resumed from its resourceVersion: it is too old, or
// unknown because the kind was removed and created again. All other errors are temporary, including
// a missing permission: an API server that has just started may not have read the roles yet.
func refused(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsInvalid(err)
}

// drain handles the events of one watch until it ends, until a list ends with one, or until over. It
// returns the last resourceVersion that it saw.
func (f *Follower) drain(
	ctx context.Context, version string, events <-chan watch.Event, over <-chan time.Time,
) (last string, listed bool, err error) {
	wake := f.wake
	if events != nil { // It ends waits alone.
		wake = nil
	}
	for {
		select {
		case <-ctx.Done():
			return version, false, ctx.Err()
		case <-f.due:
			return version, false, errListAgain
		case <-f.asked:
			if f.Gather == nil {
				return version, false, errListAgain
			}
			f.asked, f.due = nil, f.Clock.After(f.Gather())
		case <-wake:
			return version, false, nil
		case <-over:
			return version, false, nil
		case event, ok := <-events:
			if !ok {
				return version, false, nil
			}
			if version, listed, err = f.event(ctx, event); err != nil || listed {
				return version, listed, err
			}
		}
	}
}

// pause waits without a watch. It returns errListAgain if it is time to list again before that.
func (f *Follower) pause(ctx context.Context, wait time.Duration) error {
	_, _, err := f.drain(ctx, "", nil, f.Clock.After(wait))
	return err
}

// event handles one event. It returns the event's resourceVersion, and whether a list ends with it.
func (f *Follower) event(ctx context.Context, event watch.Event) (version string, listed bool, err error) {
	if event.Type == watch.Error {
		return "", false, apierrors.FromObject(event.Object)
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", false, fmt.Errorf("watch event %q: %w", event.Type, err)
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		err = f.Observe(ctx, event.Object)
	case watch.Deleted:
		f.Deleted(object)
	case watch.Bookmark:
		if f.Bookmark != nil {
			f.Bookmark(object.GetResourceVersion())
		}
		listed = object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	default:
		err = fmt.Errorf("watch event %q is not known", event.Type)
	}
	return object.GetResourceVersion(), listed, err
}
