package webhook

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/wellknown"
)

// mutator fills in defaults, and keeps Curfew's stamps.
type mutator struct{ *Webhooks }

// Handle implements [admission.Handler].
func (m mutator) Handle(ctx context.Context, review admission.Request) admission.Response {
	return m.handle(ctx, &review, m.mutate)
}

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
	var draft draft
	for _, assignment := range assignments {
		if err := draft.assign(object, assignment); err != nil {
			return nil, err
		}
	}
	return draft.operations, nil
}

// draft collects operations.
type draft struct {
	operations []jsonpatch.Operation
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

func (d *draft) add(op string, path fieldpath.FieldPath, value any) {
	d.operations = append(d.operations, jsonpatch.NewOperation(op, path.Pointer(), value))
}

func (d *draft) creates(path []string) bool {
	return slices.ContainsFunc(d.created, func(created []string) bool { return slices.Equal(created, path) })
}
