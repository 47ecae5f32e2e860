package expire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire/index"
)

// Kind is the handle of a kind that is registered for a trigger.
type Kind = index.Kind

// Entry is one tracked object.
type Entry = index.Entry

// KindOptions describe a kind that is registered for a trigger.
type KindOptions struct {
	// Type describes the kind for requests. Resource and Kind are required.
	deletion.Type
	// Trigger is the name of the trigger that objects are tracked for. Required.
	Trigger string
	// Scope distinguishes feeds of a resource that see different objects, by namespace or by label.
	// Each has its own handle, relists and breakers. An object may move from one to another.
	Scope string
	// Judge reads one object live. Required.
	Judge Judge
}

// Verdict is the result of a live judgement.
type Verdict uint8

const (
	// Keep: the object exists and has no expiry (any more). The entry is dropped.
	Keep Verdict = iota
	// Track: the object exists and Judgement.Object says when it is due, in the past perhaps.
	Track
	// Gone: no object of that UID exists any more, or the name belongs to a different UID now.
	Gone
	// BeingDeleted: the object carries a deletionTimestamp, Judgement.Since.
	BeingDeleted
)

// Judgement is the answer of a Judge.
type Judgement struct {
	Verdict Verdict
	// Object is tracked from now on, with the resourceVersion of the live read; for Track only. If
	// its UID differs from the judged object's, the old object counts as gone and this one is
	// tracked beside it.
	Object Entry
	// Since is the deletionTimestamp; for BeingDeleted only.
	Since time.Time
	// Finalizers of the state that was read; for Track only.
	Finalizers []string
	// Agrees reports whether caches judge the same state alike; for Track only. It may be nil.
	Agrees func(context.Context) bool
}

// Judge reads one object live (a quorum read: GET without resourceVersion) and judges it. Many
// workers call it at once. An error means that the object could not be read or judged: the engine
// tries again later, without end. If a runtime or namespace cannot be read, return an error, not
// Keep or Track.
type Judge func(ctx context.Context, o Entry) (Judgement, error)

// ErrRulesChanged is the error of a [Judge] whose rules are about to be replaced. The engine tries
// again later. The error does not count against the source of the object.
var ErrRulesChanged = errors.New("waiting until objects are judged by the new rules")

// Ending is the result of an attempt, and the label "result" of curfew_deletion_attempts_total.
type Ending string

const (
	// Deleted: the DELETE was accepted.
	Deleted Ending = "deleted"
	// AlreadyGone: another client deleted the object, or is deleting it.
	AlreadyGone Ending = "already_gone"
	// Unconfirmed: the object is gone. An earlier request of Curfew got no answer and probably
	// deleted it.
	Unconfirmed Ending = "unconfirmed"
	// DryRun: the API server would have accepted the request.
	DryRun Ending = "dry_run"
	// Conflict: the object had changed; it was read and judged again.
	Conflict Ending = "conflict"
	// Kept: a live judgement found that the object is not due (any more).
	Kept Ending = "kept"
	// Throttled: 429. Tried again after Retry-After.
	Throttled Ending = "throttled"
	// Refused: 401, 403 or another answer of the 400s. Tried again, without end.
	Refused Ending = "refused"
	// Failed: no answer, an answer of the 500s, or the live read failed. Tried again, without end.
	Failed Ending = "error"
	// Held, for objects that are not tracked: nothing was sent. A breaker is open, a pause holds it,
	// or the engine stopped.
	Held Ending = "held"
)

// Final reports whether nothing more happens to the object: it is deleted, gone, only reported, or
// kept.
func (r Ending) Final() bool {
	switch r {
	case Deleted, AlreadyGone, Unconfirmed, DryRun, Kept:
		return true
	default:
		return false
	}
}

// Outcome is one Ending with its object.
type Outcome struct {
	Object Entry
	// Trigger is the trigger that made the object due, as in metrics and logs.
	Trigger string
	// Result is empty if the action did something and asks for another attempt.
	Result Ending
	// Deleted is how many objects were deleted.
	Deleted int
	// At is the instant the outcome was known, in the API server's time as far as that is known.
	At time.Time
	// Lateness is At minus the expiry, for the Endings Deleted and Unconfirmed.
	Lateness time.Duration
	// Err says why, for results that are not final. It names the object.
	Err error
}

// Trigger is one reason why objects become due. An object has at most one entry for each trigger.
// The entries are independent, and the first that is due acts.
type Trigger struct {
	// Name is the trigger's name in KindOptions, metrics and logs. Required.
	Name string
	// Action is carried out on tracked objects that are due. Nil if objects come with their own
	// [Work].
	Action deletion.Action
	// Deletes says that the action deletes the object itself: Done means that it is gone, and each
	// attempt counts against the budget of deletions. Otherwise Done means that there is nothing
	// to do until the object changes.
	Deletes bool
	// Payload says that the action needs Entry.Payload.
	Payload bool
}

// StuckObject is an object that has been terminating for longer than Options.StuckAfter.
type StuckObject struct {
	Object Entry
	// Kind is what was registered for Entry.Kind.
	Kind KindOptions
	// Since is its deletionTimestamp.
	Since time.Time
}

// BlockedObject is an object that is due and that several attempts in a row could not delete, for a
// reason of its own that no breaker reports.
type BlockedObject struct {
	Object Entry
	// Kind is what was registered for Entry.Kind.
	Kind KindOptions
	// Reason is one CamelCase word for an Event.
	Reason string
	// Message says what blocks it, in words for people.
	Message string
}

// ReasonConflict: the object changes faster than the API server answers the requests for it, so
// that each is a conflict.
const ReasonConflict = "DeleteConflict"

