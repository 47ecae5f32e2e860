package feed

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

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
func NewSyncedMetric(registerer prometheus.Registerer, clock clock.PassiveClock, changed func()) *SyncedMetric {
	labels := []string{"group", "kind", "purpose"}
	c := &SyncedMetric{
		clock: clock, changed: changed, feeds: map[*Feed]struct{}{},
		synced: prometheus.NewDesc("curfew_feed_synced",
			"1 once all objects of a kind are known and its changes are being watched, else 0; by the trigger that they are watched for.",
			labels, nil),
		age: prometheus.NewDesc("curfew_feed_incomplete_seconds",
			"For how long not all objects of a kind have been known, 0 while they are; by the trigger that they are watched for.", labels, nil),
	}
	registerer.MustRegister(c)
	return c
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
	for series, since := range c.since() {
		if since.IsZero() {
			continue
		}
		if other, ok := out[series.kind]; !ok || since.Before(other) {
			out[series.kind] = since
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
		since := f.follower.IncompleteSince()
		for _, trigger := range f.triggers {
			key := series{f.Kind(), string(trigger.Name)}
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
	for series, since := range c.since() {
		synced, age := 1.0, 0.0
		if !since.IsZero() {
			synced, age = 0, max(0, c.clock.Since(since).Seconds())
		}
		ch <- prometheus.MustNewConstMetric(c.synced, prometheus.GaugeValue, synced, series.kind.Group, series.kind.Kind, series.purpose)
		ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, age, series.kind.Group, series.kind.Kind, series.purpose)
	}
}
