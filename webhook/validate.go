package webhook

import (
	"context"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// validate asks the rules about a new or changed object.
func (w *Webhooks) validate(ctx context.Context, request *request, _ time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	scope, err := w.scopes.ScopeOf(ctx, request.facts, request.creating() && bare(request.facts))
	if err != nil {
		return unreadable(request.facts, err)
	}
	scope.Creating = request.creating()
	effective := policy.Resolve(request.facts, scope)
	return w.decide(request, scope, &effective)
}

// validateNamespace asks the rules about the annotations of a namespace. It is in nobody's scope but its own.
func (w *Webhooks) validateNamespace(_ context.Context, request *request, _ time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	return w.decide(request, &policy.Scope{}, nil)
}

func (w *Webhooks) decide(request *request, scope *policy.Scope, effective *policy.Effective) answer {
	operation := rules.Update
	if request.creating() {
		operation = rules.Create
	}
	decision := rules.Review(&rules.Request{
		Operation: operation,
		User:      request.user,
		Object:    request.object,
		Old:       request.old,
		Facts:     request.facts,
		OldFacts:  request.oldFacts,
		Scope:     scope,
		Effective: effective,
		Options:   w.options,
	})
	return decided(decision, request.user.IsPerson())
}
