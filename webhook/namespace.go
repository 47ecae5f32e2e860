package webhook

import (
	"context"
	"maps"
	"time"

	"curfew.dev/curfew/policy"
)

// mutateNamespace keeps Curfew's own keys on a namespace in step with what its author wrote: the labels by which the API
// server selects, and since when the defaults hold.
func (w *Webhooks) mutateNamespace(_ context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	stamp := policy.StampNamespace(stampedBefore(request), now)
	return w.assigned(request, []policy.Assignment{
		keep("labels", policy.LabelInUse, stamp.InUse),
		keep("labels", policy.LabelPodsInUse, stamp.PodsInUse),
		keep("annotations", policy.AnnotationDefaultSince, stamp.Since),
	}, "")
}

// stampedBefore is the new annotations with the default-since that the namespace had before: the author has no say in it,
// since an earlier one would make defaults reach objects that are older than they are (S6).
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

// keep assigns a value, or removes the key where it is empty.
func keep(where, key, value string) policy.Assignment {
	assignment := policy.Assignment{Path: policy.FieldPath{"metadata", where, key}}
	if value != "" {
		assignment.Value = value
	}
	return assignment
}
