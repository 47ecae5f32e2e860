package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/rules"
)

// outcome is the outcome of a request, as metrics and the audit log write it.
type outcome string

const (
	outcomeAllowed   outcome = "allowed"
	outcomeDefaulted outcome = "defaulted"
	outcomeDenied    outcome = "denied"
	// outcomeThrottled is denied without a review: there was no memory for it.
	outcomeThrottled outcome = "throttled"
	// outcomeInvalid and outcomeError are no decisions: nothing was reviewed.
	outcomeInvalid outcome = "invalid"
	outcomeError   outcome = "error"
)

// Keys of audit annotations. The API server puts the webhook's name and a slash before them and
// drops those that have a slash of their own.
const (
	auditDecision = "decision"
	auditRules    = "rules"
	auditSource   = "source"
)

// answer is a response with its HTTP status, its outcome for metrics and its error for the log.
// Only the constructors below make one.
type answer struct {
	response admissionv1.AdmissionResponse
	outcome  outcome
	// status is the HTTP status; anything but 200 leaves the request to the failure policy.
	status int
	// err is for the log alone.
	err error
}

// untouched allows a request that does not concern Curfew.
func untouched() answer {
	return answer{response: admissionv1.AdmissionResponse{Allowed: true}, outcome: outcomeAllowed, status: http.StatusOK}
}

// patched allows a request, with a change if there is one. The mutating webhook sends no warnings:
// the API server would pass them on even if validation denies.
func patched(patch []byte, source string) answer {
	out := untouched()
	if len(patch) > 0 {
		out.outcome = outcomeDefaulted
		out.response.Patch = patch
		out.response.PatchType = new(admissionv1.PatchType)
		*out.response.PatchType = admissionv1.PatchTypeJSONPatch
	}
	out.response.AuditAnnotations = audit(out.outcome, nil, source)
	return out
}

// decided turns a decision into allowed with warnings, or denied with reasons. Its last line leads
// to the help on the rules; kubectl prints the same warning once, whatever the number of objects.
func decided(decision *rules.Decision, toPerson bool) answer {
	out := untouched()
	if denials := decision.Denials(); len(denials) > 0 {
		out.outcome = outcomeDenied
		out.response = admissionv1.AdmissionResponse{Result: failure(http.StatusForbidden, metav1.StatusReasonForbidden, "")}
		see := "; " + decision.Help()
		out.response.Result.Message = oneLine(decision.Reason(), maxReason-len(see)) + see
		if !slices.ContainsFunc(denials, func(denial rules.Finding) bool { return !denial.Retry }) {
			out.response.Result.Code, out.response.Result.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		}
		out.response.Result.Details = &metav1.StatusDetails{Causes: causes(denials)}
		if out.response.Result.Code == http.StatusTooManyRequests {
			out.response.Result.Details.RetryAfterSeconds = retryAfter
		}
	} else if len(decision.Defaults) > 0 && !decision.Defaults[0].DryRun {
		out.outcome = outcomeDefaulted
	}
	warnings := decision.Warnings(toPerson)
	for _, warning := range warnings[:min(len(warnings), maxFindings)] {
		out.response.Warnings = append(out.response.Warnings, oneLine(warning, maxWarning))
	}
	if help := decision.Help(); help != "" && toPerson && out.response.Allowed {
		out.response.Warnings = append(out.response.Warnings, oneLine("curfew: "+help, maxWarning))
	}
	out.response.AuditAnnotations = audit(out.outcome, decision.Rules(), decision.Source)
	return out
}

// Denials that no rule makes, by the names of their help.
const (
	helpBinding = "pod-binding"
	helpTime    = "review-time"
	helpSize    = "review-size"
)

// Refusals are examples of the denials that no rule makes, by the names of their help. Package docs
// compares them with its pages.
func Refusals() map[string][]string {
	return map[string][]string{
		helpBinding: {unboundPod().response.Result.Message},
		helpTime:    {unanswered(noAccess, context.DeadlineExceeded).response.Result.Message},
		helpSize: {throttled().response.Result.Message, tooLarge(DefaultMaxReview).response.Result.Message,
			tooDense().response.Result.Message},
	}
}

