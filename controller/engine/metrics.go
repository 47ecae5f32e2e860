package engine

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metrics are the engine's metrics. Events update the counters and the histogram; a scrape reads
// the gauges from the engine. No label is a namespace, a name or a source.
type metrics struct {
	engine *Engine

	lateness                       *prometheus.HistogramVec
	attempts, backfilled, byOthers *prometheus.CounterVec

	tracked, overdue, oldest, stuck, blocked, skew, skewWidth, paused, concurrency, inFlight *prometheus.Desc
}

// latenessBuckets are fine below a second, the normal lateness, and reach up to the lateness after
// a long outage.
var latenessBuckets = []float64{
	.001, .0025, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, .75, 1,
	1.5, 2, 3, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400,
}

// byKind are the labels of metrics for each trigger and kind.
var byKind = []string{"trigger", "group", "kind"}

func newMetrics(e *Engine) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &metrics{
		engine: e,
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "curfew_deletion_lateness_seconds",
			Help:    "Time from an object's expiry until the API server accepted its DELETE. Without backfill, whose expiries may lie years back.",
			Buckets: latenessBuckets,
		}, byKind),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_deletion_attempts_total",
			Help: "Attempts to delete by trigger, kind and result (deleted, already_gone, unconfirmed, dry_run, kept, conflict, throttled, refused, error).",
		}, append(slices.Clone(byKind), "result")),
		backfilled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_backfill_deletions_total",
			Help: "Deletions of objects that a default reached although they are older than it. curfew_deletion_attempts_total counts them, too.",
		}, byKind),
		byOthers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_deletions_by_others_total",
			Help: "Objects that were due and that somebody else deleted, such as the in-tree TTL controller.",
		}, byKind),
		tracked:     desc("curfew_tracked_objects", "Objects that wait for their expiry, or are due and not deleted yet. Absent in place of 0 while not all objects are known.", "group", "kind"),
		overdue:     desc("curfew_overdue_objects", "Objects that are due and not deleted yet, without those that curfew_blocked_objects counts. Absent in place of 0 while not all objects are known."),
		oldest:      desc("curfew_oldest_overdue_seconds", "Age of the oldest overdue object: time since its expiry, 0 if none is overdue. Without objects that wait for the rate of backfill. Absent in place of 0 while not all objects are known."),
		stuck:       desc("curfew_stuck_objects", "Objects that have been terminating for too long."),
		blocked:     desc("curfew_blocked_objects", "Objects that are due and cannot be deleted for a reason of their own (DeleteConflict: they change faster than requests are answered; DeleteRefused: admission, or the API server itself, refuses).", "reason"),
		skew:        desc("curfew_clock_skew_seconds", "Clock of this process minus that of the API server, as far as Date headers prove it."),
		skewWidth:   desc("curfew_clock_skew_uncertainty_seconds", "Width of the interval in which the skew lies."),
		paused:      desc("curfew_paused_scopes", "Scopes whose deletions are paused, by class (clock, apiserver, kind, object, namespace, policy, runtime; pause: DeletionPauses in effect; unread: they cannot be read; both are absent before the first read).", "class"),
		concurrency: desc("curfew_delete_concurrency", "DELETEs that may be under way at a time."),
		inFlight:    desc("curfew_deletes_in_flight", "DELETEs under way."),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.lateness.Describe(ch)
	m.attempts.Describe(ch)
	m.backfilled.Describe(ch)
	m.byOthers.Describe(ch)
	for _, d := range []*prometheus.Desc{m.tracked, m.overdue, m.oldest, m.stuck, m.blocked, m.skew, m.skewWidth, m.paused, m.concurrency, m.inFlight} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.lateness.Collect(ch)
	m.attempts.Collect(ch)
	m.backfilled.Collect(ch)
	m.byOthers.Collect(ch)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	e := m.engine
	known := e.opts.Known == nil || e.opts.Known()
	unless0 := func(d *prometheus.Desc, v float64, labels ...string) {
		if known || v > 0 {
			gauge(d, v, labels...)
		}
	}
	count, oldest := e.overdueNow()
	unless0(m.overdue, float64(count))
	unless0(m.oldest, oldest.Seconds())
	r := e.read()

	e.mu.Lock()
	// Two versions of one kind share a name.
	tracked := map[schema.GroupKind]int{}
	for _, k := range e.kinds[1:] {
		tracked[k.opts.GroupKind()] += k.tracked
	}
	open := e.breakers.openByClass()
	open[classClock] = 0
	if e.guard.held != "" {
		open[classClock] = 1
	}
	if view, read := e.opts.Pauses.Last(); read {
		open[classPause], open[classUnread] = view.Count(), min(1, len(view.Unread))
	}
	blocked := map[string]int{ReasonConflict: 0, ReasonDeleteRefused: 0}
	for _, of := range e.blocked {
		blocked[of.reason]++
	}
	stuck, limit, inFlight := e.stuck, e.conc.Limit(), e.requests.inFlight+e.requests.apart
	e.unlock()

	for kind, n := range tracked {
		unless0(m.tracked, float64(n), kind.Group, kind.Kind)
	}
	for class, n := range open {
		gauge(m.paused, float64(n), class)
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
