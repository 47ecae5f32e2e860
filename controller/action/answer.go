package action

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/confine"
)

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

// Failure is the Result of an answer that is an error, or of none (code 0). A 404 is Refused: only
// the action can report whether it is about the object. So is a request that was never sent: it
// has certainly not been carried out, and proves nothing about the API server.
func Failure(code int, origin Origin, err error) Result {
	if code == 0 && errors.Is(err, confine.ErrOutside) {
		code = http.StatusBadRequest
	}
	out := Result{Outcome: Failed, Code: code, Origin: origin, Err: err}
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

// FailureOf is the Result of an error of client-go. ok is false if no answer of the API server
// caused the error.
func FailureOf(err error) (out Result, ok bool) {
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
func (r *Result) Denied() bool {
	switch {
	case r.Err == nil || r.Code <= 0 || strings.Contains(r.Err.Error(), prefixFailing):
		return false
	case r.Origin == FromAdmission:
		return true
	case r.Code == http.StatusUnauthorized || r.Outcome != Refused:
		return false
	default: // User "a" cannot delete resource "b" …
		return r.Code != http.StatusForbidden || !strings.Contains(r.Err.Error(), `" cannot `)
	}
}
