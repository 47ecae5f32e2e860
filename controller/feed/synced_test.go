package feed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/wellknown"
)

// shown is what a scrape has of curfew_feed_synced.
func shown(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	return scraped(t, registry, "curfew_feed_synced")
}

// scraped is what a scrape has of a metric.
func scraped(t *testing.T, registry *prometheus.Registry, name string) []string {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	out := []string{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, pair := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%s", pair.GetName(), pair.GetValue()))
			}
			out = append(out, fmt.Sprintf("%s %v", strings.Join(labels, " "), metric.GetGauge().GetValue()))
		}
	}
	slices.Sort(out)
	return out
}

// A kind is known once every one of its feeds has listed all and watches on; a watch that cannot be
// opened makes it unknown again. Of feeds that do not run, nothing is said.
func TestSyncedMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		var changes atomic.Int32
		synced := NewSyncedMetric(registry, clock.RealClock{}, func() { changes.Add(1) })
		expect := func(when string, want ...string) {
			t.Helper()
			if got := shown(t, registry); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		incomplete := func(when string, want ...string) {
			t.Helper()
			if got := scraped(t, registry, "curfew_feed_incomplete_seconds"); !slices.Equal(got, want) {
				t.Errorf("%s: incomplete for %q, want %q", when, got, want)
			}
		}
		ttl, east, west := newWorld(), newWorld(), newWorld()
		west.refuse = errors.New("no route to host")
		engine, err := expire.New(expire.Options{Triggers: triggers(ttl), Clock: clock.RealClock{}})
		must(t, err)
		run := func(w *world, label, namespace string) (stop func()) {
			kind := w.kind()
			kind.Label, kind.Namespace = label, namespace
			if label != "" {
				kind.Triggers = []*Trigger{labelled(label)}
			}
			feed, err := New(kind, Options{Engine: engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Clock: clock.RealClock{}, Log: logr.Discard(), Synced: synced})
			must(t, err)
			return running(t, feed.Run, w.cut)
		}
		expect("before anything runs")
		run(ttl, "", "")
		stopEast := run(east, wellknown.LabelTTL, "east")
		stopWest := run(west, wellknown.LabelTTL, "west")
		at(time.Second)
		expect("one namespace cannot be read", "group=batch kind=Job purpose=label 0", "group=batch kind=Job purpose=ttl 1")
		incomplete("one namespace cannot be read", "group=batch kind=Job purpose=label 1", "group=batch kind=Job purpose=ttl 0")
		if since := synced.Incomplete()[ttl.kind().Profile.Kind.GroupKind()]; time.Since(since) != time.Second {
			t.Errorf("Jobs are not all known since %s", since)
		}
		west.setRefuse(nil)
		at(20 * time.Second)
		expect("all are known", "group=batch kind=Job purpose=label 1", "group=batch kind=Job purpose=ttl 1")
		incomplete("all are known", "group=batch kind=Job purpose=label 0", "group=batch kind=Job purpose=ttl 0")
		ttl.setRefuse(errors.New("no route to host"))
		ttl.cut()
		before := changes.Load()
		at(time.Second)
		if changes.Load() == before {
			t.Error("no notification, want one: the feed no longer knows all Jobs")
		}
		expect("the watch cannot be opened again", "group=batch kind=Job purpose=label 1", "group=batch kind=Job purpose=ttl 0")
		ttl.setRefuse(nil)
		at(20 * time.Second)
		expect("the watch is back", "group=batch kind=Job purpose=label 1", "group=batch kind=Job purpose=ttl 1")
		stopWest()
		stopEast()
		expect("labels are not watched any more", "group=batch kind=Job purpose=ttl 1")
	})
}