// withHelp ends a denial with the command that explains it.
func withHelp(message, name string) string { return message + "; " + rules.SeeHelp + name }

// unboundPod denies a Binding that does not show that its author knows the Pod. The API server
// keeps the UID in a subresource only.
func unboundPod() answer {
	message := withHelp("metadata.uid: is absent, and the Binding changes Curfew's keys of its Pod: "+
		"set it to the UID of the Pod and use subresource pods/binding, or leave out the labels and annotations", helpBinding)
	response := admissionv1.AdmissionResponse{Result: failure(http.StatusForbidden, metav1.StatusReasonForbidden, message)}
	response.AuditAnnotations = audit(outcomeDenied, nil, "")
	return answer{response: response, outcome: outcomeDenied, status: http.StatusOK}
}

// failed is an error inside Curfew, about which the failure policy decides. The message is for
// users, the error for the log.
func failed(message string, err error) answer {
	response := admissionv1.AdmissionResponse{Result: failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, message)}
	return answer{response: response, outcome: outcomeError, status: http.StatusInternalServerError, err: err}
}

// invalid is a request that is not a valid AdmissionReview. No API server sends one.
func invalid(err error) answer {
	out := refused(http.StatusBadRequest, err)
	out.err = err
	return out
}

// refused is a request that cannot be read as an AdmissionReview.
func refused(status int, err error) answer {
	reason := metav1.StatusReasonBadRequest
	switch status {
	case http.StatusMethodNotAllowed:
		reason = metav1.StatusReasonMethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		reason = metav1.StatusReasonRequestEntityTooLarge
	case http.StatusUnsupportedMediaType:
		reason = metav1.StatusReasonUnsupportedMediaType
	}
	// #nosec G115 -- an HTTP status.
	response := admissionv1.AdmissionResponse{Result: failure(int32(status), reason, err.Error())}
	return answer{response: response, outcome: outcomeInvalid, status: status}
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: oneLine(message, maxReason)}
}

func causes(denials []rules.Finding) []metav1.StatusCause {
	out := make([]metav1.StatusCause, 0, min(len(denials), maxFindings))
	for _, finding := range denials[:min(len(denials), maxFindings)] {
		out = append(out, metav1.StatusCause{
			Type:    metav1.CauseTypeFieldValueInvalid,
			Message: oneLine(finding.Message, maxReason),
			Field:   finding.Field,
		})
	}
	return out
}

func audit(outcome outcome, names []string, source string) map[string]string {
	out := map[string]string{auditDecision: string(outcome)}
	if len(names) > 0 {
		out[auditRules] = strings.Join(names, ",")
	}
	if source != "" {
		out[auditSource] = source
	}
	return out
}

// maxWarning is where the API server cuts a warning once all of them are long; maxReason keeps an
// annotation of 256 kB out of an error message.
const (
	maxWarning = 256
	maxReason  = 2048
	// maxFindings bounds the warnings or causes of an answer: an object can break a rule in thousands
	// of fields.
	maxFindings = 100
)

// oneLine makes a text valid in a Warning header: the API server silently drops one with control
// characters.
func oneLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	const rest = "..."
	cut := limit - len(rest)
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + rest
}

// unanswered denies a request whose author's permissions could not be found out in time.
func unanswered(message string, why error) answer {
	message += ", try again in a second: " + quote.ShortenTo(why.Error(), maxCause)
	out := shed(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, message, helpTime)
	out.response.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return out
}

// noAccess is the usual reason.
const noAccess = "curfew could not find out whether you may delete this"

// maxCause bounds the text in a denial that says why there was no answer.
const maxCause = 256

func unreadable(facts *policy.Facts, err error) answer {
	return failed(fmt.Sprintf("curfew could not read the Namespace or the policies that apply to %s %q", facts.Profile.Kind.Kind,
		facts.Name), err)
}
