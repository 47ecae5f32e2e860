package cleanup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Verdict is the decision of a policy on one object.
type Verdict uint8

// The verdicts.
const (
	// NoMatch: the policy does not concern the object.
	NoMatch Verdict = iota
	// Skip: the policy matches, and the object is kept for a reason.
	Skip
	// Delete the object.
	Delete
)

// Reasons to keep an object that matches.
const (
	SkipEvaluation  = "EvaluationFailed"
	SkipLookup      = "LookupFailed"
	SkipNamespace   = "NamespaceUnknown"
	SkipDryRun      = "NamespaceDryRun"
	SkipSystem      = "ProtectedNamespace"
	SkipProtected   = "Protected"
	SkipTerminating = "Terminating"
	SkipOwned       = "Owned"
	SkipCurfew      = "PartOfCurfew"
	SkipCopy        = "MultiKueueCopy"
	SkipRerun       = "OwnerRunsItAgain"
	SkipUncounted   = "NotAccountedFor"
	SkipEssential   = "Essential"
	SkipNewest      = "KeepNewest"
	SkipLimit       = "OverLimit"
	SkipConsecutive = "ConsecutiveRuns"
	SkipUnused      = "MinUnused"
	SkipNoUID       = "NoUID"
)

// Decision is a verdict and its reason.
type Decision struct {
	Verdict Verdict
	// Reason in one word, and Message, for Skip.
	Reason, Message string
	// Group and Time are the values that keepNewest groups and sorts by. They are set for Delete, and
	// for NoMatch where the object ranks without a match (from: All).
	Group string
	Time  time.Time
	// Until is when minUnused ends, in the run that follows. It is set for [SkipUnused].
	Until time.Time
}

// Candidate is an object that the policy judges.
type Candidate struct {
	Facts    *policy.Facts
	Resource schema.GroupResource
	// JSON is the object as decoded JSON: the metadata alone unless the policy needs more.
	JSON map[string]any
	// Namespace of the object; nil if it has none, or if it is not known.
	Namespace *resolution.NamespacePolicy
	// Lookup answers one of expression.Lookups that depend on other objects.
	Lookup func(name string) (bool, error)
	// System reports that nothing in the namespace is deleted: kube-system and the like.
	System bool
	// NoMultiKueue is as in [resolution.Scope].
	NoMultiKueue bool
	Now          time.Time

	// report: the policy is a report.
	report bool
	// unknown is why a lookup that was asked has no answer; nil if all have one.
	unknown error
}

// Judge decides about one object.
func (p *Policy) Judge(ctx context.Context, o *Candidate) Decision {
	o.unknown, o.report = nil, p.Report
	if selected, err := p.selects(o); err != nil {
		return Decision{Verdict: Skip, Reason: SkipNamespace, Message: err.Error()}
	} else if !selected {
		return Decision{}
	}
	matched, err := p.Expressions.Matches(ctx, o.variables())
	switch {
	case matched && o.unknown != nil: // An operator such as || may have passed over it.
		return o.undecided()
	case err != nil:
		return Decision{Verdict: Skip, Reason: SkipEvaluation, Message: err.Error()}
	case matched:
		return p.rank(ctx, o)
	case p.Spec.KeepNewest == nil || p.Spec.KeepNewest.From != v1alpha1.KeepNewestFromAll:
		return Decision{}
	}
	// What another reason keeps, or cannot be ranked, is not among the N newest: others stay for it.
	ranked := p.rank(ctx, o)
	return Decision{Group: ranked.Group, Time: ranked.Time}
}

