package engine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the handle of a registered kind. The zero value is no kind. It is valid for the engine that gave it out.
type Kind uint16

// Lane is one reason for which an object may be tracked. An object has at most one entry in each.
type Lane uint8

// lanes is how many there can be: the TTL after finished, the TTL label, its alias, the deadline.
const lanes = 4

// KindOptions says what the engine has to know of a kind in order to delete objects of it.
type KindOptions struct {
	// Resource is the group, version and plural resource that DELETE is sent to.
	Resource schema.GroupVersionResource
	// Kind is the kind's name as it stands in logs and metrics, for example "Job".
	Kind string
	// Namespaced tells whether objects of the kind live in namespaces.
	Namespaced bool
	// Lane keeps apart what is tracked of one object for different reasons, such as a TTL after finished (0) and a label (1):
	// what is said of an object in one lane changes nothing in another, and the first that is due deletes it.
	Lane Lane
	// Scope is the namespace that a feed is limited to, empty for all. Two feeds of a resource in different namespaces have
	// handles, relists and breakers of their own.
	Scope string
	// Propagation is what DELETE asks for where the object does not say; empty means Background.
	Propagation metav1.DeletionPropagation
	// Protobuf tells that the kind is built in, so that bodies may be protobuf instead of JSON.
	Protobuf bool
	// UIDOnly tells that the API behind the kind is known not to honour a resourceVersion precondition. The engine then
	// always asks Judge right before the DELETE and sends the UID alone.
	UIDOnly bool
	// Aggregated tells that the kind may be served by an aggregated API server, which may not honour the precondition. The
	// engine finds out: see refusesVersion. Kubernetes' own API server and its CustomResourceDefinitions do honour it.
	Aggregated bool
	// Judge reads one object of the kind afresh. Required.
	Judge Judge
	// Actor does what is due in the place of a DELETE; nil means Options.Deleter. What it does it counts and logs itself: the engine
	// speaks of failures alone.
	Actor Deleter
}

// Object is one tracked object as callers speak of it. The engine copies what it keeps and holds on to no string of it.
type Object struct {
	Kind      Kind
	Namespace string // empty for cluster-scoped kinds
	Name      string
	UID       types.UID
	// ResourceVersion of the state that was judged. It becomes the precondition of the DELETE.
	ResourceVersion string
	// Expiry is the instant at which the object is due. Zero is not an expiry: Upsert then removes the entry.
	Expiry time.Time
	// Trigger is why it will be deleted: "ttl", "label" or "cleanup". It is a metric label: few distinct values.
	Trigger string
	// Source is where the expiry came from: "object", "runtime/<name>", "namespace/<name>", "policy/<name>".
	Source string
	// Propagation overrides the kind's; empty means the kind's.
	Propagation metav1.DeletionPropagation
	// Live says that what the expiry hangs on can change without the object changing (a runtime, a default that was
	// resolved live). The engine asks Judge right before it deletes.
	Live bool
	// Backfill says that a default reached something older than itself: such deletions have a rate of their own, and
	// their lateness is not observed, because their expiry may lie years back.
	Backfill bool
	// DryRun says that the deletion is only to be reported. The engine sends DELETE with dryRun=All, reports it once and
	// keeps the entry idle until it changes.
	DryRun bool
	// Epoch is what [Engine.Epoch] answered before the object was judged. If something changed since that
	// concerns the object, the engine asks Judge right before it deletes, as if Live were set.
	Epoch uint64
}

// Verdict is what a fresh look at an object came to.
type Verdict uint8

const (
	// Keep: the object exists and has no expiry (any more). The entry goes.
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
	// Object is what is to be tracked from now on, with the resourceVersion of the fresh read; for Track only. If its UID
	// is not the one that was asked about, the old one counts as gone and this one is tracked beside it.
	Object Object
	// Since is the deletionTimestamp; for BeingDeleted only.
	Since time.Time
	// Finalizers are those of the state that was read; for Track only.
	Finalizers []string
}

// Judge reads the object afresh (a quorum read: GET without resourceVersion) and judges what it finds. It is called on
// conflict and for live entries, from many workers at once. An error means that it could not be read or judged: the
// engine tries again later, without end. A runtime or namespace that cannot be read is an error, not Keep and never Track.
type Judge func(ctx context.Context, o Object) (Judgement, error)

// Request is one DELETE.
type Request struct {
	Kind      *KindOptions
	Namespace string
	Name      string
	UID       types.UID // precondition, always set
	// ResourceVersion is the other precondition; empty only where the API cannot honour it.
	ResourceVersion string
	Propagation     metav1.DeletionPropagation
	DryRun          bool
	// Expiry is the instant at which the object was due.
	Expiry time.Time
}

