package engine

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Origin says which part of the API server wrote an answer. The code alone does not: an admission webhook chooses the code,
// the reason and the Retry-After of its denial.
type Origin uint8

const (
	// FromResource: the code that serves the resource, or its storage.
	FromResource Origin = iota
	// FromServer: the answer is no Status. It comes from a filter that ran before the resource was looked at (API Priority
	// and Fairness, the limit on requests in flight, shutdown), or from a proxy in front of the API server.
	FromServer
	// FromAdmission: an admission webhook or policy denied the request, or a webhook could not be called. Nothing in such an
	// answer is evidence about the object, its kind or the API server.
	FromAdmission
)

// The API server prefixes the message of every webhook that denies, and of every webhook that it fails to call
// (k8s.io/apiserver, pkg/admission/plugin/webhook/errors and pkg/util/webhook). A webhook cannot leave the prefix out. The
// message of a ValidatingAdmissionPolicy, which may be a 401, names the policy after the name of the object.
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

// gone reports whether an answer says that the object does not exist.
func (r *Response) gone() bool {
	return r.Code == http.StatusNotFound && r.ObjectMissing && r.Origin != FromAdmission
}

// conflict reports whether an answer says that the preconditions do not hold.
func (r *Response) conflict() bool {
	return r.Code == http.StatusConflict && r.Origin != FromAdmission
}
