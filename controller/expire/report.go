package expire

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/expire/index"
)

// summaries collects deletions by source until they are reported, so that a source gets one Event
// and not one for each deletion.
type summaries struct {
	of   map[summaryKey]*Summary
	last time.Duration
	// reported are the sources that OnSummary has had in this interval or at its beginning. fresh
	// means that there are others, and since is when they were first seen.
	reported map[summaryKey]bool
	fresh    bool
	since    time.Duration
	outcomes map[Ending]int
}

type summaryKey struct {
	kind            Kind
	source, trigger string
	// namespace is set if the expiry came from the object or its runtime: such a summary concerns
	// the namespace.
	namespace string
}

const (
	summaryExamples = 10
	// firstAfter is how long the first deletions of a source are collected before they are reported.
	firstAfter = 3 * time.Second
	// maxSummaries bounds how many sources are kept apart within one interval; the rest share an
	// entry without a source.
	maxSummaries = 10000
)

func (s *summaries) add(k *KindOptions, out *Outcome) {
	o, result, t := &out.Object, out.Result, out.At
	s.outcomes[result]++
	if result != Deleted && result != DryRun {
		return
	}
	key := summaryKey{kind: o.Kind, source: o.Source, trigger: out.Trigger}
	if class := index.SourceClass(o.Source); class == classObject || class == "runtime" {
		key.namespace = o.Namespace
	}
	sum := s.of[key]
	if sum == nil {
		if len(s.of) >= maxSummaries {
			key.source, key.namespace = "", ""
			sum = s.of[key]
		}
		if sum == nil {
			sum = &Summary{Source: key.source, Trigger: out.Trigger, Kind: *k, Namespace: o.Namespace, First: t}
			s.of[key] = sum
			s.fresh = s.fresh || !s.reported[key]
		}
	}
	if result == DryRun {
		sum.DryRun++
	} else {
		sum.Deleted++
	}
	if sum.Namespace != o.Namespace {
		sum.Namespace = ""
	}
	sum.Last = t
	if len(sum.Examples) < summaryExamples {
		sum.Examples = append(sum.Examples, nameOf(o))
	}
}

func (s *summaries) due(mono, every time.Duration) bool { return mono-s.last >= every }

// summarize reports the collected deletions. The lock is held.
func (e *Engine) summarize(r reading) {
	s := &e.summary
	s.last = r.mono
	outcomes, summaries := s.outcomes, s.of
	s.outcomes, s.of, s.reported, s.fresh, s.since = map[Ending]int{}, map[summaryKey]*Summary{}, map[summaryKey]bool{}, false, 0
	for key := range summaries {
		s.reported[key] = true
	}
	n, late, stuck, limit, held := e.trackedNow(), e.late, e.stuck, e.conc.Limit(), e.guard.held
	if len(outcomes) == 0 && late == 0 {
		return
	}
	e.note(func() {
		e.opts.Log.Info("deletions so far", "interval", summaryEvery, "deleted", outcomes[Deleted],
			"alreadyGone", outcomes[AlreadyGone]+outcomes[Unconfirmed], "dryRun", outcomes[DryRun],
			"conflicts", outcomes[Conflict], "refused", outcomes[Refused], "errors", outcomes[Failed],
			"throttled", outcomes[Throttled], "tracked", n, "retrying", late, "stuck", stuck, "concurrency", limit, "held", held)
		e.onSummary(summaries)
	})
}

// summarizeFirst reports the first deletions of sources that the last summary did not have, so that
// nobody waits a minute for the Event. The lock is held.
func (e *Engine) summarizeFirst(r reading) {
	s, first := &e.summary, map[summaryKey]*Summary{}
	switch {
	case !s.fresh:
		return
	case s.since == 0:
		s.since = r.mono
		return
	case r.mono-s.since < firstAfter:
		return
	}
	s.fresh, s.since = false, 0
	for key, sum := range s.of {
		if !s.reported[key] && len(s.reported) < maxSummaries {
			first[key], s.reported[key] = sum, true
			delete(s.of, key)
		}
	}
	e.note(func() { e.onSummary(first) })
}

func (e *Engine) onSummary(summaries map[summaryKey]*Summary) {
	if e.opts.OnSummary == nil || len(summaries) == 0 {
		return
	}
	list := make([]Summary, 0, len(summaries))
	for _, sum := range summaries {
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b Summary) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Kind.Kind, b.Kind.Kind), strings.Compare(a.Trigger, b.Trigger))
	})
	e.opts.OnSummary(list)
}

