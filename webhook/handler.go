package webhook

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy/v1alpha1"
)

// reviewFunc answers one decoded request at the instant now.
type reviewFunc func(ctx context.Context, request *request, now time.Time) answer

// handler is the frame around a review: it decodes, reads the clock, recovers, counts, and logs what went wrong.
type handler struct {
	webhooks *Webhooks
	// name of the endpoint, as metrics have it.
	name   string
	review reviewFunc
}

// Handle implements [admission.Handler].
func (h *handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := h.webhooks.clock.Now()
	answer := h.answer(ctx, &req, start)
	if answer.err != nil {
		h.webhooks.log.Error(answer.err, "request could not be reviewed", "webhook", h.name, "operation", req.Operation,
			"kind", req.Kind.String(), "object", klog.KRef(req.Namespace, req.Name), "requestID", req.UID)
	}
	setStatus(ctx, answer.status)
	h.webhooks.metrics.reviewed(h.name, h.kindLabel(&req), string(req.Operation), answer.outcome, h.webhooks.clock.Now().Sub(start))
	return answer.response
}

// answer turns a panic into an error of Curfew's own: it must neither deny nor take the server down (S8).
func (h *handler) answer(ctx context.Context, req *admission.Request, now time.Time) (out answer) {
	defer func() {
		if reason := recover(); reason != nil {
			out = failed("curfew failed while it reviewed the request", fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
		}
	}()
	request, err := h.webhooks.decode(req)
	if err != nil {
		return invalid(err)
	}
	if !request.reviewed() {
		return untouched()
	}
	return h.review(ctx, request, now)
}

// kindLabel bounds the metric: whoever reaches the port can make up kinds.
func (h *handler) kindLabel(req *admission.Request) string {
	kind := kindOf(req)
	if _, ok := h.webhooks.Profiles()[kind.GroupKind()]; ok || kind.GroupKind() == namespaceKind.GroupKind() || kind.Group == v1alpha1.GroupVersion.Group && h.webhooks.compiles(kind.Kind) {
		return kind.Kind
	}
	return "other"
}
