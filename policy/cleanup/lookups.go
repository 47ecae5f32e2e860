package cleanup

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/references"
)

// minReferencedAge is how old an object has to be before Curfew looks for references to it: many
// are created before the objects that refer to them.
const minReferencedAge = time.Hour

// referenced reports whether the object itself shows that it is used. Where it does not, other
// objects decide.
func (o *Candidate) referenced() (bool, error) {
	facts := o.Facts
	if facts.Created.IsZero() || o.Now.Sub(facts.Created) < minReferencedAge {
		return false, fmt.Errorf("%s: the object is less than an hour old: what refers to it may be created yet", expression.LookupReferenced)
	}
	owned, err := o.answer(expression.LookupOwned)
	return owned || references.FoundBy(facts.Name, facts.Labels, facts.Annotations) != "", err
}

// guardedMessage says why no lookup decides about a kind.
const guardedMessage = "no policy deletes this kind by a lookup, since that may grant or allow more: delete it by name or label"

// guarded reports whether no policy deletes a resource by a lookup: RBAC, webhook configurations,
// admission policies, NetworkPolicies, PodDisruptionBudgets and CustomResourceDefinitions. A rule
// may have a wildcard as its group.
func guarded(group, resource string) bool {
	switch resource {
	case "networkpolicies":
		return group == "networking.k8s.io" || group == wildcard
	case "poddisruptionbudgets":
		return group == "policy" || group == wildcard
	}
	return slices.Contains([]string{"rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"}, group)
}

// checkLookups returns an error for each rule that names a kind that the policy's lookups do not
// decide about.
func (p *Policy) checkLookups(path *field.Path) (errs field.ErrorList) {
	if len(p.Expressions.Lookups) == 0 {
		return nil
	}
	referenced := slices.Contains(p.Expressions.Lookups, expression.LookupReferenced)
	for i := range p.match.rules {
		at := path.Child("matchConstraints", "resourceRules").Index(i)
		for _, group := range p.match.rules[i].APIGroups {
			for _, resource := range p.match.rules[i].Resources {
				named := schema.GroupResource{Group: group, Resource: resource}.String()
				switch {
				case guarded(group, resource):
					errs = append(errs, field.Invalid(at, named, guardedMessage))
				case referenced && (group != "" || references.Kinds[resource] == ""):
					errs = append(errs, field.Invalid(at, named,
						expression.LookupReferenced+" is for configmaps, secrets and serviceaccounts of the core group: name these alone"))
				}
			}
		}
	}
	return errs
}