// record counts an outcome and queues its log line. The lock is held.
func (e *Engine) record(j *job, res *attemptResult, out Outcome) {
	m, o, group, kind := e.metrics, &out.Object, j.kind.Resource.Group, j.kind.Kind
	if res.conflicts > 0 {
		m.attempts.WithLabelValues(out.Trigger, group, kind, string(Conflict)).Add(float64(res.conflicts))
		e.summary.outcomes[Conflict] += res.conflicts
	}
	result := string(out.Result)
	if out.Result == Refused && res.Unpermitted() {
		result = "unpermitted"
	}
	m.attempts.WithLabelValues(out.Trigger, group, kind, result).Inc()
	switch {
	case out.Result == AlreadyGone && j.trigger.Deletes:
		m.byOthers.WithLabelValues(out.Trigger, group, kind).Inc()
	case out.Result != Deleted && out.Result != Unconfirmed:
	case o.Backfill:
		m.backfilled.WithLabelValues(out.Trigger, group, kind).Inc()
	default:
		m.lateness.WithLabelValues(out.Trigger, group, kind).Observe(out.Lateness.Seconds())
	}
	e.summary.add(j.kind, &out)
	attempt := j.attempt + 1
	e.note(func() {
		log := e.opts.Log
		// All values in one call: a logger of its own for each line costs as much as the line.
		with := func(more ...any) []any {
			o := &out.Object
			return append([]any{
				"kind", kind, "object", nameOf(o), "uid", o.UID, "expiry", o.Expiry, "source", o.Source, "trigger", out.Trigger,
			}, more...)
		}
		switch {
		case out.Result == Deleted:
			log.Info("deleted", with("lateness", out.Lateness)...)
		case out.Result == DryRun:
			if j.trigger.Deletes {
				log.Info("would delete (dry run)", with()...)
			} else {
				log.Info("would act (dry run)", with()...)
			}
		case out.Result == AlreadyGone, out.Result == Unconfirmed:
			log.Info("gone already", with("result", out.Result)...)
		case out.Result == Kept:
			log.V(2).Info("not due any more", with()...)
		case attempt == 1 || attempt%10 == 0:
			log.Info("not deleted yet, will be tried again", with("result", out.Result, "attempt", attempt, "err", out.Err)...)
		default:
			log.V(2).Info("not deleted yet, will be tried again", with("result", out.Result, "attempt", attempt, "err", out.Err)...)
		}
		if e.opts.observe != nil {
			e.opts.observe(out)
		}
	})
}

// Tracked is the number of objects that wait for their expiry or for their action.
func (e *Engine) Tracked() int {
	e.mu.Lock()
	defer e.unlock()
	return e.trackedNow()
}

// trackedNow is Tracked with the lock held.
func (e *Engine) trackedNow() (n int) {
	for _, k := range e.kinds {
		if k != nil {
			n += k.tracked
		}
	}
	return n
}

// overdueNow counts the overdue objects and returns the age of the oldest, and how many wait for
// which rate alone. Objects that wait for the rate of backfill have no age: their expiry may lie
// years back although they are not late.
// While a pause holds a trigger, all objects may be overdue, so overdueNow walks the index chunk by
// chunk. The engine's lock is not held.
func (e *Engine) overdueNow() (count int, oldest time.Duration, limited map[string]int) {
	r := e.read()
	e.mu.Lock()
	now, ok := e.checkClock(r) // It may be the first to notice a jump.
	if !ok {
		now = e.guard.best(r) // By a clock that is wrong nothing might be overdue.
	}
	unpermitted := e.breakers.openByClass()[classPermission] > 0
	some := e.late > len(e.blocked) || e.dueBy(now)
	limited = map[string]int{}
	for _, l := range e.lines {
		for _, w := range l.waiters {
			limited[e.limitOf(e.kinds[w.object.Kind].trigger, w.object.Backfill, w.object.DryRun, r)]++
		}
	}
	e.unlock()
	first := now
	for c, more := 0, some; more; c++ {
		e.mu.Lock()
		more = e.index.Each(c, func(slot uint32, en *index.Record) {
			late := en.Flags&index.FlagLate != 0
			// A blocked object may never be deleted. It is counted as blocked, and must not hide or
			// look like a backlog.
			if _, blocked := e.blocked[slot]; blocked || !late && (en.State != index.Armed || en.Expiry > now) {
				return
			}
			if unpermitted {
				if o := e.index.Entry(slot); e.breakers.shut(scopePermission(&o)) {
					return // It is kept, and not late.
				}
			}
			count++
			if en.State == index.Armed && en.Wake <= now {
				limited[e.limitOf(e.triggers[en.Trigger], en.Flags&index.FlagBackfill != 0, en.Flags&index.FlagDryRun != 0, r)]++
			}
			if late || en.Flags&index.FlagBackfill == 0 {
				first = min(first, en.Expiry)
			}
		})
		e.unlock()
	}
	return count, time.Duration(now - first), limited
}