// ReasonDeleteRefused: an admission policy, an admission webhook or a rule of the API server
// refuses the DELETE of this object, independently of Curfew's permissions. Breakers report a
// missing permission, since that concerns more than one object.
const ReasonDeleteRefused = "DeleteRefused"

// ReasonStopRefused is the same for an action that deletes nothing itself, such as the stop of an
// object at its deadline.
const ReasonStopRefused = "StopRefused"

// Summary counts the deletions for one source over a summary interval: enough for one aggregated
// Event on that source.
type Summary struct {
	Source    string
	Trigger   string
	Kind      KindOptions
	Namespace string // of all objects if they share it, else empty
	Deleted   int
	DryRun    int
	First     time.Time
	Last      time.Time
	// Examples are the first few, "namespace/name".
	Examples []string
}

// BreakerEvent reports that deletions of a scope are paused or resumed.
type BreakerEvent struct {
	// Class of the scope: "clock" and "apiserver" (everything), "kind", "permission" (a kind in a
	// namespace), or the class of the source: "object", "namespace", "policy", "runtime".
	Class string
	// Scope identifies the scope. Both events of a pause have the same, and no two scopes that are
	// paused at a time share it. It is not meant for people.
	Scope string
	// Kind, Namespace and Source name the scope as far as the class has them.
	Kind      string
	Namespace string
	Source    string
	// Open is true when the pause begins, false when it ends.
	Open bool
	// Reason is one CamelCase word for a condition: ClockJump, ClockSkew, NoServerTime,
	// Unreachable, ServerErrors, Refused, Forbidden, NotJudged.
	Reason  string
	Message string
}

// Reasons of holds and breakers.
const (
	ReasonClockJump    = "ClockJump"
	ReasonClockSkew    = "ClockSkew"
	ReasonNoServerTime = "NoServerTime"
	ReasonUnreachable  = "Unreachable"
	ReasonServerErrors = "ServerErrors"
	ReasonRefused      = "Refused"
	ReasonForbidden    = "Forbidden"
	ReasonNotJudged    = "NotJudged"
)

// Rules confirms the rules by which objects are judged (S12).
type Rules interface {
	// Want has them confirmed: something is due, or will be within [deletion.Ahead].
	Want()
	// Confirmed returns when. All changes until then were reported to the engine before.
	Confirmed() time.Time
	OnAnswer(wake func())
}

// Defaults of Options.
const (
	// DefaultStuckAfter is how long an object may be terminating before it is reported.
	DefaultStuckAfter = 15 * time.Minute
	// DefaultBackfillPerMinute is the cap of the contract, section 4.
	DefaultBackfillPerMinute = 1000
	// DefaultMaxConcurrency bounds the concurrency.
	DefaultMaxConcurrency = 256
)

const (
	// maxSkew is the skew against the API server beyond which deletions wait. Synchronized hosts are
	// within a tenth of a second of each other, and the Date header alone is a second coarse; a skew
	// of more than five seconds means that a clock is not synchronized. Below the bound the engine
	// waits for the later of the two clocks, so no object is deleted early.
	maxSkew = 5 * time.Second
	// keepOut is how long an accepted DELETE keeps stale events of the same UID out. Watch caches lag
	// by less.
	keepOut = time.Minute
	// requestTimeout bounds one attempt of an action and one live judgement.
	requestTimeout = 30 * time.Second
	// summaryEvery is the interval of the summary line and of OnSummary.
	summaryEvery = time.Minute
)

// Options configure an Engine. Triggers are required, all else has a default.
type Options struct {
	// Triggers are the reasons why objects become due, with their actions. Required.
	Triggers []Trigger
	// Skew is the estimate of the API server's time; wrap every transport with Skew.Wrap. With nil
	// no skew is checked, and after a jump of the clock the engine only waits until wall and
	// monotonic time agree again.
	Skew *deletion.Skew
	// Ping makes the API server send a Date header, for instance Client.Ping. Called at most once a
	// second, and only when no other answer came lately. Needed with Skew.
	Ping deletion.Ping
	// Behind reports whether the caches that objects are judged by may be behind the API server, as
	// after an outage. Then the engine judges every object live first. Nil means never.
	Behind func() bool
	// Pauses holds actions while a DeletionPause names them. Nil means that nothing ever does.
	Pauses *deletion.Gate
	// Rules confirms the rules. Nil means that every object is judged live.
	Rules Rules
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
	// BackfillPerMinute bounds deletions of Backfill objects likewise, after a restart too; 0 means
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

	// StuckAfter is how long an object may be terminating before it is reported; 0 means
	// DefaultStuckAfter.
	StuckAfter time.Duration

	// OnSummary is called once a minute with a Summary per source, trigger and kind, if anything was
	// deleted, and within five seconds of the first deletion of a source.
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
		errs = append(errs, errors.New("engine: Options.Ping is nil beside Options.Skew: "+
			"without it a jump of the clock could hold deletions for ever"))
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"MaxDeletionsPerMinute", o.MaxDeletionsPerMinute},
		{"BackfillPerMinute", o.BackfillPerMinute},
		{"MaxConcurrency", o.MaxConcurrency},
		{"StuckAfter", int(o.StuckAfter)},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("engine: Options.%s is %d: give 0 for the default, or more", f.name, f.value))
		}
	}
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	o.BackfillPerMinute = cmp.Or(o.BackfillPerMinute, DefaultBackfillPerMinute)
	o.MaxConcurrency = cmp.Or(o.MaxConcurrency, DefaultMaxConcurrency)
	o.StuckAfter = cmp.Or(o.StuckAfter, DefaultStuckAfter)
	if o.monotonic == nil {
		start := o.Clock.Now()
		o.monotonic = func(now time.Time) time.Duration { return now.Sub(start) }
	}
	if o.jitter == nil {
		o.jitter = rand.Float64
	}
	return o, errors.Join(errs...)
}
