package webhook

import (
	"context"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// mutateNamespace keeps Curfew's own keys on a namespace in step with its annotations: the labels
// by which the API server selects, and since when the defaults apply.
//
// It stamps by the API server's time. If that is unknown it does not guess: with a clock that is
// behind, defaults would apply to objects that are older than they are (S6). The controller adds
// missing stamps.
func (w *Webhooks) mutateNamespace(ctx context.Context, request *request, now time.Time) admission.Response {
	if request.facts.Deleting {
		return untouched()
	}
	annotations := stampedBefore(request)
	if resolution.DefaultsHash(annotations) != "" {
		now = w.stampTime(ctx, request, now)
	}
	stamp := resolution.StampNamespace(annotations, w.countsPods(request), now)
	return w.assigned(request, []resolution.Assignment{
		keep("labels", wellknown.LabelInUse, stamp.InUse),
		keep("labels", wellknown.LabelPodsInUse, stamp.PodsInUse),
		keep("annotations", wellknown.AnnotationDefaultSince, stamp.Since),
	}, "")
}

// countsPods reports whether a PodTally counts Pods of the namespace. Until that is known, the
// label stays as it was.
func (w *Webhooks) countsPods(request *request) bool {
	tallied, err := w.source.tallied(request.facts.Name)
	if err != nil && !request.creating() {
		_, tallied = request.oldFacts.Labels[wellknown.LabelPodsInUse]
	}
	return tallied
}

// stampedBefore returns the new annotations with the old default-since. The author cannot change
// it, because an earlier time would apply defaults to objects that are older than they are (S6).
func stampedBefore(request *request) map[string]string {
	if request.creating() {
		return request.facts.Annotations
	}
	out := map[string]string{}
	maps.Copy(out, request.facts.Annotations)
	delete(out, wellknown.AnnotationDefaultSince)
	if since, ok := request.oldFacts.Annotations[wellknown.AnnotationDefaultSince]; ok {
		out[wellknown.AnnotationDefaultSince] = since
	}
	return out
}

// validateNamespace asks the rules about the annotations and the TTL label of a namespace. The
// bounds of policies are outer bounds of its own, and policies that match Namespaces bound the
// label.
func (w *Webhooks) validateNamespace(ctx context.Context, request *request, now time.Time) admission.Response {
	if request.facts.Deleting {
		return untouched()
	}
	scope, err := w.scopeOf(ctx, platform.Whole(request.facts, request.object), false)
	if err != nil {
		return w.unreadable(request, err)
	}
	review := &rules.Request{Scope: scope, Outer: w.source.store.Snapshot().Bounding}
	return w.decide(ctx, request, review, now)
}
