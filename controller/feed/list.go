package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
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
)

// listAll passes every object to the engine and drops objects that are gone. It streams if the API
// server can (KEP-3157), so that neither side holds the list, and reads pages otherwise. It returns
// the resourceVersion to watch from, and the watch itself if a stream has opened one.
func (f *Feed) listAll(ctx context.Context) (string, watch.Interface, error) {
	if f.options.Clock.Now().Before(f.pagedUntil) {
		at, err := f.listPages(ctx)
		return at, nil, err
	}
	at, events, err := f.listStream(ctx)
	switch {
	case errors.Is(err, errStalled) || f.cut >= streamTries && ctx.Err() == nil:
		// A stream that breaks starts over with the first object; a list in pages only repeats a
		// page.
		f.log.Info("the stream of a list does not come to its end, reading pages", "reason", err.Error())
		f.cut, f.pagedUntil = 0, f.options.Clock.Now().Add(pagedFor)
	case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
		return at, events, err
	}
	at, err = f.listPages(ctx)
	return at, nil, err
}

func (f *Feed) beginList() listing {
	f.finishes.begin()
	f.kind.Observer.Begin()
	var relist listing
	for _, one := range f.triggers {
		relist = append(relist, f.options.Engine.BeginRelist(one.handle))
	}
	return relist
}

func (f *Feed) listStream(ctx context.Context) (string, watch.Interface, error) {
	began := f.options.Clock.Now()
	relist := f.beginList()
	events, err := f.kind.Watch(ctx, metav1.ListOptions{
		FieldSelector:        f.kind.FieldSelector,
		LabelSelector:        f.kind.LabelSelector,
		SendInitialEvents:    ptr.To(true),
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return "", nil, fmt.Errorf("watching %s: %w", f.kind.Profile.Resource, err)
	}
	at, err := f.initialEvents(ctx, events, relist, began)
	if err != nil {
		f.cut++
		events.Stop()
		return "", nil, err
	}
	f.cut = 0
	f.known(relist, at, began)
	return at, events, nil
}

func (f *Feed) listPages(ctx context.Context) (string, error) {
	began := f.options.Clock.Now()
	relist := f.beginList()
	at, err := f.pages(ctx, f.kind.Namespace, f.kind.LabelSelector, func(facts *policy.Facts, object runtime.Object) error {
		return f.tell(ctx, facts, object, relist)
	})
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", f.kind.Profile.Resource, err)
	}
	f.known(relist, at, began)
	return at, nil
}

// known notes that all objects of the kind have been listed, and drops those that the list has not
// shown.
func (f *Feed) known(relist listing, at string, began time.Time) {
	waiting := 0
	for _, one := range relist {
		one.End(at)
		waiting += one.Waiting
	}
	f.finishes.end()
	f.kind.Observer.End()
	log := f.log
	if f.synced.Swap(true) {
		log = log.V(1) // It is news only at the start.
	}
	seen := relist[0].Seen // Each trigger gets every object.
	log.Info("all objects are known", "objects", seen, "waiting", waiting, "took", f.options.Clock.Since(began))
	if f.options.Listed != nil {
		f.options.Listed(seen)
	}
}

