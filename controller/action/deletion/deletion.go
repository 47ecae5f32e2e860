package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/pause"
)

// Sender sends one DELETE. [Client] does over HTTP.
type Sender interface {
	Delete(ctx context.Context, r Request) Response
}

// Request is one DELETE.
type Request struct {
	Kind      *action.Type
	Trigger   string
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

// Response is the answer to a Request. Err without Code: no answer came, and the DELETE may or may
// not have been carried out.
type Response struct {
	// Code is the HTTP status, 0 if there was no answer.
	Code int
	// Reason and Message of the Status in the body of an error.
	Reason  metav1.StatusReason
	Message string
	// Origin is which part of the API server wrote an error.
	Origin action.Origin
	// ObjectMissing distinguishes, for 404, "no such object" from "no such resource".
	ObjectMissing bool
	// RetryAfter is the wait that the server asked for, 0 if it asked for none.
	RetryAfter time.Duration
	// Err is set when no answer was received.
	Err error
}

// Action deletes the object that is due.
type Action struct {
	sender  Sender
	clock   clock.PassiveClock
	uidOnly *prometheus.CounterVec
}

// New makes an Action. The clock measures latencies, nil means the real one; a nil registerer gets
// no metrics.
func New(sender Sender, measure clock.PassiveClock, registerer prometheus.Registerer) (*Action, error) {
	measure = cmp.Or[clock.PassiveClock](measure, clock.RealClock{})
	a := &Action{sender: sender, clock: measure, uidOnly: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "curfew_deletions_uid_only_total",
		Help: "Deletions with the UID as only precondition, right after a live read, because the API does not honour the resourceVersion.",
	}, []string{"group", "kind"})}
	if registerer != nil {
		if err := registerer.Register(a.uidOnly); err != nil {
			return nil, fmt.Errorf("registering metrics of deletions: %w", err)
		}
	}
	return a, nil
}

// Do implements action.Action.
func (a *Action) Do(ctx context.Context, due action.Due) action.Result {
	uidOnly := due.UIDOnly || refusesVersion(&due)
	r := Request{
		Kind: &due.Type, Trigger: due.Trigger, Namespace: due.Namespace, Name: due.Name,
		UID: due.UID, ResourceVersion: due.ResourceVersion,
		Propagation: propagation(&due), DryRun: due.DryRun, Expiry: due.Expiry,
	}
	if uidOnly {
		r.ResourceVersion = ""
	}
	began := a.clock.Now()
	resp := a.sender.Delete(ctx, r)
	out := resp.result()
	out.Latency = max(1, a.clock.Since(began))
	switch {
	case out.Outcome == action.Done && uidOnly:
		a.uidOnly.WithLabelValues(due.Resource.Group, due.Kind).Inc()
	case out.Outcome == action.Conflict:
		out.VersionConflict = !uidOnly && resp.Reason == metav1.StatusReasonConflict
	}
	if out.Outcome == action.Done && !due.DryRun {
		out.Deleted = 1
	}
	return out
}

// refusesVersion reports whether the API cannot honour a resourceVersion precondition for the state
// that was just read live: it answers with a conflict although the version is current. The UID is
// then the only precondition (DESIGN section 4.2).
//
// An API server that honours the precondition does that in one case only: Background removes the
// finalizers of the garbage collector, and if no other finalizer is left the API server compares
// the precondition with an empty resourceVersion (k8s.io/apiserver, registry.Store.Delete). An
// aggregated API may behave in any way, so two such answers are needed there.
func refusesVersion(due *action.Due) bool {
	switch {
	case due.Disproved == 0:
		return false
	case due.Aggregated && due.Disproved >= 2:
		return true
	default:
		return len(due.Finalizers) > 0 && propagation(due) == metav1.DeletePropagationBackground &&
			!slices.ContainsFunc(due.Finalizers, func(f string) bool {
				return f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents
			})
	}
}

// propagation returns the policy of the DELETE.
func propagation(due *action.Due) metav1.DeletionPropagation {
	return cmp.Or(due.Propagation, due.Type.Propagation, metav1.DeletePropagationBackground)
}

func (r *Response) result() action.Result {
	if r.Code >= 200 && r.Code < 300 {
		return action.Result{Outcome: action.Done}
	}
	err := r.Err
	if errors.Is(err, pause.ErrHeld) {
		return action.Result{Outcome: action.Held, Err: pause.ErrHeld}
	}
	if err == nil {
		err = action.Describe(r.Code, r.Reason, r.Message)
	}
	out := action.Failure(r.Code, r.Origin, err)
	out.After = r.RetryAfter
	if r.gone() {
		out.Outcome = action.Gone
	}
	return out
}

// gone reports whether an answer says that the object does not exist. A webhook may answer 404,
// too.
func (r *Response) gone() bool {
	return r.Code == http.StatusNotFound && r.ObjectMissing && r.Origin != action.FromAdmission
}
