package deletion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Action acts on an object that is due: it deletes or stops it.
type Action interface {
	// Do makes one attempt. It acts on exactly the state that Due names, or returns Conflict.
	Do(ctx context.Context, due Due) Answer
}

// Type holds the properties of a kind that requests for its objects depend on.
type Type struct {
	// Resource is the group, version and plural resource that requests are sent to.
	Resource schema.GroupVersionResource
	// Kind is the kind's name in logs and metrics, for example "Job".
	Kind string
	// Namespaced reports whether objects of the kind live in namespaces.
	Namespaced bool
	// Propagation is the policy of a DELETE, unless the object names another one. Empty means
	// Background.
	Propagation metav1.DeletionPropagation
	// Protobuf reports whether the kind is built in, so that bodies may be protobuf.
	Protobuf bool
	// UIDOnly reports that the API is known to ignore a resourceVersion precondition. The engine
	// then judges live before each attempt.
	UIDOnly bool
	// Aggregated reports that an aggregated API server may serve the kind. It may ignore the
	// precondition, too; the API server itself and its CustomResourceDefinitions never do.
	Aggregated bool
}

// GroupKind names the kind in metrics, whatever version is served.
func (t *Type) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: t.Resource.Group, Kind: t.Kind}
}

// Due is one object, in the state that was judged, with the settings of the attempt.
type Due struct {
	Type
	Namespace, Name string
	UID             types.UID
	// ResourceVersion of the state that was judged. Nothing may happen to any other state (S1).
	ResourceVersion string
	Expiry          time.Time
	// Trigger and Source say why the object is due and which setting decided.
	Trigger, Source string
	// Propagation overrides the kind's; empty means the kind's.
	Propagation metav1.DeletionPropagation
	// DryRun: send requests as dry runs, and change nothing.
	DryRun bool
	// Payload is the data that the judgement of this state left for the action.
	Payload any
	// Finalizers of the object, as a live read right before this attempt found them. Nil without
	// such a read.
	Finalizers []string
	// Disproved counts the attempts in a row that failed with Answer.VersionConflict although a
	// live read after each found the same resourceVersion that the request carried.
	Disproved int
	// Reserve takes another deletion from the budget of --max-deletions-per-minute. Call settle
	// once if ok. An action that deletes the object itself has one already. Nil means no bound.
	Reserve func() (settle func(happened bool), ok bool)
}

// ObjectName is the object's name in logs.
func (d *Due) ObjectName() string {
	if d.Namespace == "" {
		return d.Name
	}
	return d.Namespace + "/" + d.Name
}

// Class classifies the result of an attempt.
type Class uint8

const (
	// Failed: no answer, or an answer of the 500s.
	Failed Class = iota
	// Done: there is nothing more to do. If the trigger deletes, the object is deleted. Otherwise
	// there is nothing to do until the object changes.
	Done
	// Again: the action asks for another attempt, Answer.After from now.
	Again
	// Conflict: the object is not, or no longer, in the state that was judged.
	Conflict
	// Gone: the object does not exist.
	Gone
	// Throttled: an answer of 429.
	Throttled
	// Refused: any other answer of the 400s, or a request that cannot be made.
	Refused
	// Held: a pause holds the attempt, or the rest of it (see Gate).
	Held
)

// Answer is the result of one attempt. It describes the API server's answer to the engine.
type Answer struct {
	Outcome Class
	// After is how long to wait before the next attempt: the action chooses it for Again, the
	// Retry-After header otherwise.
	After time.Duration
	// Deleted is how many objects the attempt deleted.
	Deleted int
	// Code is the HTTP status of a failure; 0 if no answer came, so that the request may or may not
	// have been carried out.
	Code int
	// Origin is which part of the API server wrote it.
	Origin Origin
	// Err describes a failure. It names neither the action nor the object.
	Err error
	// VersionConflict reports that a Conflict is about the resourceVersion that the request
	// carried.
	VersionConflict bool
	// Latency is how long one request took. The engine derives its concurrency from it. 0 if the
	// attempt says nothing about the load of the API server.
	Latency time.Duration
}

// Origin is which part of the API server wrote an answer. The code alone does not show it: an
// admission webhook chooses the code, the reason and the Retry-After of its denial.
type Origin uint8

