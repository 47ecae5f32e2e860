package webhook

import (
	"context"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// validate asks the rules about a new or changed object.
func (w *Webhooks) validate(ctx context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	scope, err := w.scopes.ScopeOf(ctx, request.facts, request.object, request.creating() && bare(request.facts))
	if err != nil {
		return unreadable(request.facts, err)
	}
	scope.Creating = request.creating()
	effective := policy.Resolve(request.facts, scope)
	return w.decide(ctx, request, scope, &effective, now)
}

// validateNamespace asks the rules about the annotations of a namespace. It is in nobody's scope but its own.
func (w *Webhooks) validateNamespace(ctx context.Context, request *request, now time.Time) answer {
	if request.facts.Deleting {
		return untouched()
	}
	return w.decide(ctx, request, &policy.Scope{}, nil, now)
}

func (w *Webhooks) decide(ctx context.Context, request *request, scope *policy.Scope, effective *policy.Effective, now time.Time) answer {
	operation := rules.Update
	if request.creating() {
		operation = rules.Create
	}
	review := &rules.Request{
		Operation: operation,
		User:      request.user,
		Object:    request.object,
		Old:       request.old,
		Facts:     request.facts,
		OldFacts:  request.oldFacts,
		Scope:     scope,
		Effective: effective,
		Options:   w.options,
		Now:       now,
	}
	access, err := w.access(ctx, request, review)
	if err != nil {
		return failed("curfew could not find out whether you may delete this", err)
	}
	review.Access = access
	decision := rules.Review(review)
	return decided(decision, request.user.IsPerson())
}
