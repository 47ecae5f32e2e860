package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// summaries collects deletions by source until they are reported, so that a source gets one Event
// and not one for each deletion.
type summaries struct {
	of       map[summaryKey]*Summary
	last     time.Duration
	outcomes map[Result]int
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
	// summaryMost bounds how many sources are kept apart within one interval; the rest share an
	// entry without a source.
	summaryMost = 10000
)

func (s *summaries) add(k *KindOptions, out *Outcome) {
	o, result, at := &out.Object, out.Result, out.At
	if s.outcomes == nil {
		s.outcomes = map[Result]int{}
	}
	s.outcomes[result]++
	if result != Deleted && result != DryRun {
		return
	}
	key := summaryKey{kind: o.Kind, source: o.Source, trigger: out.Trigger}
	if class := sourceClass(o.Source); class == classObject || class == "runtime" {
		key.namespace = o.Namespace
	}
	sum := s.of[key]
	if sum == nil {
		if len(s.of) >= summaryMost {
			key.source, key.namespace = "", ""
			sum = s.of[key]
		}
		if sum == nil {
			sum = &Summary{Source: key.source, Trigger: out.Trigger, Kind: *k, Namespace: o.Namespace, First: at}
			s.of[key] = sum
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
	sum.Last = at
	if len(sum.Examples) < summaryExamples {
		sum.Examples = append(sum.Examples, nameOf(o))
	}
}

func (s *summaries) due(mono, every time.Duration) bool { return mono-s.last >= every }

// summarize reports the collected deletions. The lock is held.
func (e *Engine) summarize(r reading) {
	s := &e.summary
	s.last = r.mono
	outcomes, of := s.outcomes, s.of
	s.outcomes, s.of = nil, map[summaryKey]*Summary{}
	n, late, stuck, limit, held := e.trackedNow(), e.late, e.stuck, e.conc.Limit(), e.guard.held
	if len(outcomes) == 0 && late == 0 {
		return
	}
	e.note(func() {
		e.opts.Log.Info("deletions so far", "interval", e.opts.SummaryEvery, "deleted", outcomes[Deleted], "alreadyGone", outcomes[AlreadyGone]+outcomes[Unconfirmed],
			"dryRun", outcomes[DryRun], "conflicts", outcomes[Conflict], "refused", outcomes[Refused], "errors", outcomes[Failed],
			"throttled", outcomes[Throttled], "tracked", n, "retrying", late, "stuck", stuck, "concurrency", limit, "held", held)
		if e.opts.OnSummary == nil || len(of) == 0 {
			return
		}
		list := make([]Summary, 0, len(of))
		for _, sum := range of {
			list = append(list, *sum)
		}
		slices.SortFunc(list, func(a, b Summary) int {
			return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Kind.Kind, b.Kind.Kind), strings.Compare(a.Trigger, b.Trigger))
		})
		e.opts.OnSummary(list)
	})
}

// record counts an outcome and queues its log line. The lock is held.
func (e *Engine) record(j *job, res *attemptResult, out Outcome) {
	m, o, group, kind := e.metrics, &out.Object, j.kind.Resource.Group, j.kind.Kind
	if res.conflicts > 0 {
		m.attempts.WithLabelValues(out.Trigger, group, kind, string(Conflict)).Add(float64(res.conflicts))
		if e.summary.outcomes == nil {
			e.summary.outcomes = map[Result]int{}
		}
		e.summary.outcomes[Conflict] += res.conflicts
	}
	m.attempts.WithLabelValues(out.Trigger, group, kind, string(out.Result)).Inc()
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
			return append([]any{"kind", kind, "object", nameOf(o), "uid", o.UID, "expiry", o.Expiry, "source", o.Source, "trigger", out.Trigger}, more...)
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
