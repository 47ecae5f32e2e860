package feed

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SyncedMetric reports, as metric curfew_feed_synced, of which kinds all objects are known. Feeds
// enter it when they begin to run and leave it when they end, so that neither a standby nor a kind
// that is gone counts. A kind that is watched namespace by namespace is known once each of its
// feeds is: no label is a namespace.
type SyncedMetric struct {
	mu    sync.Mutex
	feeds map[*Feed]struct{}
	desc  *prometheus.Desc
}

// NewSyncedMetric registers the metric.
func NewSyncedMetric(registerer prometheus.Registerer) (*SyncedMetric, error) {
	c := &SyncedMetric{feeds: map[*Feed]struct{}{}, desc: prometheus.NewDesc("curfew_feed_synced",
		"1 once all objects of a kind are known and its changes are being watched, else 0; by the trigger that they are watched for.",
		[]string{"group", "kind", "purpose"}, nil)}
	if err := registerer.Register(c); err != nil {
		return nil, fmt.Errorf("registering metrics of the feeds: %w", err)
	}
	return c, nil
}

func (c *SyncedMetric) enter(f *Feed) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feeds[f] = struct{}{}
}

func (c *SyncedMetric) leave(f *Feed) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.feeds, f)
}

// Describe implements prometheus.Collector.
func (c *SyncedMetric) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *SyncedMetric) Collect(ch chan<- prometheus.Metric) {
	type series struct {
		kind    schema.GroupKind
		purpose string
	}
	c.mu.Lock()
	synced := map[series]bool{}
	for f := range c.feeds {
		for _, one := range f.triggers {
			key := series{f.Kind(), string(one.Name)}
			so, known := synced[key]
			synced[key] = (so || !known) && f.following.Load()
		}
	}
	c.mu.Unlock()
	for key, all := range synced {
		value := 0.0
		if all {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, key.kind.Group, key.kind.Kind, key.purpose)
	}
}