const (
	// FromResource: the code that serves the resource, or its storage.
	FromResource Origin = iota
	// FromServer: the answer is no Status. It comes from a filter that runs before the resource is
	// looked at (API Priority and Fairness, the limit on requests in flight, shutdown), or from a
	// proxy in front of the API server.
	FromServer
	// FromAdmission: an admission webhook or policy denied the request, or a webhook could not be
	// called. Nothing in such an answer is evidence about the object, its kind or the API server.
	FromAdmission
)

// The API server prefixes the message of every webhook that denies, and of every webhook that it
// fails to call (k8s.io/apiserver, pkg/admission/plugin/webhook/errors and pkg/util/webhook). A
// webhook cannot leave the prefix out. The message of a ValidatingAdmissionPolicy, which may be a
// 401, names the policy after the name of the object.
const (
	prefixDenied  = `admission webhook "`
	prefixFailing = `Internal error occurred: failed calling webhook "`
	policyDenied  = ` is forbidden: ValidatingAdmissionPolicy '`
)

// OriginOf reads the origin off the Status of an error; nil means that the body was no Status.
func OriginOf(s *metav1.Status) Origin {
	switch {
	case s == nil:
		return FromServer
	case strings.HasPrefix(s.Message, prefixDenied), strings.HasPrefix(s.Message, prefixFailing), strings.Contains(s.Message, policyDenied):
		return FromAdmission
	case apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: *s}, metav1.CauseTypeUnexpectedServerResponse):
		return FromServer // client-go made the Status up
	default:
		return FromResource
	}
}

// Failure is the Answer of an answer that is an error, or of none (code 0). A 404 is Refused: only
// the action can report whether it is about the object.
func Failure(code int, origin Origin, err error) Answer {
	out := Answer{Outcome: Failed, Code: code, Origin: origin, Err: err}
	switch {
	case code == http.StatusConflict && origin != FromAdmission:
		out.Outcome = Conflict
	case code == http.StatusTooManyRequests:
		out.Outcome = Throttled
	case code >= 400 && code < 500:
		out.Outcome = Refused
	}
	return out
}

// FailureOf is the Answer of an error of client-go. ok is false if no answer of the API server
// caused the error.
func FailureOf(err error) (out Answer, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Failure(0, FromResource, err), false
	}
	answer := status.Status()
	out = Failure(int(answer.Code), OriginOf(&answer), Describe(int(answer.Code), answer.Reason, err.Error()))
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		out.After = time.Duration(seconds) * time.Second
	}
	return out, true
}

// Answered reports whether an error is an answer of the API server.
func Answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// maxMessage bounds the part of an answer's message that an error repeats.
const maxMessage = 1024

// Describe returns the error for an answer. It is logged, and a webhook chooses the message, so it
// is bounded.
func Describe(code int, reason metav1.StatusReason, message string) error {
	if reason == "" || reason == metav1.StatusReasonUnknown {
		reason = metav1.StatusReason(http.StatusText(code))
	}
	switch {
	case message == "":
		return fmt.Errorf("%d %s", code, reason)
	case len(message) > maxMessage:
		return fmt.Errorf("%d %s: %s…", code, reason, strings.ToValidUTF8(message[:maxMessage], ""))
	default:
		return fmt.Errorf("%d %s: %s", code, reason, message)
	}
}

// Denied reports whether the API server refuses to act on just this object: admission does, or a
// rule of the API server. A missing permission or a webhook that cannot be called is no such
// refusal.
func (r *Answer) Denied() bool {
	switch {
	case r.Err == nil || r.Code <= 0 || strings.Contains(r.Err.Error(), prefixFailing):
		return false
	case r.Origin == FromAdmission:
		return true
	case r.Code == http.StatusUnauthorized || r.Outcome != Refused:
		return false
	default:
		return !r.Unpermitted()
	}
}

// Unpermitted reports whether the authorizer of the API server refused the request: User "a" cannot
// delete resource "b" …
func (r *Answer) Unpermitted() bool {
	return r.Code == http.StatusForbidden && r.Origin == FromResource && r.Err != nil && strings.Contains(r.Err.Error(), `" cannot `)
}