// Response is what came of a Request. Err without Code: no answer was received, and the DELETE may or may not have
// been carried out.
type Response struct {
	// Code is the HTTP status, 0 if there was no answer.
	Code int
	// Reason and Message are those of the Status in the body of an error.
	Reason  metav1.StatusReason
	Message string
	// Origin is which part of the API server wrote an error.
	Origin Origin
	// ObjectMissing distinguishes, for 404, "no such object" from "no such resource": only the first means gone.
	ObjectMissing bool
	// RetryAfter is what the server asked for, 0 if it did not.
	RetryAfter time.Duration
	// Err is set when no answer was received.
	Err error
	// Again asks, with a Code of success, to be called again after that time (at least a second): what was to be done is done, or was
	// found done, and has yet to prove itself. For an Actor.
	Again time.Duration
	// Took is how long one request of an Actor took, which sends several; 0 says nothing of what the API server can take.
	Took time.Duration
	// Rest says, with a Code of success, that there is nothing more to do until the object changes. For an Actor.
	Rest bool
}

// Deleter sends one DELETE. Client is the one that speaks HTTP; tests bring their own.
type Deleter interface {
	Delete(ctx context.Context, r Request) Response
}

// Result is what became of an attempt to delete, and the label "result" of curfew_deletions_total.
type Result string

const (
	// Deleted: the DELETE was accepted.
	Deleted Result = "deleted"
	// Other: the object was gone already; somebody else deleted it.
	Other Result = "other"
	// Unconfirmed: the object is gone, and an earlier DELETE of ours got no answer: it was probably that one.
	Unconfirmed Result = "unconfirmed"
	// DryRun: the API server said that it would have accepted the DELETE.
	DryRun Result = "dry_run"
	// Conflict: the object had changed; it was read and judged again.
	Conflict Result = "conflict"
	// Kept: a fresh look found that the object is not due (any more).
	Kept Result = "kept"
	// Throttled: 429. Tried again after Retry-After.
	Throttled Result = "throttled"
	// Refused: 401, 403 or another answer of the 400s. Tried again, without end.
	Refused Result = "refused"
	// Failed: no answer, an answer of the 500s, or the fresh look failed. Tried again, without end.
	Failed Result = "error"
	// Held: DeleteNow only. A breaker is open or the engine stopped; nothing was sent.
	Held Result = "held"
)

// Final tells whether the object is done with: deleted, gone, only reported, or not to be deleted.
func (r Result) Final() bool {
	switch r {
	case Deleted, Other, Unconfirmed, DryRun, Kept:
		return true
	default:
		return false
	}
}

// Outcome is one Result with what it is about.
type Outcome struct {
	Object Object
	Result Result
	// At is the instant the outcome was known, in the API server's time as far as that is known.
	At time.Time
	// Lateness is At minus the expiry, for Deleted.
	Lateness time.Duration
	// Err says why, for results that are not final. It names the object.
	Err error
}

// StuckObject is an object that has been terminating for longer than Options.StuckAfter.
type StuckObject struct {
	Object Object
	// Kind is what was registered for Object.Kind.
	Kind KindOptions
	// Since is its deletionTimestamp.
	Since time.Time
}

// Summary is what was deleted for one source over a summary interval: enough for one aggregated Event on that source.
type Summary struct {
	Source    string
	Trigger   string
	Kind      KindOptions
	Namespace string // the one namespace if all lay in one, else empty
	Deleted   int
	DryRun    int
	First     time.Time
	Last      time.Time
	// Examples are the first few, "namespace/name".
	Examples []string
}

// BreakerEvent says that deletions of a scope are paused or go on.
type BreakerEvent struct {
	// Class is what is paused: "clock" and "apiserver" (everything), "kind", or the class of the source: "object",
	// "namespace", "policy", "runtime".
	Class string
	// Scope tells scopes apart. It is the same in the event that begins a pause and in the one that ends it, and no two scopes that are
	// paused at a time share it. It is not for people.
	Scope string
	// Kind, Namespace and Source name the scope as far as the class has them.
	Kind      string
	Namespace string
	Source    string
	// Open is true when the pause begins, false when it ends.
	Open bool
	// Reason is one CamelCase word for a condition: ClockJump, ClockSkew, NoServerTime, Unreachable, ServerErrors, Refused,
	// Unjudged.
	Reason  string
	Message string
	At      time.Time
}

// State is where an entry stands.
type State string

const (
	// Waiting: armed, its time has not come or it is about to be taken.
	Waiting State = "waiting"
	// Retrying: due, tried or held back at least once, waiting for the next attempt.
	Retrying State = "retrying"
	// InFlight: a worker has it.
	InFlight State = "in-flight"
	// Reported: dry-run, and reported.
	Reported State = "reported"
	// Terminating: it carries a deletionTimestamp.
	Terminating State = "terminating"
	// Stuck: terminating for longer than Options.StuckAfter.
	Stuck State = "stuck"
)

// Status is what the engine knows of one object.
type Status struct {
	Object   Object
	State    State
	Attempts int
	// Next is the instant of the next attempt or check; zero if none is planned.
	Next time.Time
}
