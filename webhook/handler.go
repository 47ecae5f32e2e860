package webhook

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/webhook/wire"
)

// reviewFunc answers one decoded request at the instant now.
type reviewFunc func(ctx context.Context, request *request, now time.Time) answer

// handler does what all endpoints share: it reads the clock, decodes, recovers, counts and logs
// errors.
type handler struct {
	webhooks *Webhooks
	// name of the endpoint in metrics.
	name   string
	review reviewFunc
}

// handle answers a review.
func (h *handler) handle(ctx context.Context, review *wire.Review) answer {
	start := h.webhooks.clock.Now()
	out := h.answer(ctx, review, start)
	out.response.UID = types.UID(review.UID)
	if out.err != nil {
		h.webhooks.log.Error(out.err, "request could not be reviewed", "webhook", h.name, "operation", review.Operation,
			"kind", kindOf(review).String(), "object", klog.KRef(review.Namespace, review.Name), "requestID", review.UID)
	}
	h.webhooks.metrics.reviewed(h.name, h.kindLabel(review), review.Operation, out.outcome, h.webhooks.clock.Now().Sub(start))
	return out
}

// answer turns a panic into an error, which neither denies the request nor ends the process (S8).
func (h *handler) answer(ctx context.Context, review *wire.Review, now time.Time) (out answer) {
	defer func() {
		if reason := recover(); reason != nil {
			out = failed("curfew failed while it reviewed the request", fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
		}
	}()
	if !h.webhooks.reaches(review) {
		return untouched()
	}
	ctx, end := h.webhooks.limited(ctx)
	defer end()
	request, err := h.webhooks.decode(ctx, review)
	if err != nil {
		return invalid(err)
	}
	if !request.reviewed() {
		return untouched()
	}
	return h.review(ctx, request, now)
}

// reaches reports whether a request is about one of the namespaces that the webhooks work in. The
// configuration of an administrator may send others.
func (w *Webhooks) reaches(review *wire.Review) bool {
	namespace := review.Namespace
	if kindOf(review).GroupKind() == namespaceKind.GroupKind() {
		namespace = review.Name
	}
	return len(w.only) == 0 || slices.Contains(w.only, namespace)
}

// otherKind counts reviews of all kinds that Curfew does not know.
var otherKind = schema.GroupKind{Kind: "other"}

// kindLabel bounds the metric: anyone who reaches the port can make up kinds.
func (h *handler) kindLabel(review *wire.Review) schema.GroupKind {
	kind := kindOf(review)
	if _, ok := h.webhooks.Profiles()[kind.GroupKind()]; ok || kind.GroupKind() == namespaceKind.GroupKind() || kind.Group == v1alpha1.GroupVersion.Group && h.webhooks.compiles(kind.Kind) {
		return kind.GroupKind()
	}
	return otherKind
}
