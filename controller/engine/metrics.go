package engine

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the engine's. Counters and the histogram are written to as things happen, gauges are
// read off the engine when they are scraped. No label is a namespace, a name or a source.
type metrics struct {
	engine *Engine

	lateness  prometheus.Histogram
	deletions *prometheus.CounterVec

	tracked, overdue, oldest, stuck, blocked, skew, skewWidth, breaker, concurrency, inFlight *prometheus.Desc
}

// latenessBuckets are fine below a second, where the engine should be, and reach to what an outage
// makes of it.
var latenessBuckets = []float64{
	.001, .0025, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1,
	1.5, 2, 3, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400,
}

func newMetrics(e *Engine) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &metrics{
		engine: e,
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "curfew_deletion_lateness_seconds",
			Help:    "Time from an object's expiry to its DELETE being accepted, backfilled defaults aside.",
			Buckets: latenessBuckets,
		}),
		deletions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_deletions_total",
			Help: "Attempts to delete by trigger, kind and result (deleted, other, unconfirmed, dry_run, kept, conflict, throttled, refused, error).",
		}, []string{"trigger", "kind", "result"}),
		tracked:     desc("curfew_tracked_objects", "Objects that wait for their expiry or its being carried out.", "kind"),
		overdue:     desc("curfew_overdue_objects", "Objects that are due and not deleted yet, those that are blocked for a reason of their own aside."),
		oldest:      desc("curfew_oldest_overdue_seconds", "Time since the earliest expiry of those that are overdue, 0 if none is."),
		stuck:       desc("curfew_stuck_objects", "Objects that have been terminating for too long."),
		blocked:     desc("curfew_blocked_objects", "Objects that are due and cannot be deleted for a reason of their own (DeleteConflict: they change faster than requests are answered; DeleteRefused: admission, or the API server itself, refuses).", "reason"),
		skew:        desc("curfew_clock_skew_seconds", "Clock of this process minus that of the API server, as far as Date headers prove it."),
		skewWidth:   desc("curfew_clock_skew_uncertainty_seconds", "Width of the interval in which the skew lies."),
		breaker:     desc("curfew_breaker_open", "Scopes whose deletions are paused, by class (clock, apiserver, kind, object, namespace, policy, runtime).", "class"),
		concurrency: desc("curfew_delete_concurrency", "DELETEs that may be under way at a time."),
		inFlight:    desc("curfew_deletes_in_flight", "DELETEs under way."),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.lateness.Describe(ch)
	m.deletions.Describe(ch)
	for _, d := range []*prometheus.Desc{m.tracked, m.overdue, m.oldest, m.stuck, m.blocked, m.skew, m.skewWidth, m.breaker, m.concurrency, m.inFlight} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.lateness.Collect(ch)
	m.deletions.Collect(ch)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	e := m.engine
	count, oldest := e.overdueNow()
	gauge(m.overdue, float64(count))
	gauge(m.oldest, oldest.Seconds())
	r := e.read()

	e.mu.Lock()
	// Two versions of one kind share a name.
	byKind := map[string]int{}
	for _, k := range e.kinds {
		if k != nil {
			byKind[k.opts.Kind] += k.tracked
		}
	}
	open := e.breakers.openByClass()
	open[classClock] = 0
	if e.guard.held != "" {
		open[classClock] = 1
	}
	blocked := map[string]int{ReasonConflict: 0, ReasonDeleteRefused: 0}
	for _, of := range e.blocked {
		blocked[of.reason]++
	}
	stuck, limit, inFlight := e.stuck, e.conc.Limit(), e.inFlight+e.apart
	e.unlock()

	for kind, n := range byKind {
		gauge(m.tracked, float64(n), kind)
	}
	for class, n := range open {
		gauge(m.breaker, float64(n), class)
	}
	for reason, n := range blocked {
		gauge(m.blocked, float64(n), reason)
	}
	gauge(m.stuck, float64(stuck))
	gauge(m.concurrency, float64(limit))
	gauge(m.inFlight, float64(inFlight))
	if e.opts.Skew != nil {
		if est := e.opts.Skew.Estimate(r.wall); est.Known {
			gauge(m.skew, est.Proven().Seconds())
			gauge(m.skewWidth, (est.Hi - est.Lo).Seconds())
		}
	}
}
