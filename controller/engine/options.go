package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/controller/servertime"
)

// Defaults of Options.
const (
	// DefaultMaxSkew is the skew against the API server beyond which deletions wait. Synchronized
	// hosts are within a tenth of a second of each other, and the Date header alone is a second
	// coarse; a skew of more than five seconds means that a clock is not synchronized. Below the
	// bound the engine waits for the later of the two clocks, so no object is deleted early.
	DefaultMaxSkew = 5 * time.Second
	// DefaultStuckAfter is how long an object may be terminating before it is reported.
	DefaultStuckAfter = 15 * time.Minute
	// DefaultBackfillPerMinute is the cap of the contract, section 4.
	DefaultBackfillPerMinute = 1000
	// DefaultKeepOut is how long an accepted DELETE keeps stale events of the same UID out. Watch
	// caches lag by less.
	DefaultKeepOut = time.Minute
	// DefaultRequestTimeout bounds one attempt of an action and one live judgement.
	DefaultRequestTimeout = 30 * time.Second
	// DefaultMaxConcurrency bounds the concurrency.
	DefaultMaxConcurrency = 256
	// DefaultSummaryEvery is the interval of the summary line and of OnSummary.
	DefaultSummaryEvery = time.Minute
)

// Options configure an Engine. Triggers are required, all else has a default.
type Options struct {
	// Triggers are the reasons why objects become due, with their actions. Required.
	Triggers []Trigger
	// Skew is the estimate of the API server's time; wrap every transport with Skew.Wrap. With nil
	// no skew is checked, and after a jump of the clock the engine only waits until wall and
	// monotonic time agree again.
	Skew *servertime.Skew
	// Ping makes the API server send a Date header, for instance Client.Ping. Called at most once a
	// second, and only when no other answer came lately. Needed with Skew.
	Ping servertime.Ping
	// Behind reports whether the caches that objects are judged by may be behind the API server, as
	// after an outage. Then the engine judges every object live first. Nil means never.
	Behind func() bool
	// Pauses holds actions while a DeletionPause names them. Nil means that nothing ever does.
	Pauses *pause.Gate
	// Clock is the only clock; nil means the real one.
	Clock clock.WithTicker
	// Log gets one line a deletion and one summary line an interval.
	Log logr.Logger
	// Known reports whether all objects of all kinds are known. Until then, gauges of overdue
	// objects are absent instead of 0. Nil means always.
	Known func() bool
	// Registerer gets the metrics; nil means none are registered.
	Registerer prometheus.Registerer

	// MaxDeletionsPerMinute bounds deletions in any 60 seconds, including those without an answer
	// and those taken with Reserve; 0 is no bound. Run starts without budget, so that restarts add
	// none.
	MaxDeletionsPerMinute int
	// BackfillPerMinute bounds deletions of Backfill objects likewise; 0 means
	// DefaultBackfillPerMinute.
	BackfillPerMinute int
	// MaxConcurrency caps DELETEs in flight; 0 means DefaultMaxConcurrency. The engine finds its
	// own number below that.
	MaxConcurrency int
	// FavourDrain lets the engine load the API server until it refuses (429) or becomes several
	// times slower. The default keeps a short queue, so that other clients notice little.
	FavourDrain bool
	// DryRun makes every deletion a dry run, whatever the object says.
	DryRun bool

	// MaxSkew is the proven skew beyond which deletions wait; 0 means DefaultMaxSkew.
	MaxSkew time.Duration
	// StuckAfter is how long an object may be terminating before it is reported; 0 means
	// DefaultStuckAfter.
	StuckAfter time.Duration
	// KeepOut: see DefaultKeepOut; 0 means that.
	KeepOut time.Duration
	// RequestTimeout bounds one DELETE and one Judge call; 0 means DefaultRequestTimeout.
	RequestTimeout time.Duration
	// SummaryEvery is the interval of OnSummary and of the summary line; 0 means
	// DefaultSummaryEvery.
	SummaryEvery time.Duration

	// OnSummary is called once an interval with a Summary per source, trigger and kind, if anything
	// was deleted.
	OnSummary func([]Summary)
	// OnBreaker is called when deletions of a scope are paused and when they are resumed, one call
	// at a time and in that order.
	OnBreaker func(BreakerEvent)
	// OnStuck is called once for each object that has been terminating for too long.
	OnStuck func(StuckObject)
	// OnBlocked is called for each object that cannot be deleted for a reason of its own, and again
	// every half hour. The engine keeps trying.
	OnBlocked func(BlockedObject)

	// monotonic gives the monotonic time of a clock reading. Tests replace it to let wall and
	// monotonic time disagree.
	monotonic func(now time.Time) time.Duration
	// jitter gives a number in [0,1).
	jitter func() float64
	// observe sees all outcomes, in tests.
	observe func(Outcome)
}

// complete fills in defaults and returns an error for each invalid option.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.Skew != nil && o.Ping == nil {
		errs = append(errs, errors.New("engine: Options.Ping is nil beside Options.Skew: without it a jump of the clock could hold deletions for ever"))
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"MaxDeletionsPerMinute", o.MaxDeletionsPerMinute},
		{"BackfillPerMinute", o.BackfillPerMinute},
		{"MaxConcurrency", o.MaxConcurrency},
		{"MaxSkew", int(o.MaxSkew)},
		{"StuckAfter", int(o.StuckAfter)},
		{"KeepOut", int(o.KeepOut)},
		{"RequestTimeout", int(o.RequestTimeout)},
		{"SummaryEvery", int(o.SummaryEvery)},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("engine: Options.%s is %d: give 0 for the default, or more", f.name, f.value))
		}
	}
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	orElse(&o.BackfillPerMinute, DefaultBackfillPerMinute)
	orElse(&o.MaxConcurrency, DefaultMaxConcurrency)
	orElse(&o.MaxSkew, DefaultMaxSkew)
	orElse(&o.StuckAfter, DefaultStuckAfter)
	orElse(&o.KeepOut, DefaultKeepOut)
	orElse(&o.RequestTimeout, DefaultRequestTimeout)
	orElse(&o.SummaryEvery, DefaultSummaryEvery)
	if o.monotonic == nil {
		start := o.Clock.Now()
		o.monotonic = func(now time.Time) time.Duration { return now.Sub(start) }
	}
	if o.jitter == nil {
		o.jitter = rand.Float64
	}
	return o, errors.Join(errs...)
}

func orElse[T int | time.Duration](v *T, fallback T) {
	if *v == 0 {
		*v = fallback
	}
}
