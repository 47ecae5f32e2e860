package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// guarded serves an endpoint as an [admission.Webhook] whose errors are no denials (S8). The API server
// treats an AdmissionReview with allowed=false under a 200 as a rejection, whatever its code
// (k8s.io/apiserver, plugin/webhook/{mutating,validating}/dispatcher.go). Only if the call fails
// does it ask its failure policy, so an error has the HTTP status of one.
func (w *Webhooks) guarded(name string, answer answer) http.Handler {
	hook := &admission.Webhook{Handler: w.counted(name, answer), LogConstructor: quiet}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		out := &guard{ResponseWriter: rw}
		hook.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), guardKey{}, out)))
		if out.status == 0 { // No handler was asked: the library could not read the review.
			w.load.refuse(rw, r, name, errUnread)
		}
	})
}

// quiet is the library's logger: anyone who reaches the port could fill the log. [Webhooks.failed]
// writes errors.
func quiet(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() }

// guardKey is the key under which a context has the guard of its request.
type guardKey struct{}

// guard writes an answer with its HTTP status, and drops one that no handler gave.
type guard struct {
	http.ResponseWriter
	status int
}

// Write implements [http.ResponseWriter].
func (g *guard) Write(p []byte) (int, error) {
	if g.status == 0 {
		return len(p), nil
	}
	g.Header().Set("Content-Type", "application/json")
	g.WriteHeader(g.status)
	return g.ResponseWriter.Write(p)
}

// errUnread is why a body is no review.
var errUnread = errors.New("it is not a complete AdmissionReview of admission.k8s.io/v1 with a request.uid, or it is nested too deeply")

// counted recovers, counts and measures.
func (w *Webhooks) counted(name string, answer answer) admission.HandlerFunc {
	return func(ctx context.Context, review admission.Request) (out admission.Response) {
		timer := prometheus.NewTimer(w.metrics.latency.WithLabelValues(name))
		guard, _ := ctx.Value(guardKey{}).(*guard)
		guard.status = http.StatusInternalServerError // of an answer that the library makes of a panic below
		defer func() {
			if reason := recover(); reason != nil {
				out = w.failed(&review, "curfew failed while it reviewed the request", fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
			}
			if until, ok := ctx.Deadline(); ok && isError(&out) && !time.Now().Before(until) {
				out = throttled() // Late for want of memory: to fail would let the object pass (S9).
			}
			if err := out.Complete(review); err != nil {
				out = w.failed(&review, "curfew failed while it wrote its answer", err)
			}
			out.Patches = nil // They are in the answer.
			timer.ObserveDuration()
			kind := w.kindLabel(&review)
			w.metrics.reviews.WithLabelValues(name, operationLabel(review.Operation), kind.Group, kind.Kind, string(outcomeOf(&out))).Inc()
			if guard.status = http.StatusOK; isError(&out) {
				guard.status = int(out.Result.Code)
			}
		}()
		if review.UID == "" { // The API server would ignore a denial.
			return invalid(errUnread)
		}
		return w.handle(ctx, &review, answer)
	}
}

// isError reports whether an answer is none of the denials, which have audit annotations.
func isError(out *admission.Response) bool { return !out.Allowed && out.AuditAnnotations == nil }

// outcomeOf is the outcome of an answer: its audit annotation, or what its code says.
func outcomeOf(out *admission.Response) outcome {
	switch {
	case out.AuditAnnotations != nil:
		return outcome(out.AuditAnnotations[auditDecision])
	case out.Allowed:
		return outcomeAllowed
	case out.Result.Code == http.StatusBadRequest:
		return outcomeInvalid
	default:
		return outcomeError
	}
}

// operationLabel bounds the metric, as kindLabel does.
func operationLabel(operation admissionv1.Operation) string {
	switch operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		return string(operation)
	}
	return "other"
}
