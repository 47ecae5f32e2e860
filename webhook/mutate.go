package webhook

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/klog/v2"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// mutate fills in defaults of a new object, and gives a Pod that a PodTally counts its finalizer.
// On UPDATE it corrects the stamp of a changed default, and records that a TTL label is removed. On
// both it keeps the stamp of a runtime.
func (w *Webhooks) mutate(ctx context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	since := w.stampRuntime(ctx, request, now)
	if !request.creating() {
		keys := []string{wellknown.LabelTTL}
		if w.RuleOptions().KyvernoLabel {
			keys = append(keys, wellknown.LabelKyvernoTTL)
		}
		return w.restamp(request, append(since, resolution.StampRemovedLabel(request.oldFacts, request.facts, keys...)...))
	}
	scope, err := w.scopeOf(ctx, request.facts, request.object, bare(request.facts))
	if err != nil {
		return unreadable(request.facts, err)
	}
	scope.Creating = true
	// The API server asks again where another webhook changed the object in between.
	if filled, err := w.scopeBeforeDefaults(ctx, request, scope); err != nil {
		return unreadable(request.facts, err)
	} else if filled != nil {
		scope = filled
	}
	held, tallied := w.hold(request.facts)
	scope.Tallied = tallied
	assignments, effective := resolution.FillIn(request.facts, scope, now)
	source := ""
	for _, value := range []resolution.Value{effective.Failed, effective.Succeeded} {
		if value.Set {
			source = value.Source.String()
		}
	}
	assignments = append(assignments, held...)
	return w.assigned(request, append(assignments, since...), source)
}

// restamp makes the object the source of a default that is changed.
func (w *Webhooks) restamp(request *request, since []resolution.Assignment) answer {
	assignments := resolution.Restamp(request.oldFacts, request.facts)
	if len(assignments) == 0 {
		if len(since) == 0 {
			return untouched()
		}
		return w.assigned(request, since, "")
	}
	out := w.assigned(request, append(assignments, since...), "")
	if out.err == nil {
		out.outcome = outcomeAllowed
		out.response.AuditAnnotations = audit(outcomeAllowed, nil, string(lifetime.LevelObject))
	}
	return out
}

// assigned answers with the patch for some assignments. A patch that does not apply is not sent:
// the API server would turn it into a 500 whatever the failure policy.
func (w *Webhooks) assigned(request *request, assignments []resolution.Assignment, source string) answer {
	patch, err := patchFor(&request.review.Object, assignments)
	if err != nil {
		w.metrics.dropped.Inc()
		out := untouched()
		out.err = fmt.Errorf("patch dropped: %w", err)
		return out
	}
	return patched(patch, source)
}

func unreadable(facts *policy.Facts, err error) answer {
	return failed(fmt.Sprintf("curfew could not read the Namespace or the policies that apply to %s %q", facts.Profile.Kind.Kind,
		facts.Name), err)
}

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

// stampTime is the API server's time, or zero if it is not known.
func (w *Webhooks) stampTime(ctx context.Context, request *request, now time.Time) time.Time {
	if w.serverTime == nil {
		return now
	}
	at, err := w.serverTime(ctx)
	if err != nil {
		w.log.Info("left a stamp to the controller", "kind", request.kind.Kind, "object",
			klog.KRef(request.facts.Namespace, request.facts.Name), "reason", err.Error())
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
	delete(out, wellknown.AnnotationDefaultSince)
	if since, ok := request.oldFacts.Annotations[wellknown.AnnotationDefaultSince]; ok {
		if out == nil {
			out = map[string]string{}
		}
		out[wellknown.AnnotationDefaultSince] = since
	}
	return out
}

// keep assigns a value, or removes the key if the value is empty.
func keep(where, key, value string) resolution.Assignment {
	assignment := resolution.Assignment{Path: fieldpath.FieldPath{"metadata", where, key}}
	if value != "" {
		assignment.Value = value
	}
	return assignment
}
