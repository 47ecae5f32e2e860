package webhook

import (
	"context"
	"maps"
	"time"

	"k8s.io/klog/v2"

	"curfew.dev/curfew/policy"
)

// mutateNamespace keeps Curfew's own keys on a namespace in step with its annotations: the labels
// by which the API server selects, and since when the defaults apply.
//
// It stamps by the API server's time. If that is unknown it does not guess: with a clock that is
// behind, defaults would apply to objects that are older than they are (S6). The controller adds
// missing stamps.
func (w *Webhooks) mutateNamespace(ctx context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	annotations := stampedBefore(request)
	if policy.DefaultsHash(annotations) != "" {
		now = w.stampTime(ctx, request, now)
	}
	stamp := policy.StampNamespace(annotations, w.countsPods(request), now)
	return w.assigned(request, []policy.Assignment{
		keep("labels", policy.LabelInUse, stamp.InUse),
		keep("labels", policy.LabelPodsInUse, stamp.PodsInUse),
		keep("annotations", policy.AnnotationDefaultSince, stamp.Since),
	}, "")
}

// countsPods reports whether a PodTally counts Pods of the namespace. Until that is known, the
// label stays as it was.
func (w *Webhooks) countsPods(request *request) bool {
	tallied, err := w.source.tallied(request.facts.Name)
	if err != nil && !request.creating() {
		_, tallied = request.oldFacts.Labels[policy.LabelPodsInUse]
	}
	return tallied
}

// stampTime is the API server's time, or zero if it is not known.
func (w *Webhooks) stampTime(ctx context.Context, request *request, now time.Time) time.Time {
	if w.serverTime == nil {
		return now
	}
	at, err := w.serverTime(ctx)
	if err != nil {
		w.log.Info("left a stamp to the controller", "kind", request.kind.Kind, "object", klog.KRef(request.facts.Namespace, request.facts.Name), "reason", err.Error())
		return time.Time{}
	}
	return at
}

// stampedBefore returns the new annotations with the old default-since. The author cannot change
// it, because an earlier time would apply defaults to objects that are older than they are (S6).
func stampedBefore(request *request) map[string]string {
	if request.creating() {
		return request.facts.Annotations
	}
	out := maps.Clone(request.facts.Annotations)
	delete(out, policy.AnnotationDefaultSince)
	if since, ok := request.oldFacts.Annotations[policy.AnnotationDefaultSince]; ok {
		if out == nil {
			out = map[string]string{}
		}
		out[policy.AnnotationDefaultSince] = since
	}
	return out
}

// keep assigns a value, or removes the key if the value is empty.
func keep(where, key, value string) policy.Assignment {
	assignment := policy.Assignment{Path: policy.FieldPath{"metadata", where, key}}
	if value != "" {
		assignment.Value = value
	}
	return assignment
}