// initialEvents handles the events of a stream that begins with the list, up to the bookmark that
// ends the list. The list is incomplete until that bookmark, so a stream without it must end (S3).
func (f *Feed) initialEvents(ctx context.Context, events watch.Interface, relist listing, began time.Time) (string, error) {
	over := f.options.Clock.NewTimer(stallAfter)
	defer over.Stop()
	progress := false
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case now := <-over.C():
			if !progress || now.Sub(began) >= maxStream {
				return "", fmt.Errorf("%w: %s", errStalled, f.kind.Profile.Resource)
			}
			progress = false
			over.Reset(stallAfter)
		case event, ok := <-events.ResultChan():
			progress = true
			if !ok && f.options.Clock.Since(began) >= stallAfter {
				return "", fmt.Errorf("%w: %s", errStalled, f.kind.Profile.Resource)
			}
			if !ok {
				return "", fmt.Errorf("streaming %s: the watch ended before all of it was there", f.kind.Profile.Resource)
			}
			if event.Type == watch.Bookmark {
				at, last, err := bookmark(event.Object)
				if err != nil {
					return "", err
				}
				if last {
					return at, nil
				}
				continue
			}
			if err := f.event(ctx, event, relist); err != nil {
				return "", err
			}
		}
	}
}

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
			if err == nil || tries == pageTries || action.Answered(err) || ctx.Err() != nil {
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

// RejudgeNamespace judges all objects of a namespace again, because its settings have changed.
func (f *Feed) RejudgeNamespace(name string) {
	if f.kind.Profile.ClusterScoped || f.kind.Namespace != "" && f.kind.Namespace != name {
		return
	}
	// Judging all of them takes a while, and one may be due now.
	f.options.Engine.RecheckIn(name, f.Handles()...)
	// A feed without objects judges new ones by the new settings anyway.
	if f.seen.Load() {
		f.rejudge.Add(name)
	}
}

// RejudgeAll judges all objects again, because a policy or a runtime of the whole cluster has
// changed.
func (f *Feed) RejudgeAll() {
	f.options.Engine.RecheckKinds(f.Handles()...)
	if f.seen.Load() {
		f.rejudge.Add(f.kind.Namespace)
	}
}

// RejudgePods judges the Pods of one Job again, because settings of the Job have changed. Each Pod
// is judged live before it is deleted anyway. labelled: the Pods carry the Job's label. Otherwise
// one list of the namespace finds the Pods of all such Jobs by their owners.
func (f *Feed) RejudgePods(namespace string, job types.UID, labelled bool) {
	if !f.seen.Load() {
		return
	}
	if labelled {
		f.rejudge.Add(namespace + "/" + string(job))
		return
	}
	f.unlabelled.add(namespace, job)
	if key := namespace + "/"; !f.rejudge.Delayed(key) {
		f.rejudge.AddAfter(key, gatherJobs)
	}
}

// gatherJobs is how long RejudgePods collects Jobs without labelled Pods before it lists a
// namespace: another controller may finish a hundred Jobs a second, and each list holds all
// finished Pods of the namespace.
const gatherJobs = time.Second

// jobsOf are UIDs of Jobs by namespace.
type jobsOf struct {
	mu sync.Mutex
	of map[string]map[types.UID]bool
}

func (j *jobsOf) add(namespace string, jobs ...types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.of == nil {
		j.of = map[string]map[types.UID]bool{}
	}
	if j.of[namespace] == nil {
		j.of[namespace] = map[types.UID]bool{}
	}
	for _, job := range jobs {
		j.of[namespace][job] = true
	}
}

// take returns the Jobs of a namespace and forgets them.
func (j *jobsOf) take(namespace string) map[types.UID]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer delete(j.of, namespace)
	return j.of[namespace]
}

// rejudgeAgain and maxRejudge bound how long a namespace that could not be listed waits by itself.
const (
	rejudgeAgain = 200 * time.Millisecond
	maxRejudge   = 10 * time.Second
)

// rejudgeLoop lists and judges again the namespaces and Pods that the queue names.
func (f *Feed) rejudgeLoop(ctx context.Context) {
	f.rejudge.Work(ctx, func(ctx context.Context, key string) time.Duration {
		name, job, ofJob := strings.Cut(key, "/")
		var err error
		switch {
		case !ofJob:
			err = f.judgeListed(ctx, name, f.kind.LabelSelector, func(*policy.Facts) bool { return true })
		case job != "":
			err = f.judgeListed(ctx, name, batchv1.ControllerUidLabel+"="+job, func(*policy.Facts) bool { return true })
		default:
			jobs := f.unlabelled.take(name)
			err = f.judgeListed(ctx, name, f.kind.LabelSelector, func(pod *policy.Facts) bool { return pod.Owner != nil && jobs[pod.Owner.UID] })
			if err != nil {
				f.unlabelled.add(name, slices.Collect(maps.Keys(jobs))...)
			}
		}
		if err == nil || ctx.Err() != nil {
			return 0
		}
		f.log.Info("judging a namespace again failed, trying again", "namespace", name, "reason", err.Error())
		return rejudgeAgain
	})
}

// judgeListed lists objects and judges some of them.
func (f *Feed) judgeListed(ctx context.Context, namespace, selector string, concerns func(*policy.Facts) bool) error {
	_, err := f.pages(ctx, namespace, selector, func(facts *policy.Facts, object runtime.Object) error {
		if !concerns(facts) {
			return nil
		}
		return f.tell(ctx, facts, object, nil)
	})
	return err
}