// metrics are the engine's metrics. Events update the counters and the histogram; a scrape reads
// the gauges from the engine. No label is a namespace, a name or a source.
type metrics struct {
	engine *Engine

	lateness                                 *prometheus.HistogramVec
	attempts, backfilled, byOthers, enqueued *prometheus.CounterVec

	tracked, overdue, oldest, limited, stuck, blocked, skew, skewWidth, paused, concurrency, inFlight *prometheus.Desc
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
	factory := promauto.With(e.opts.Registerer)
	const unknown = " Absent in place of 0 while not all objects are known."
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &metrics{
		engine: e,
		lateness: factory.NewHistogramVec(prometheus.HistogramOpts{Name: "curfew_deletion_lateness_seconds",
			Help: "Time from an object's expiry until the API server accepted its DELETE. Without backfill.", Buckets: latenessBuckets}, byKind),
		attempts: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_deletion_attempts_total",
			Help: "Attempts to delete by trigger, kind and result " +
				"(deleted, already_gone, unconfirmed, dry_run, kept, conflict, throttled, refused, unpermitted, error)."}, append(slices.Clone(byKind), "result")),
		backfilled: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_backfill_deletions_total",
			Help: "Deletions of objects that a default reached although they are older than it. curfew_deletion_attempts_total counts them, too."}, byKind),
		enqueued: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_objects_enqueued_total",
			Help: "Objects with a known expiry that began to wait for it, and those of cleanup policies at each attempt."}, byKind),
		byOthers: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_deletions_by_others_total",
			Help: "Objects that were due and that another client deleted, such as the in-tree TTL controller."}, byKind),
		tracked: desc("curfew_tracked_objects", "Objects that wait for their expiry, or are due and not deleted yet."+unknown, "group", "kind"),
		overdue: desc("curfew_overdue_objects",
			"Objects that are due and not deleted yet, without those that curfew_blocked_objects counts, and "+
				"those that Curfew may not delete in their namespace."+unknown),
		oldest: desc("curfew_oldest_overdue_seconds", "Age of the oldest overdue object: time since its expiry, 0 if none is overdue. "+
			"Without objects that wait for the rate of backfill."+unknown),
		limited: desc("curfew_rate_limited_objects", "Objects that are due and wait for a rate alone "+
			"(deletions: --max-deletions-per-minute; backfill: the rate of objects that are older than their default).", "limit"),
		stuck: desc("curfew_stuck_objects", "Objects that have been terminating for too long."),
		blocked: desc("curfew_blocked_objects", "Objects that are due and cannot be deleted for a reason of their own "+
			"(DeleteConflict: they change faster than requests are answered; DeleteRefused: admission, or the API server itself, refuses; "+
			"StopRefused: the same at its deadline).",
			"reason"),
		skew:      desc("curfew_clock_skew_seconds", "Clock of this process minus that of the API server, as far as Date headers prove it."),
		skewWidth: desc("curfew_clock_skew_uncertainty_seconds", "Width of the interval in which the skew lies."),
		paused: desc("curfew_paused_scopes", "Scopes whose deletions are paused, by class "+
			"(clock, apiserver, kind, permission, object, namespace, policy, runtime; pause: DeletionPauses in effect; unread: they cannot be read; "+
			"both are absent before the first read).", "class"),
		concurrency: desc("curfew_delete_concurrency", "DELETEs that may be under way at a time."),
		inFlight:    desc("curfew_deletes_in_flight", "DELETEs under way."),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.tracked, m.overdue, m.oldest, m.limited, m.stuck, m.blocked, m.skew, m.skewWidth, m.paused, m.concurrency, m.inFlight,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
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
	count, oldest, limited := e.overdueNow()
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
	blocked := map[string]int{ReasonConflict: 0, ReasonDeleteRefused: 0, ReasonStopRefused: 0}
	for _, blockage := range e.blocked {
		blocked[blockage.reason]++
	}
	stuck, limit, inFlight := e.stuck, e.conc.Limit(), e.inFlight+e.apart
	e.unlock()

	for kind, n := range tracked {
		unless0(m.tracked, float64(n), kind.Group, kind.Kind)
	}
	for class, n := range open {
		gauge(m.paused, float64(n), class)
	}
	for _, limit := range []string{limitDeletions, limitBackfill} {
		gauge(m.limited, float64(limited[limit]), limit)
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
