package expire

import (
	"context"
	"errors"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/deletion"
)

// Delete is the API server's. It enforces the preconditions it is given, and whatever it accepts
// the invariants judge.
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
		out.Origin, out.Reason, out.ObjectMissing = deletion.FromAdmission, f.reason(), f.code == 404
	} else if f.code == 429 {
		out.Origin = deletion.FromServer
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
	if w.around.held && r.Trigger != "label" {
		w.fatal("%s was deleted while its kind is on hold", t.name)
	}
	w.judged(r, t)
	if t.finalizer {
		t.deleting = w.server
		w.changed(t)
		return Response{Code: 200}
	}
	w.erase(t)
	return Response{Code: 200}
}
