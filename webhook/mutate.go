package webhook

import (
	"context"
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
)

// mutate fills in defaults of a new object, and gives a Pod that a PodTally counts its finalizer.
// On UPDATE it corrects the stamp of a changed default, and records that a TTL label is removed. It
// keeps the stamp of a runtime on both.
func (w *Webhooks) mutate(ctx context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	since := w.stampRuntime(ctx, request, now)
	if !request.creating() {
		keys := []string{policy.LabelTTL}
		if w.RuleOptions().KyvernoLabel {
			keys = append(keys, policy.LabelKyvernoTTL)
		}
		return w.restamp(request, append(since, policy.StampRemovedLabel(request.oldFacts, request.facts, keys...)...))
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
	assignments, effective := policy.FillIn(request.facts, scope, now)
	source := ""
	for _, value := range []policy.Value{effective.Failed, effective.Succeeded} {
		if value.Set {
			source = value.Source.String()
		}
	}
	assignments = append(assignments, held...)
	return w.assigned(request, append(assignments, since...), source)
}

// restamp makes the object the source of a default that is changed.
func (w *Webhooks) restamp(request *request, since []policy.Assignment) answer {
	assignments := policy.Restamp(request.oldFacts, request.facts)
	if len(assignments) == 0 {
		if len(since) == 0 {
			return untouched()
		}
		return w.assigned(request, since, "")
	}
	out := w.assigned(request, append(assignments, since...), "")
	if out.err == nil {
		out.outcome = outcomeAllowed
		out.response.AuditAnnotations = audit(outcomeAllowed, nil, string(policy.LevelObject))
	}
	return out
}

// assigned answers with the patch for some assignments. A patch that does not apply is not sent:
// the API server would turn it into a 500 whatever the failure policy.
func (w *Webhooks) assigned(request *request, assignments []policy.Assignment, source string) answer {
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
	return failed(fmt.Sprintf("curfew could not read what surrounds %s %q", facts.Profile.Kind.Kind, facts.Name), err)
}
