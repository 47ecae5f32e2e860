package feed

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
)

// Options are common to all feeds.
type Options struct {
	Engine *expire.Engine
	// Cached decides when an object may be due; it may lag. Live decides right before an object is
	// deleted or stopped.
	Cached, Live platform.Source
	// Failed gets the errors of policies on an object (such as Job ci/build), which is kept because
	// of them. It may be nil.
	Failed func(object string, errs []error)
	// Owners reads the owner of an object before the object is deleted by a value that may come
	// from the owner's template. With nil no owner is read.
	Owners  OwnerReader
	Reports *Reports
	Clock   clock.Clock
	// ServerTime is the API server's time, by which objects are stamped. An error means that it is
	// not known. Nil means Clock.
	ServerTime func(context.Context) (time.Time, error)
	Log        logr.Logger
	// Protect lists namespaces in which nothing is ever deleted.
	Protect []string
	// AnnotationsOnly is --native-ttl=off.
	AnnotationsOnly bool
	// LeaveNative is --leave-native-ttl.
	LeaveNative bool
	// Propagation is the policy of a DELETE for kinds whose profile sets none. Empty means
	// Background.
	Propagation metav1.DeletionPropagation
	// RelistEvery is how often the feed lists all objects again, to find changes that its watch
	// missed (S3).
	RelistEvery time.Duration
	// Forbidden is called when the API server refuses to list or watch, which it may have allowed
	// before. It may be nil.
	Forbidden func()
	// Listed is called with the number of objects each time that a kind has been listed completely.
	// It may be nil and must not block.
	Listed func(objects int)
	// Synced reports which feeds know all of their objects. It may be nil.
	Synced *SyncedMetric
}

// DefaultRelistEvery is how often a feed lists all objects again.
const DefaultRelistEvery = 30 * time.Minute

// Feed streams one kind into the engine. It keeps no object.
type Feed struct {
	kind     Kind
	triggers []*trigger
	options  Options
	log      logr.Logger
	rejudge  *loop.RetryQueue
	// unlabelled are the Jobs whose Pods carry no label of the Job. The feed finds them by owner
	// when it judges them again.
	unlabelled jobsOf
	finishes   *recorder
	follower   *watch.Follower
	// relist and began belong to the list under way; relist is nil without one.
	relist listing
	began  time.Time
	synced atomic.Bool
	// seen is true once there was any object at all. Most kinds have no object with a label.
	seen atomic.Bool
	// unread is true if an object was kept because its runtime could not be read.
	unread atomic.Bool
}

// trigger is a [Trigger] of a feed's kind, registered with the engine.
type trigger struct {
	*Feed
	*Trigger
	handle expire.Kind
}

// New registers the kind with the engine and makes its feed.
func New(kind Kind, options Options) (*Feed, error) {
	options.RelistEvery = cmp.Or(options.RelistEvery, DefaultRelistEvery)
	options.Clock = cmp.Or[clock.Clock](options.Clock, clock.RealClock{})
	if options.ServerTime == nil {
		options.ServerTime = func(context.Context) (time.Time, error) { return options.Clock.Now(), nil }
	}
	if kind.Observer == nil {
		kind.Observer = noObserver{}
	}
	feed := &Feed{
		kind: kind, options: options,
		log: options.Log.WithName("feed").WithValues("kind", kind.Profile.Kind.Kind),
		rejudge: loop.NewFairQueue(options.Clock, maxRejudge, func(key string) string {
			namespace, _, _ := strings.Cut(key, "/")
			return namespace
		}),
	}
	if kind.Label != "" {
		feed.log = options.Log.WithName("labels").WithValues("resource", feed.resource().String())
	}
	feed.finishes = &recorder{feed: feed, pending: loop.NewRetryQueue(options.Clock, maxRetry), of: map[string]finish{}}
	if len(kind.Triggers) == 0 {
		return nil, fmt.Errorf("%s is watched for no trigger: this is a bug", kind.Profile.Name)
	}
	for _, trigger := range kind.Triggers {
		if judging.InfoOf(trigger.Name).Unfinished {
			feed.kind.FieldSelector = "" // It is [finishedPods], or none.
		}
		if err := feed.register(trigger); err != nil {
			return nil, err
		}
	}
	feed.follower = watch.New(watch.Options{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return feed.kind.List(ctx, kind.Namespace, options)
		},
		Watch: kind.Watch, FieldSelector: feed.kind.FieldSelector, LabelSelector: kind.LabelSelector,
		Stream: true, Relist: options.RelistEvery, Begin: feed.begin, End: feed.end, Observe: feed.observe, Deleted: feed.deleted,
		Changed: feed.changed, Clock: options.Clock, Log: feed.log,
	})
	return feed, nil
}

// register makes the kind known to the engine for one trigger.
func (f *Feed) register(what *Trigger) error {
	added := &trigger{Feed: f, Trigger: what}
	handle, err := f.options.Engine.RegisterKind(expire.KindOptions{
		Type: deletion.Type{
			Resource:    f.resource(),
			Kind:        f.kind.Profile.Kind.Kind,
			Namespaced:  !f.kind.Profile.ClusterScoped,
			Protobuf:    f.kind.Protobuf,
			Aggregated:  f.kind.Aggregated,
			Propagation: cmp.Or(f.kind.Propagation, f.options.Propagation),
		},
		Trigger: string(what.Name),
		Scope:   f.kind.scope(),
		Judge:   added.judgeLive,
	})
	if err != nil {
		return err
	}
	added.handle = handle
	f.triggers = append(f.triggers, added)
	return nil
}

// Synced reports whether the kind has been listed whole since the start.
func (f *Feed) Synced() bool { return f.synced.Load() }

func (f *Feed) resource() schema.GroupVersionResource {
	return f.kind.Profile.Kind.GroupVersion().WithResource(f.kind.Profile.Resource)
}

// Kind is the kind that the feed streams.
func (f *Feed) Kind() schema.GroupKind { return f.kind.Profile.Kind.GroupKind() }

// Handles are the engine's handles of the kind, one for each trigger.
func (f *Feed) Handles() []expire.Kind {
	var out []expire.Kind
	for _, trigger := range f.triggers {
		out = append(out, trigger.handle)
	}
	return out
}

// Run streams until ctx is done. It gives up on nothing: whatever fails is tried again (S3).
func (f *Feed) Run(ctx context.Context) error {
	defer f.options.Synced.enter(f)()
	// All goroutines end before Run does, so that they do not contradict a successor that judges by
	// another profile.
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { f.rejudgeLoop(ctx) })
	if f.kind.Label == "" {
		beside.Go(func() { f.finishes.run(ctx) })
	}
	if f.kind.Runtime != nil {
		beside.Go(func() { f.lookAgain(ctx) })
	}
	f.follower.Run(ctx)
	return nil
}

// changed reports whether all objects are known, and a missing permission.
func (f *Feed) changed() {
	f.options.Synced.change()
	if f.options.Forbidden != nil && apierrors.IsForbidden(f.follower.Err()) {
		f.options.Forbidden()
	}
}
