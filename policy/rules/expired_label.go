package rules

import (
	"fmt"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// expiredLabel denies a TTL label that is expired when it is set: a restored object, or an old one
// that is given a short label, would be deleted at once. It warns where the object is kept anyway,
// in a template, and with --expired-labels=warn.
var expiredLabel = Rule{
	Name:   "expired-label",
	Fields: labelFields,
	// A label can expire, or its object lose its protection, without a request that sets it. So
	// labels are compared, not findings.
	Review: func(r *Request) {
		if r.byController() {
			return // A policy's backfill labels objects older than its default.
		}
		before := map[string][2]string{} // by path
		if r.OldFacts != nil {
			for _, old := range r.subjects(r.OldFacts, r.Old) {
				key, text, _ := r.Options.ttlLabel(old.Facts)
				before[old.Prefix] = [2]string{key, text}
			}
		}
		for _, subject := range r.subjects(r.Facts, r.Object) {
			key, text, ok := r.Options.ttlLabel(subject.Facts)
			if ok && before[subject.Prefix] != [2]string{key, text} {
				subject.expiredLabel(key, text)
			}
		}
	},
}

func (s *Subject) expiredLabel(key, text string) {
	if s.Inherited || s.OwnKind() || s.Now.IsZero() {
		return
	}
	label, err := lifetime.ParseLabel(key, text)
	if err != nil || !s.expired(label) || s.Scope.CheckLabel(label, s.createdOrNow(), resolution.EnforcedBounds) != nil {
		return // Rule ttl-label reports a label outside the bounds, which keeps the object.
	}
	expiry := s.expiryOf(label)
	atCreation := s.Operation == Create || !expiry.After(s.createdOrNow())
	when := fmt.Sprintf("%s expired at %s", label, expiry.UTC().Format(time.RFC3339))
	severity, effect := s.effectOfExpired(key, atCreation)
	s.add(severity, s.path(policy.LabelPath(key)), text, when+effect)
}

// effectOfExpired is the effect of an expired label, and whether admission denies it. The
// controller asks the same judge.
func (s *Subject) effectOfExpired(key string, atCreation bool) (Severity, string) {
	kind, verdict := s.Profile.Kind.Kind, s.labelVerdict(key)
	switch brake := s.brake(); {
	case s.IsTemplate():
		return Warn, ": each " + kind + " created from this template would be expired from the start; use a later one"
	case brake != "":
		return Warn, ": Curfew would delete the " + kind + " at once, but " + brake + "; use a later one"
	case atCreation && s.Options.WarnExpiredLabels:
		return Warn, ", before the " + kind + " was created: Curfew keeps it; use a later one"
	case atCreation:
		return Deny, ", before the " + kind + " was created: use a later one"
	case verdict.Err != nil:
		return Warn, ": Curfew keeps the " + kind + ", as " + verdict.Reason + "; use a later one"
	case !s.Options.WarnExpiredLabels:
		return Deny, ": Curfew would delete the " + kind + " at once; use a later one, or run " + s.deleteCommands()
	case verdict.Action != policy.Delete:
		return Warn, ": Curfew keeps the " + kind + ", as it " + verdict.Reason + "; use a later one"
	case s.Access.Controller == No:
		return Warn, ": Curfew would delete the " + kind + " at once, but may not; use a later one"
	default:
		return Warn, ": Curfew deletes the " + kind + " at once; use a later one"
	}
}

// deleteCommands delete the object for its author: the first needs no plugin, the second has Curfew
// do it.
func (s *Subject) deleteCommands() string {
	object := strings.ToLower(s.Profile.Kind.Kind)
	if group := s.Profile.Kind.Group; group != "" {
		object += "." + group
	}
	object += "/" + s.Name
	if s.Namespace != "" {
		object += " -n " + s.Namespace
	}
	return fmt.Sprintf("%q or %q", "kubectl delete "+object, "kubectl curfew expire-now "+object)
}