// rank decides about an object as if the conditions matched it.
func (p *Policy) rank(ctx context.Context, o *Candidate) Decision {
	if reason, message := p.keeps(o); reason != "" {
		return Decision{Verdict: Skip, Reason: reason, Message: message}
	}
	out := Decision{Verdict: Delete}
	if p.Spec.KeepNewest == nil {
		return out
	}
	var err error
	variables := o.variables()
	if out.Group, err = p.Expressions.Group(ctx, variables); err == nil {
		out.Time, err = p.Expressions.Time(ctx, variables, o.Facts.Created)
	}
	switch {
	case o.unknown != nil:
		return o.undecided()
	case err != nil:
		return Decision{Verdict: Skip, Reason: SkipEvaluation, Message: err.Error()}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q", o.Resource, o.Facts.Namespace, out.Group))
	out.Group = string(sum[:16]) // An expression may return any length.
	return out
}

// selects reports whether the policy selects the object, before its conditions.
func (p *Policy) selects(o *Candidate) (bool, error) {
	kind := o.Facts.Profile.Kind.Kind
	if p.Namespace != "" && o.Facts.Namespace != p.Namespace || !p.match.rulesMatch(o.Resource, kind, o.Facts.Name) ||
		!p.match.labels.Matches(labels.Set(o.Facts.Labels)) {
		return false, nil
	}
	if o.Facts.Namespace != "" && o.Namespace == nil {
		return false, fmt.Errorf("namespace %q is not known", o.Facts.Namespace)
	}
	return p.match.inNamespace(o.Namespace) && !p.excludes(o), nil
}

func (p *Policy) excludes(o *Candidate) bool {
	e := p.exclude
	return e != nil && (len(e.rules) == 0 || e.rulesMatch(o.Resource, o.Facts.Profile.Kind.Kind, o.Facts.Name)) &&
		e.inNamespace(o.Namespace) && e.labels.Matches(labels.Set(o.Facts.Labels))
}

// inNamespace reports whether the namespaceSelector matches. One with a requirement matches no
// cluster-scoped object.
func (s *selection) inNamespace(namespace *resolution.NamespacePolicy) bool {
	return s.namespaces.Empty() || namespace != nil && s.namespaces.Matches(labels.Set(namespace.Labels))
}

// rulesMatch reports whether a rule names the resource and the object.
func (s *selection) rulesMatch(resource schema.GroupResource, kind, name string) bool {
	for i := range s.rules {
		rule := &s.rules[i]
		if !names(rule, resource, kind, s.excludes) {
			continue
		}
		if matches, _ := matchesName(rule, name); matches {
			return true
		}
	}
	return false
}

// spellsOut reports whether a rule names this very object, without a wildcard.
func (s *selection) spellsOut(resource schema.GroupResource, name string) bool {
	for i := range s.rules {
		rule := &s.rules[i]
		if _, exact := matchesName(rule, name); exact && explicit(rule, resource) {
			return true
		}
	}
	return false
}

// keeps returns why an object that matches is kept all the same.
func (p *Policy) keeps(o *Candidate) (reason, message string) {
	facts := o.Facts
	switch {
	case facts.Deleting:
		return SkipTerminating, "is being deleted already"
	case facts.Protected():
		return SkipProtected, "is protected by annotation " + wellknown.AnnotationProtect
	case facts.CurfewsOwn():
		return SkipCurfew, "is part of Curfew"
	case facts.MultiKueueCopy() && !o.NoMultiKueue:
		return SkipCopy, "is MultiKueue's copy, which the manager cluster would dispatch again"
	case o.System:
		return SkipSystem, fmt.Sprintf("namespace %q is protected", facts.Namespace)
	case o.Namespace != nil && o.Namespace.Mode == resolution.ModeDryRun:
		return SkipDryRun, fmt.Sprintf("namespace %q is in dry-run", facts.Namespace)
	case facts.EssentialObject() && !p.match.spellsOut(o.Resource, facts.Name):
		return SkipEssential, "Kubernetes needs it: name it in resourceNames to delete it"
	case facts.NeverDeleted():
		return SkipEssential, "Kubernetes never deletes it"
	case facts.Owner != nil && !p.Spec.IncludeOwned:
		return SkipOwned, fmt.Sprintf("belongs to %s %s: see includeOwned", facts.Owner.Kind, facts.Owner.Name)
	case facts.RerunBy() != "":
		return SkipRerun, facts.RerunBy() + " would run it again"
	case facts.IsPod() && facts.Uncounted():
		return SkipUncounted, "its Job has not accounted for it yet"
	}
	return "", ""
}
