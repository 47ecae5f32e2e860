package webhook

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/webhook/wire"
)

// mutate fills in defaults of a new object, and gives a Pod that a PodTally counts its finalizer.
// On UPDATE it corrects the stamp of a changed default, fills in again what is removed, and records
// that a TTL label is removed. On both it keeps the stamp of a runtime.
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
		return w.restamp(ctx, request, append(since, resolution.StampRemovedLabel(request.oldFacts, request.facts, keys...)...))
	}
	facts, object, taken, err := w.unfilled(ctx, request, now)
	if err != nil {
		return unreadable(request.facts, err)
	}
	scope, err := w.scopeOf(ctx, platform.Whole(facts, object), bare(facts))
	if err != nil {
		return unreadable(request.facts, err)
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
func (w *Webhooks) restamp(ctx context.Context, request *request, since []resolution.Assignment) answer {
	updated, old := *request.facts, request.oldFacts
	if request.review.SubResource != "" { // The API server takes the spec of the old object, after this.
		updated.NativeTTL, updated.NativeSucceeded, updated.NativeFailed, updated.NativeDeadline =
			old.NativeTTL, old.NativeSucceeded, old.NativeFailed, old.NativeDeadline
	}
	restamped, facts := resolution.Restamp(old, &updated)
	if resolution.Drops(old, facts) {
		scope, err := w.scopeOf(ctx, platform.Whole(facts, request.object), false)
		if err != nil {
			return unreadable(request.facts, err)
		}
		scope.Creating, scope.Tallied = true, tally.Held(facts)
		if filled := resolution.Refill(restamped, old, facts, scope); len(filled) > 0 {
			return w.assigned(request, append(filled, since...), "")
		}
	}
	switch {
	case len(restamped) > 0:
		out := w.assigned(request, append(restamped, since...), "")
		if out.err == nil {
			out.outcome = outcomeAllowed
			out.response.AuditAnnotations = audit(outcomeAllowed, nil, string(lifetime.LevelObject))
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

// patchFor returns the smallest JSON Patch that makes the assignments, or nil if there is nothing
// to change. It is checked against the raw object, so that it is known to apply. It changes the
// object's fields.
func patchFor(object *wire.Object, assignments []resolution.Assignment) ([]byte, error) {
	var draft draft
	for _, assignment := range assignments {
		if err := draft.assign(object.Fields, assignment); err != nil {
			return nil, err
		}
	}
	if len(draft.operations) == 0 {
		return nil, nil
	}
	if err := object.Applies(draft.operations); err != nil {
		return nil, err
	}
	return wire.AppendPatch(nil, draft.operations)
}

// draft collects operations.
type draft struct {
	operations []wire.Operation
	// created are the paths of parents that the draft adds. Their members are part of the same
	// operation, which has the same map.
	created [][]string
}

func (d *draft) assign(object map[string]any, assignment resolution.Assignment) error {
	path := assignment.Path
	if len(path) == 0 || slices.Contains(path, "*") {
		return fmt.Errorf("%q leads to no single field", path.String())
	}
	parent, inCreated := object, false
	for i, name := range path[:len(path)-1] {
		value := parent[name]
		if value == nil {
			if assignment.Value == nil {
				return nil
			}
			added := map[string]any{}
			parent[name] = added
			if !inCreated {
				d.created = append(d.created, path[:i+1])
				d.add("add", path[:i+1], added)
				inCreated = true
			}
			parent = added
			continue
		}
		next, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %T and not an object, so that %s cannot be set", path[:i+1].Pointer(), value, path)
		}
		parent, inCreated = next, inCreated || d.creates(path[:i+1])
	}
	name := path[len(path)-1]
	have, present := parent[name]
	switch {
	case assignment.Value == nil && !present, present && reflect.DeepEqual(have, assignment.Value) && have != nil:
		return nil
	case assignment.Value == nil:
		delete(parent, name)
		if !inCreated {
			d.add("remove", path, nil)
		}
		return nil
	}
	parent[name] = assignment.Value
	switch {
	case inCreated:
	case present:
		d.add("replace", path, assignment.Value)
	default:
		d.add("add", path, assignment.Value)
	}
	return nil
}

func (d *draft) add(op string, path []string, value any) {
	d.operations = append(d.operations, wire.Operation{Op: op, Path: path, Value: value})
}

func (d *draft) creates(path []string) bool {
	return slices.ContainsFunc(d.created, func(created []string) bool { return slices.Equal(created, path) })
}
