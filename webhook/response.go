package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/rules"
)

// outcome is the outcome of a request, as metrics and the audit log write it.
type outcome string

const (
	outcomeAllowed   outcome = "allowed"
	outcomeDefaulted outcome = "defaulted"
	outcomeDenied    outcome = "denied"
	// outcomeThrottled is denied without a review: there was no time or no memory for it.
	outcomeThrottled outcome = "throttled"
	// outcomeInvalid is what cannot be read, and outcomeError what was not decided.
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

// untouched allows a request that does not concern Curfew.
func untouched() admission.Response { return admission.Allowed("") }

// patched allows a request, with a change if there is one. The mutating webhook sends no warnings:
// the API server would pass them on even if validation denies.
func patched(patch []jsonpatch.Operation, source string) admission.Response {
	out, outcome := admission.Patched("", patch...), outcomeAllowed
	if len(patch) > 0 {
		outcome = outcomeDefaulted
	}
	out.AuditAnnotations = audit(outcome, nil, source)
	return out
}

// decided turns a decision into allowed with warnings, or denied with reasons. Its last line leads
// to the help on the rules; kubectl prints the same warning once, whatever the number of objects.
func decided(decision *rules.Decision, toPerson bool) admission.Response {
	out, outcome := untouched(), outcomeAllowed
	if denials := decision.Denials(); len(denials) > 0 {
		see := "; " + decision.Help()
		out, outcome = admission.Denied(oneLine(decision.Reason(), maxReason-len(see))+see), outcomeDenied
		out.Result.Details = &metav1.StatusDetails{Causes: causes(denials)}
		if !slices.ContainsFunc(denials, func(denial rules.Finding) bool { return !denial.Retry }) {
			later(&out)
		}
	} else if len(decision.Defaults) > 0 && !decision.Defaults[0].DryRun {
		outcome = outcomeDefaulted
	}
	warnings := decision.Warnings(toPerson)
	for _, warning := range warnings[:min(len(warnings), maxFindings)] {
		out.Warnings = append(out.Warnings, oneLine(warning, maxWarning))
	}
	if help := decision.Help(); help != "" && toPerson && out.Allowed {
		out.Warnings = append(out.Warnings, oneLine("curfew: "+help, maxWarning))
	}
	out.AuditAnnotations = audit(outcome, decision.Rules(), decision.Source)
	return out
}

// later makes a denial one that the author may try again.
func later(denial *admission.Response) {
	denial.Result.Code, denial.Result.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	if denial.Result.Details == nil {
		denial.Result.Details = &metav1.StatusDetails{}
	}
	denial.Result.Details.RetryAfterSeconds = retryAfter
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
		helpBinding: {unboundPod().Result.Message},
		helpTime:    {unanswered(noAccess, context.DeadlineExceeded).Result.Message},
		helpSize:    {throttled().Result.Message, tooLarge().Result.Message, tooDense().Result.Message, unread(errUnread).Result.Message},
	}
}

// withHelp ends a denial with the command that explains it.
func withHelp(message, name string) string { return message + "; " + rules.SeeHelp + name }

// unboundPod denies a Binding that does not show that its author knows the Pod. The API server
// keeps the UID in a subresource only.
func unboundPod() admission.Response {
	return denied(outcomeDenied, "metadata.uid: is absent, and the Binding changes Curfew's keys of its Pod: "+
		"set it to the UID of the Pod and use subresource pods/binding, or leave out the labels and annotations", helpBinding)
}

// denied is a denial that no rule makes, with the command that explains it.
func denied(outcome outcome, message, help string) admission.Response {
	out := admission.Denied(oneLine(withHelp(message, help), maxReason))
	out.AuditAnnotations = audit(outcome, nil, "")
	return out
}

// throttled denies a review for which there was no memory or no time.
func throttled() admission.Response {
	out := denied(outcomeThrottled, "curfew has no memory or no time to review this object right now: try again in a second", helpSize)
	later(&out)
	return out
}

func tooLarge() admission.Response {
	return tooMuch(fmt.Sprintf("the review of this object has more than %d bytes, so that curfew cannot review it: use a smaller one", maxReview))
}

func tooDense() admission.Response {
	return tooMuch("this object is larger than curfew has memory to review: use a smaller one, or give curfew's webhook more memory")
}

func tooMuch(message string) admission.Response {
	out := denied(outcomeThrottled, message, helpSize)
	out.Result.Code, out.Result.Reason = http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge
	return out
}

// unread denies an object whose review could not be read, such as one that is nested too deeply.
func unread(err error) admission.Response {
	out := denied(outcomeInvalid, "curfew cannot read the review of this object: "+quote.ShortenTo(err.Error(), maxCause), helpSize)
	out.Result.Code, out.Result.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	return out
}

// failed is an error inside Curfew, about which the failure policy decides (see [Webhooks.guarded]).
// The message is for users, the error for the log.
func (w *Webhooks) failed(review *admission.Request, message string, err error) admission.Response {
	w.log.Error(err, "request could not be reviewed", "operation", review.Operation, "kind", kindOf(review).String(),
		"object", klog.KRef(review.Namespace, review.Name), "requestID", review.UID)
	return admission.Errored(http.StatusInternalServerError, errors.New(oneLine(message, maxReason)))
}

// invalid is a request without what its operation needs. No API server sends one.
func invalid(err error) admission.Response {
	return admission.Errored(http.StatusBadRequest, errors.New(oneLine(err.Error(), maxReason)))
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
	text = quote.OneLine(text)
	if len(text) <= limit {
		return text
	}
	const rest = "..."
	return strings.ToValidUTF8(text[:limit-len(rest)], "") + rest
}

// unanswered denies a request whose author's permissions could not be found out in time.
func unanswered(message string, why error) admission.Response {
	out := denied(outcomeThrottled, message+", try again in a second: "+quote.ShortenTo(why.Error(), maxCause), helpTime)
	later(&out)
	return out
}

// noAccess is the usual reason.
const noAccess = "curfew could not find out whether you may delete this"

const (
	// maxCause bounds the text in a denial that says why there was no answer.
	maxCause = 256
	// retryAfter is sent with a denial that may be tried again, in seconds.
	retryAfter = 1
)

func (w *Webhooks) unreadable(request *request, err error) admission.Response {
	return w.failed(request.review, fmt.Sprintf("curfew could not read the Namespace or the policies that apply to %s %q",
		request.facts.Profile.Kind.Kind, request.facts.Name), err)
}
