package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"curfew.dev/curfew/controller/pace"
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
	if err := r.Register(e.metrics); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestMetrics(t *testing.T) {
	w, _, _ := ready(t, nil)
	w.dueSoon(3, "j", nil)
	w.dueSoon(2, "k", func(o *Object) { o.Backfill = true })
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
		`curfew_tracked_objects{kind="Job"}`:        1,
		`curfew_deletions_total{result="deleted"}`:  5,
		"curfew_deletion_lateness_seconds":          3, // backfilled ones do not count
		"curfew_overdue_objects":                    0,
		"curfew_oldest_overdue_seconds":             0,
		"curfew_stuck_objects":                      0,
		`curfew_breaker_open{class="clock"}`:        0,
		"curfew_delete_concurrency":                 pace.Start,
		"curfew_deletes_in_flight":                  0,
		"curfew_clock_skew_seconds":                 0,
		`curfew_deletions_total{trigger="ttl"}`:     5,
		`curfew_deletions_total{kind="Job"}`:        5,
		`curfew_deletions_total{result="conflict"}`: 0,
	} {
		if got := metricValue(t, w.engine, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	allowed := []string{"trigger", "kind", "result", "class", "reason"}
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
