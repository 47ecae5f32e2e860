package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/action"
)

// Delete is the API server's. It enforces the preconditions it is given, and holds whatever it
// accepts to S1 and S2.
func (w *world) Delete(_ context.Context, r Request) Response {
	w.deletes++
	if f, t := w.racing, w.things[r.Name]; f != nil && t != nil {
		w.racing = nil
		f(t)
	}
	var f *fault
	if len(w.faults) > 0 {
		f = &w.faults[0]
		w.faults = w.faults[1:]
		if !f.carriedOut {
			return f.response()
		}
	}
	resp := w.carryOut(r)
	w.date()
	if f != nil {
		return f.response()
	}
	return resp
}

func (f *fault) response() Response {
	if f.code == 0 {
		return Response{Err: errors.New("connection reset by peer")}
	}
	out := Response{Code: f.code, RetryAfter: f.retryAfter, Message: "fault"}
	if f.webhook {
		out.Origin, out.Reason, out.ObjectMissing = action.FromAdmission, f.reason(), f.code == 404
	} else if f.code == 429 {
		out.Origin = action.FromServer
	}
	return out
}

func (w *world) carryOut(r Request) Response {
	t := w.things[r.Name]
	if t == nil {
		return Response{Code: 404, Reason: metav1.StatusReasonNotFound, ObjectMissing: true}
	}
	if r.UID != "" && r.UID != t.uid || r.ResourceVersion != "" && r.ResourceVersion != strconv.FormatUint(t.rv, 10) {
		return Response{Code: 409, Reason: metav1.StatusReasonConflict}
	}
	if r.DryRun {
		return Response{Code: 200}
	}
	if b := w.around.seen; b != noBrake && w.around.brake != noBrake { // live reads may show that it is over already
		w.fatal("%s was deleted although its namespace says %d, which has been noticed", t.name, b)
	}
	if w.around.held && r.Trigger != "label" {
		w.fatal("%s was deleted while its kind is on hold", t.name)
	}
	if !t.deleting.IsZero() {
		w.fatal("%s is being deleted already, and a DELETE was sent with its newest resourceVersion", t.name)
	}
	at, due := w.expiry(t)
	if r.Trigger == "label" {
		at, due = t.label, !t.label.IsZero()
	}
	grain := time.Duration(0)
	if w.skewed {
		grain = time.Second + time.Second/100 // the Date header's, and what clocks may drift between two of them
	}
	switch {
	case r.UID != t.uid:
		w.fatal("S2: DELETE of %s carries UID %q, the object has %q", t.name, r.UID, t.uid)
	case !due:
		w.fatal("S1: %s was deleted and has no expiry", t.name)
	case w.server.Add(grain).Before(at):
		w.fatal("S1: %s was deleted at %s, %s before its expiry", t.name, w.server, at.Sub(w.server))
	}
	w.accepted[t.uid]++
	if w.accepted[t.uid] > 1 {
		w.fatal("%s was deleted twice", t.name)
	}
	if t.finalizer {
		t.deleting = w.server
		w.changed(t)
		return Response{Code: 200}
	}
	w.erase(t)
	return Response{Code: 200}
}
