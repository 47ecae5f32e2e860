package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/collectors"
	"curfew.dev/curfew/controller/loop"
)

// errListAgain ends a watch when the next list is due.
var errListAgain = errors.New("time to list again")

// follow handles events from a resourceVersion on, and resumes a watch where it ended. It returns
// errListAgain when the relist is due, and the API server's error if the watch cannot be resumed.
func (f *Feed) follow(ctx context.Context, at string, events watch.Interface, relist <-chan time.Time) error {
	delay := loop.NewBackoff()
	for {
		if events == nil {
			select {
			case <-relist:
				return errListAgain
			default:
			}
			var err error
			events, err = f.kind.Watch(ctx, metav1.ListOptions{
				FieldSelector: f.kind.FieldSelector, LabelSelector: f.kind.LabelSelector, ResourceVersion: at, AllowWatchBookmarks: true,
			})
			if err != nil {
				events = nil
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if refused(err) {
					return fmt.Errorf("watching %s: %w", f.kind.Profile.Resource, err)
				}
				log := f.log
				if !f.lost() {
					log = log.V(1) // It was logged already.
				}
				log.Info("watch failed, trying again", "reason", err.Error())
				f.tellForbidden(err)
				loop.Pause(ctx, f.options.Clock, delay.Next())
				continue
			}
		}
		f.complete()
		next, err := f.drain(ctx, at, events, relist)
		events.Stop()
		events = nil
		if err != nil {
			return err
		}
		if next == at {
			// A watch that ends without an event must not be opened again in a tight loop.
			loop.Pause(ctx, f.options.Clock, delay.Next())
		} else {
			delay.Reset()
		}
		at = next
	}
}

// refused reports whether a watch cannot be resumed from its resourceVersion: it is too old, or
// unknown because the kind was removed and created again. All other errors are temporary, including
// a missing permission: an API server that has just started may not have read the roles yet.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// drain handles the events of one watch until it ends. It returns the last resourceVersion it saw.
func (f *Feed) drain(ctx context.Context, at string, events watch.Interface, relist <-chan time.Time) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-relist:
			return at, errListAgain
		case event, ok := <-events.ResultChan():
			if !ok {
				return at, nil
			}
			if event.Type == watch.Bookmark {
				seen, _, err := bookmark(event.Object)
				if err != nil {
					return at, err
				}
				at = seen
				continue
			}
			if err := f.event(ctx, event, nil); err != nil {
				return at, err
			}
			if accessor, err := meta.Accessor(event.Object); err == nil {
				at = accessor.GetResourceVersion()
			}
		}
	}
}

func bookmark(object runtime.Object) (at string, initialEventsEnd bool, err error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", false, fmt.Errorf("reading a bookmark: %w", err)
	}
	return accessor.GetResourceVersion(), accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true", nil
}

// SyncedMetric reports whether all objects of each kind are known, as metrics curfew_feed_synced
// and curfew_feed_incomplete_seconds. Feeds enter it when they begin to run and leave it when they
// end, so that neither a standby nor a kind that is gone counts. A kind that is watched namespace
// by namespace is synced once all of its feeds are: no label is a namespace.
type SyncedMetric struct {
	clock clock.PassiveClock
	// changed is called when a feed has become complete or incomplete.
	changed func()

	mu          sync.Mutex
	feeds       map[*Feed]struct{}
	synced, age *prometheus.Desc
}

// series are the labels of the metrics.
type series struct {
	kind    schema.GroupKind
	purpose string
}

// NewSyncedMetric registers the metrics. changed must not block and may be nil.
func NewSyncedMetric(registerer prometheus.Registerer, clock clock.PassiveClock, changed func()) (*SyncedMetric, error) {
	labels := []string{"group", "kind", "purpose"}
	c := &SyncedMetric{
		clock: clock, changed: changed, feeds: map[*Feed]struct{}{},
		synced: prometheus.NewDesc("curfew_feed_synced",
			"1 once all objects of a kind are known and its changes are being watched, else 0; by the trigger that they are watched for.",
			labels, nil),
		age: prometheus.NewDesc("curfew_feed_incomplete_seconds",
			"For how long not all objects of a kind have been known, 0 while they are; by the trigger that they are watched for.", labels, nil),
	}
	return c, collectors.Register(registerer, "metrics of the feeds", c)
}

// enter counts a feed that runs, until leave is called.
func (c *SyncedMetric) enter(f *Feed) (leave func()) {
	if c == nil {
		return func() {}
	}
	set := func(running bool) {
		c.mu.Lock()
		if running {
			c.feeds[f] = struct{}{}
		} else {
			delete(c.feeds, f)
		}
		c.mu.Unlock()
		c.change()
	}
	set(true)
	return func() { set(false) }
}

func (c *SyncedMetric) change() {
	if c != nil && c.changed != nil {
		c.changed()
	}
}

// Incomplete returns the kinds whose objects are not all known, with the time since when.
func (c *SyncedMetric) Incomplete() map[schema.GroupKind]time.Time {
	out := map[schema.GroupKind]time.Time{}
	for of, since := range c.since() {
		if since.IsZero() {
			continue
		}
		if other, ok := out[of.kind]; !ok || since.Before(other) {
			out[of.kind] = since
		}
	}
	return out
}

// since returns since when the objects are not all known, or zero if they are.
func (c *SyncedMetric) since() map[series]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[series]time.Time{}
	for f := range c.feeds {
		since := f.incompleteSince()
		for _, one := range f.triggers {
			key := series{f.Kind(), string(one.Name)}
			other, ok := out[key]
			if !ok || other.IsZero() || !since.IsZero() && since.Before(other) {
				out[key] = since
			}
		}
	}
	return out
}

// Describe implements prometheus.Collector.
func (c *SyncedMetric) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.synced
	ch <- c.age
}

// Collect implements prometheus.Collector.
func (c *SyncedMetric) Collect(ch chan<- prometheus.Metric) {
	for of, since := range c.since() {
		synced, age := 1.0, 0.0
		if !since.IsZero() {
			synced, age = 0, max(0, c.clock.Since(since).Seconds())
		}
		ch <- prometheus.MustNewConstMetric(c.synced, prometheus.GaugeValue, synced, of.kind.Group, of.kind.Kind, of.purpose)
		ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, age, of.kind.Group, of.kind.Kind, of.purpose)
	}
}
