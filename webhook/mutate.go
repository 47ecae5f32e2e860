package webhook

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
)

// mutate fills in defaults of a new object, and gives a Pod that a PodTally counts its finalizer.
// On UPDATE it corrects the stamp of a changed default, fills in again what is removed, and records
// that a TTL label is removed. On both it keeps the stamp of a runtime.
func (w *Webhooks) mutate(ctx context.Context, request *request, now time.Time) admission.Response {
	if request.facts.Deleting {
		return untouched()
	}
	since := w.stampRuntime(ctx, request, now)
	if !request.creating() {
		keys := []string{wellknown.LabelTTL}
		if w.RuleOptions().KyvernoLabel {
			keys = append(keys, wellknown.LabelKyvernoTTL)
		}
		return w.restamp(ctx, request, append(since, resolution.StampRemovedLabel(request.oldFacts, request.facts, keys...)...))
	}
	facts, object, taken, err := w.unfilled(ctx, request, now)
	if err != nil {
		return w.unreadable(request, err)
	}
	scope, err := w.scopeOf(ctx, platform.Whole(facts, object), bare(facts))
	if err != nil {
		return w.unreadable(request, err)
	}
	scope.Creating = true
	held, tallied := w.hold(request.facts)
	scope.Tallied = tallied
	assignments, effective := resolution.FillIn(facts, scope, now)
	source := ""
	for _, value := range []resolution.Value{effective.Failed, effective.Succeeded} {
		if value.Set {
			source = value.Source.String()
		}
	}
	assignments = append(resolution.Replace(taken, assignments), held...)
	return w.assigned(request, append(assignments, since...), source)
}

// restamp makes the object the source of a default that is changed, and fills in again what is
// removed.
func (w *Webhooks) restamp(ctx context.Context, request *request, since []resolution.Assignment) admission.Response {
	updated, old := *request.facts, request.oldFacts
	if request.review.SubResource != "" { // The API server takes the spec of the old object, after this.
		updated.NativeTTL, updated.NativeSucceeded, updated.NativeFailed, updated.NativeDeadline =
			old.NativeTTL, old.NativeSucceeded, old.NativeFailed, old.NativeDeadline
	}
	restamped, facts := resolution.Restamp(old, &updated)
	if resolution.Drops(old, facts) {
		scope, err := w.scopeOf(ctx, platform.Whole(facts, request.object), false)
		if err != nil {
			return w.unreadable(request, err)
		}
		scope.Creating, scope.Tallied = true, tally.Held(facts)
		if filled := resolution.Refill(restamped, old, facts, scope); len(filled) > 0 {
			return w.assigned(request, append(filled, since...), "")
		}
	}
	switch {
	case len(restamped) > 0:
		out := w.assigned(request, append(restamped, since...), "")
		if out.AuditAnnotations != nil { // not dropped
			out.AuditAnnotations = audit(outcomeAllowed, nil, string(lifetime.LevelObject))
		}
		return out
	case len(since) > 0:
		return w.assigned(request, since, "")
	default:
		return untouched()
	}
}

// assigned answers with the patch for some assignments. A patch that does not apply is not sent:
// the API server would turn it into a 500 whatever the failure policy.
func (w *Webhooks) assigned(request *request, assignments []resolution.Assignment, source string) admission.Response {
	patch, err := patchFor(request.object, assignments)
	if err != nil {
		w.metrics.dropped.Inc()
		_ = w.failed(request.review, "", fmt.Errorf("patch dropped: %w", err)) // for the log
		return untouched()
	}
	return patched(patch, source)
}

// patchFor returns the smallest JSON Patch that makes the assignments, or nil if there is nothing
// to change. It is known to apply to the object as it was sent, since each operation is made for the
// decoded one, which it changes: FuzzReview compares that with the API server's library.
func patchFor(object map[string]any, assignments []resolution.Assignment) ([]jsonpatch.Operation, error) {
	var patch []jsonpatch.Operation
	created := map[string]bool{} // parents that the patch adds. Their members are part of the same operation, which has the same map.
	for _, assignment := range assignments {
		path := assignment.Path
		if len(path) == 0 || slices.Contains(path, "*") {
			return nil, fmt.Errorf("%q leads to no single field", path.String())
		}
		last := len(path) - 1
		parent, inCreated := object, false
		for i, name := range path[:last] {
			parentPath := path[:i+1].Pointer()
			if parent[name] == nil && assignment.Value != nil {
				added := map[string]any{}
				if parent[name] = added; !inCreated {
					patch = append(patch, jsonpatch.NewOperation("add", parentPath, added))
					created[parentPath] = true
				}
			}
			next, ok := parent[name].(map[string]any)
			if !ok && parent[name] != nil {
				return nil, fmt.Errorf("%s is %T and not an object, so that %s cannot be set", parentPath, parent[name], path)
			}
			parent, inCreated = next, inCreated || created[parentPath] // Nil where there is nothing to remove.
		}
		have, present := parent[path[last]]
		operation := "add"
		switch {
		case assignment.Value == nil && !present, assignment.Value != nil && reflect.DeepEqual(have, assignment.Value):
			continue
		case assignment.Value == nil:
			operation = "remove"
			delete(parent, path[last])
		default:
			if present {
				operation = "replace"
			}
			parent[path[last]] = assignment.Value
		}
		if !inCreated {
			patch = append(patch, jsonpatch.NewOperation(operation, path.Pointer(), assignment.Value))
		}
	}
	return patch, nil
}
