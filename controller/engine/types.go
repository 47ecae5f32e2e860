package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/engine/index"
)

// Kind is the handle of a kind that is registered for a trigger.
type Kind = index.Kind

// Object is one tracked object.
type Object = index.Object

// KindOptions describe a kind that is registered for a trigger.
type KindOptions struct {
	// Type describes the kind for requests. Resource and Kind are required.
	action.Type
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
	Object Object
	// Since is the deletionTimestamp; for BeingDeleted only.
	Since time.Time
	// Finalizers of the state that was read; for Track only.
	Finalizers []string
}

// Judge reads one object live (a quorum read: GET without resourceVersion) and judges it. Many
// workers call it at once. An error means that the object could not be read or judged: the engine
// tries again later, without end. If a runtime or namespace cannot be read, return an error, not
// Keep or Track.
type Judge func(ctx context.Context, o Object) (Judgement, error)

// ErrRulesChanged is the error of a [Judge] whose rules are about to be replaced. The engine tries
// again later. The error does not count against the source of the object.
var ErrRulesChanged = errors.New("waiting until objects are judged by the new rules")

// Result is the result of an attempt, and the label "result" of curfew_deletion_attempts_total.
type Result string

const (
	// Deleted: the DELETE was accepted.
	Deleted Result = "deleted"
	// AlreadyGone: another client deleted the object, or is deleting it.
	AlreadyGone Result = "already_gone"
	// Unconfirmed: the object is gone. An earlier request of Curfew got no answer and probably
	// deleted it.
	Unconfirmed Result = "unconfirmed"
	// DryRun: the API server would have accepted the request.
	DryRun Result = "dry_run"
	// Conflict: the object had changed; it was read and judged again.
	Conflict Result = "conflict"
	// Kept: a live judgement found that the object is not due (any more).
	Kept Result = "kept"
	// Throttled: 429. Tried again after Retry-After.
	Throttled Result = "throttled"
	// Refused: 401, 403 or another answer of the 400s. Tried again, without end.
	Refused Result = "refused"
	// Failed: no answer, an answer of the 500s, or the live read failed. Tried again, without end.
	Failed Result = "error"
	// Held, for submitted objects only: nothing was sent. A breaker is open, no slot became free,
	// or the engine stopped.
	Held Result = "held"
)

// Final reports whether nothing more happens to the object: it is deleted, gone, only reported, or
// kept.
func (r Result) Final() bool {
	switch r {
	case Deleted, AlreadyGone, Unconfirmed, DryRun, Kept:
		return true
	default:
		return false
	}
}

// Outcome is one Result with its object.
type Outcome struct {
	Object Object
	// Trigger is the trigger for which the object was due, as in metrics and logs.
	Trigger string
	// Result is empty if the action did something and asks for another attempt.
	Result Result
	// Deleted is how many objects were deleted.
	Deleted int
	// At is the instant the outcome was known, in the API server's time as far as that is known.
	At time.Time
	// Lateness is At minus the expiry, for the Results Deleted and Unconfirmed.
	Lateness time.Duration
	// Err says why, for results that are not final. It names the object.
	Err error
}

// Trigger is one reason why objects become due. An object has at most one entry for each trigger.
// The entries are independent, and the first that is due acts.
type Trigger struct {
	// Name is the trigger's name in KindOptions, metrics and logs. Required.
	Name string
	// Action is carried out on due objects. Required.
	Action action.Action
	// Deletes says that the action deletes the object itself: Done means that it is gone, and each
	// attempt counts against the budget of deletions. Otherwise Done means that there is nothing
	// to do until the object changes.
	Deletes bool
	// Payload says that the action needs Object.Payload.
	Payload bool
	// Priority is Normal, or Background for a trigger that yields to others.
	Priority action.Priority
}

// trigger is a registered Trigger. It never changes.
type trigger struct {
	Trigger
	id uint8
}

// label is the name in metrics and logs.
func (t *trigger) label(phase string) string {
	if phase == "" {
		return t.Name
	}
	return t.Name + "-" + phase
}

// verb names the action in errors.
func (t *trigger) verb() string {
	if t.Deletes {
		return "deleting"
	}
	return "acting on"
}

// maxTriggers is the number of triggers that fit into entry.trigger.
const maxTriggers = 256

func register(list []Trigger) ([]*trigger, error) {
	var errs []error
	var out []*trigger
	if len(list) == 0 || len(list) > maxTriggers {
		errs = append(errs, fmt.Errorf("engine: Options.Triggers has %d entries: give 1 to %d", len(list), maxTriggers))
	}
	for i, t := range list {
		switch {
		case t.Name == "":
			errs = append(errs, fmt.Errorf("engine: Options.Triggers[%d].Name is empty", i))
		case t.Action == nil:
			errs = append(errs, fmt.Errorf("engine: Options.Triggers[%d].Action of %q is nil", i, t.Name))
		case slices.ContainsFunc(out, func(other *trigger) bool { return other.Name == t.Name }):
			errs = append(errs, fmt.Errorf("engine: Options.Triggers has two of the name %q", t.Name))
		}
		out = append(out, &trigger{Trigger: t, id: uint8(i)})
	}
	return out, errors.Join(errs...)
}

// StuckObject is an object that has been terminating for longer than Options.StuckAfter.
type StuckObject struct {
	Object Object
	// Kind is what was registered for Object.Kind.
	Kind KindOptions
	// Since is its deletionTimestamp.
	Since time.Time
}

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
	// Class of the scope: "clock" and "apiserver" (everything), "kind", or the class of the source:
	// "object", "namespace", "policy", "runtime".
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
	// Unreachable, ServerErrors, Refused, NotJudged.
	Reason  string
	Message string
	At      time.Time
}
