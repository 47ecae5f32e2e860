package expire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"curfew.dev/curfew/controller/deletion"
)

// metricValue sums what a scrape shows of one metric; labels may follow in braces, one pair.
func metricValue(t *testing.T, e *Engine, name string) float64 {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	sum := 0.0
	for _, f := range gather(t, e) {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if labels == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
				return fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()) == labels
			}) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func gather(t *testing.T, e *Engine) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	m := e.metrics
	r.MustRegister(m, m.lateness, m.attempts, m.backfilled, m.byOthers, m.enqueued)
	families, err := r.Gather()
	must(t, err)
	return families
}

func TestMetrics(t *testing.T) {
	w, _, _ := ready(t, nil)
	w.dueSoon(3, "j", nil)
	w.dueSoon(2, "k", func(o *Entry) { o.Backfill = true })
	w.create("later", time.Hour, false)
	w.finish(w.things["later"])
	for range 2 {
		w.deliver()
	}
	if got := metricValue(t, w.engine, "curfew_overdue_objects"); got != 0 {
		t.Errorf("overdue before: %v", got)
	}
	w.advance(3 * time.Second)
	if got := metricValue(t, w.engine, "curfew_overdue_objects"); got != 5 {
		t.Errorf("overdue, not yet taken up: %v", got)
	}
	if got := metricValue(t, w.engine, "curfew_oldest_overdue_seconds"); got != 2 {
		t.Errorf("oldest overdue: %v", got)
	}
	w.pump()
	for name, want := range map[string]float64{
		`curfew_tracked_objects{kind="Job"}`:               1,
		`curfew_deletion_attempts_total{result="deleted"}`: 5,
		`curfew_deletion_lateness_seconds{trigger="ttl"}`:  3, // without backfill
		`curfew_backfill_deletions_total{group="batch"}`:   2,
		`curfew_objects_enqueued_total{trigger="ttl"}`:     6,
		"curfew_overdue_objects":                           0,
		"curfew_oldest_overdue_seconds":                    0,
		"curfew_delete_concurrency":                        deletion.Start,
		"curfew_deletes_in_flight":                         0,
		"curfew_clock_skew_seconds":                        0,
	} {
		if got := metricValue(t, w.engine, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	allowed := []string{"trigger", "group", "kind", "result", "class", "reason", "limit"}
	for _, f := range gather(t, w.engine) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(allowed, l.GetName()) {
					t.Errorf("%s has label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}

// lateness is the sum of what the histogram observed for a trigger.
func lateness(t *testing.T, e *Engine, trigger string) (sum time.Duration, count uint64) {
	t.Helper()
	for _, f := range gather(t, e) {
		if f.GetName() != "curfew_deletion_lateness_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "trigger" && l.GetValue() == trigger }) {
				sum += time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Second))
				count += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return sum, count
}

// TestLateness: the histogram shows how long after its expiry an object was deleted, whatever
// happened in between.
func TestLateness(t *testing.T) {
	for name, c := range map[string]struct {
		faults  []fault
		change  func(*Entry)
		trigger string
		label   time.Duration
		deleted time.Duration // after the expiry
		want    time.Duration
		count   uint64
	}{
		"on time":         {trigger: "ttl", count: 1},
		"late":            {trigger: "ttl", deleted: 90 * time.Second, want: 90 * time.Second, count: 1},
		"by label":        {trigger: "label", label: 3 * time.Second, deleted: 4 * time.Second, want: 2 * time.Second, count: 1},
		"after a failure": {trigger: "ttl", faults: []fault{{code: 500}}, deleted: 10 * time.Second, want: 10 * time.Second, count: 1},
		"without answer":  {trigger: "ttl", faults: []fault{{carriedOut: true}}, deleted: 10 * time.Second, want: 10 * time.Second, count: 1},
		"refused":         {trigger: "ttl", faults: []fault{{code: 403}, {code: 403}}, deleted: 10 * time.Second},
		"backfill":        {trigger: "ttl", change: func(o *Entry) { o.Backfill = true }, deleted: 10 * time.Second},
		"dry run":         {trigger: "ttl", change: func(o *Entry) { o.DryRun = true }, deleted: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.faults = c.faults
			if c.label == 0 {
				w.dueSoon(1, "j", c.change)
			} else {
				x := w.create("j", -1, false)
				x.label = epoch.Add(c.label)
				w.changed(x)
				w.engine.Upsert(w.labelled(x))
			}
			w.advance(time.Second)
			if len(c.faults) > 0 {
				w.pump()
			}
			w.after(c.deleted)
			if sum, count := lateness(t, w.engine, c.trigger); sum != c.want || count != c.count {
				t.Errorf("%d deletions, %s late in sum; want %d, %s", count, sum, c.count, c.want)
			}
		})
	}
}

// TestDeletionsByOthers: an object that another client deletes after its expiry is counted once. An
// object that Curfew may have deleted itself is not counted.
func TestDeletionsByOthers(t *testing.T) {
	deletes := func(w *world, x *thing) { x.deleting = w.server; w.changed(x) }
	for name, c := range map[string]struct {
		do   func(w *world, x *thing)
		want float64
	}{
		"terminating when it was due": {func(w *world, x *thing) { w.advance(time.Second); deletes(w, x); w.deliver() }, 1},
		"shown twice": {func(w *world, x *thing) {
			w.advance(time.Second)
			deletes(w, x)
			w.deliver()
			w.changed(x)
			w.deliver()
		}, 1},
		"before its expiry": {func(w *world, x *thing) { deletes(w, x); w.deliver(); w.advance(time.Second) }, 0},
		"404":               {func(w *world, x *thing) { w.erase(x); w.advance(time.Second) }, 1},
		"while a DELETE is under way": {func(w *world, _ *thing) {
			w.racing = func(x *thing) { deletes(w, x); w.deliver() }
			w.advance(time.Second)
		}, 1},
		"by Curfew": {func(w *world, x *thing) { x.finalizer = true; w.advance(time.Second); w.pump(); w.deliver() }, 0},
		"by Curfew, without answer": {func(w *world, x *thing) {
			x.finalizer, w.faults = true, []fault{{carriedOut: true}}
			w.after(time.Second)
			w.deliver()
		}, 0},
		"by Curfew's other trigger": {func(w *world, x *thing) {
			x.label = epoch.Add(time.Second)
			w.engine.Upsert(w.labelled(x))
			x.finalizer = true
			w.racing = func(x *thing) { // The label's watch is ahead of the answer.
				t := *x
				t.deleting = w.server
				w.observeLabel(t)
			}
			w.advance(time.Second)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.dueSoon(1, "j", nil)
			c.do(w, w.things["j0"])
			w.pump()
			if got := metricValue(t, w.engine, "curfew_deletions_by_others_total"); got != c.want {
				t.Errorf("%v counted, want %v", got, c.want)
			}
		})
	}
}

// TestBackfillIsNotOverdue: what waits for the rate of backfill does not look like a backlog of
// years. A deletion that failed does.
func TestBackfillIsNotOverdue(t *testing.T) {
	w, _, _ := ready(t, func(o *Options) { o.BackfillPerMinute = 1 })
	w.dueSoon(3, "old", func(o *Entry) { o.Backfill = true; o.Expiry = epoch.Add(-1000 * time.Hour) })
	w.after(time.Second)
	if count, age, _ := w.engine.overdueNow(); count != 2 || age != 0 {
		t.Errorf("%d objects are overdue for %s, want 2 for no time", count, age)
	}
	if held := metricValue(t, w.engine, `curfew_rate_limited_objects{limit="backfill"}`); held != 2 {
		t.Errorf("the rate of backfill holds %v objects, want 2", held)
	}
	w.faults = []fault{{code: 500}}
	w.after(2 * time.Minute)
	if _, age, _ := w.engine.overdueNow(); age < 1000*time.Hour {
		t.Errorf("overdue for %s after a failure, want over 1000h", age)
	}
}

// While not all objects are known, no gauge reports 0 overdue objects; overdue objects that are
// known are reported.
func TestOverdueIsUnknown(t *testing.T) {
	known := false
	w, _, _ := ready(t, func(o *Options) { o.Known = func() bool { return known } })
	shown := func() int {
		return len(slices.DeleteFunc(gather(t, w.engine), func(family *dto.MetricFamily) bool {
			return !slices.Contains([]string{gaugeOverdue, gaugeOldest, "curfew_tracked_objects"}, family.GetName())
		}))
	}
	if got := shown(); got != 0 {
		t.Errorf("%d gauges are there, want none: not all objects are known", got)
	}
	w.dueSoon(3, "j", nil)
	w.deliver()
	w.advance(3 * time.Second)
	if got := metricValue(t, w.engine, gaugeOverdue); got != 3 || shown() != 3 {
		t.Errorf("%v objects are overdue, want 3", got)
	}
	w.deliver()
	w.pump()
	if known = true; shown() != 3 || metricValue(t, w.engine, gaugeOverdue) != 0 {
		t.Error("all objects are known and none is overdue, which the gauges do not say")
	}
}
