package rules

import (
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// All lists the rules in the order of their findings.
func All() []Rule {
	return []Rule{
		namespaceValues,
		podTemplateTTL,
		podRestartPolicy,
		forbiddenField,
		trainJobsJobSet,
		immutableDeadline,
		readableValue,
		bounds,
		nativeActsFirst,
		sourceStamp,
		noEffect,
		runtimeTTL,
		runtimeBackfill,
		deadlineTwice,
		ttlLabel,
		expiredLabel,
		refreshedAt,
		ownKind,
		replacedChild,
		labelAsAnnotation,
		annotationAsLabel,
		unknownKey,
		protection,
		shortTTL,
		hookJob,
		gitOps,
		resourcesStay,
		unusableDefault,
		unusableRuntime,
		userMayDelete,
		controllerMayDelete,
	}
}

// Review runs all rules on a request and returns the decision, softened where the namespace does
// not enforce.
func Review(request *Request) *Decision {
	decision := &Decision{}
	request.attest()
	if request.Facts.Deleting {
		return decision
	}
	rules, updated := All(), request.Operation == Update && request.OldFacts != nil
	found := request.check(rules, request.subjects(request.Facts, request.Object))
	if updated {
		found = added(found, request.check(rules, request.subjects(request.OldFacts, request.Old)))
	}
	request.found = found
	for _, rule := range rules {
		if request.rule = rule.Name; updated && rule.Transition != nil {
			rule.Transition(request)
		}
	}
	for _, rule := range rules {
		if request.rule = rule.Name; rule.Review != nil {
			rule.Review(request)
		}
	}
	decision.Findings = request.found
	if request.Effective != nil {
		decision.Source = source(request)
		creating := request.Operation == Create
		if creating || request.OldFacts != nil && resolution.Marked(request.OldFacts, request.Facts) { // Or filled in again.
			decision.Defaults = resolution.Defaulted(request.Facts, request.Scope, request.Now)
		}
		if creating {
			decision.ByRuntime = byRuntime(request)
		}
	}
	if !request.Facts.IsNamespace() {
		decision.Soften(request.Scope.Mode())
	}
	return decision
}

// source is the source of the effective TTL. On CREATE the validator sees what the mutating webhook
// filled in, with its stamp.
func source(request *Request) string {
	for _, value := range []resolution.Value{request.Effective.Succeeded, request.Effective.Failed} {
		switch {
		case !value.Set:
		case value.Source.Level == lifetime.LevelObject && request.Operation == Create:
			return filledInBy(request.Facts).String()
		default:
			return value.Source.String()
		}
	}
	return ""
}
