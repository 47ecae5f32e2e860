package cleanup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/references"
	"curfew.dev/curfew/policy/v1alpha1"
)

// minReferencedAge is how old an object has to be before Curfew looks for what uses it: many are
// created before the objects that refer to them.
const minReferencedAge = time.Hour

// decidedBy are the resources that lookups which read the whole cluster decide about.
var decidedBy = map[string][]schema.GroupResource{
	expression.LookupReferenced: slices.SortedFunc(maps.Keys(references.Kinds), func(a, b schema.GroupResource) int {
		return strings.Compare(a.String(), b.String())
	}),
	expression.LookupSelects: {{Resource: "services"}},
	// Not VolumeAttachments: a Node that is gone may come back and write to its volumes.
	expression.LookupDangling: {
		{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, {Group: "networking.k8s.io", Resource: "ingresses"},
	},
	expression.LookupInstances: {{Resource: "namespaces"}, {Resource: "nodes"}},
}

// reported are further resources that lookups decide about in reports. Policies may not delete them
// by a lookup.
var reported = map[string][]schema.GroupResource{
	expression.LookupReferenced: slices.Collect(maps.Keys(references.Roles)),
	expression.LookupSelects:    slices.Collect(maps.Keys(references.Selecting)),
	expression.LookupDangling:   slices.Collect(maps.Keys(references.Referring)),
	expression.LookupInstances:  {{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}},
}

// CompileReport compiles what a report shows. It is a policy that no controller runs, so that its
// lookups may be about any kind.
func CompileReport(compiler *expression.Compiler, object *v1alpha1.ClusterCleanupPolicy) (*Policy, field.ErrorList) {
	out, _ := compile(compiler, &object.ObjectMeta, &object.Spec.CleanupSpec, types.NamespacedName{})
	out.Report = true
	_, errs := compiler.Cleanup(&object.Spec.CleanupSpec)
	return out, errs
}

// byProfile reports whether a lookup is about a custom kind if its KindProfile has references.
func byProfile(lookup string, resource schema.GroupResource) bool {
	return lookup == expression.LookupDangling && resource.Group != wildcard && resource.Resource != wildcard && !references.BuiltIn(resource.Group)
}

// decides reports whether a lookup decides about the object.
func (o *Candidate) decides(lookup string) bool {
	return slices.Contains(decidedBy[lookup], o.Resource) || o.report && slices.Contains(reported[lookup], o.Resource) ||
		byProfile(lookup, o.Resource) && len(o.Facts.Profile.References) > 0
}

// ReadsCluster returns the first of the policy's lookups that reads all kinds of the cluster; ""
// if none does.
func (p *Policy) ReadsCluster() string {
	for _, lookup := range p.Expressions.Lookups {
		if decidedBy[lookup] != nil {
			return lookup
		}
	}
	return ""
}

// used reports whether the object itself shows that it is used, for a lookup that reads the whole
// cluster. Where it does not, other objects decide.
func (o *Candidate) used(lookup string) (bool, error) {
	facts := o.Facts
	switch {
	case decidedBy[lookup] == nil:
		return false, nil
	case !o.decides(lookup):
		return false, fmt.Errorf("%s: is for %s, not for a %s", lookup, these(lookup), facts.Profile.Kind.Kind)
	case facts.Created.IsZero() || o.Now.Sub(facts.Created) < minReferencedAge:
		return false, fmt.Errorf("%s: too new to judge: created less than an hour ago", lookup)
	case lookup == expression.LookupDangling:
		return false, nil
	}
	owned, err := o.answer(expression.LookupOwned)
	shown := lookup == expression.LookupReferenced || facts.Profile.Kind.Kind == "Service"
	found := shown && references.FoundBy(facts.Name, facts.Labels, facts.Annotations) != ""
	return owned || found, err
}

// these are the resources that a lookup decides about.
func these(lookup string) string {
	var out []string
	for _, resource := range decidedBy[lookup] {
		out = append(out, resource.String())
	}
	if lookup == expression.LookupDangling {
		out = append(out, "custom kinds whose KindProfile has references")
	}
	return strings.Join(out, ", ")
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
	for i := range p.match.rules {
		element := path.Child("matchConstraints", "resourceRules").Index(i)
		for _, group := range p.match.rules[i].APIGroups {
			for _, resource := range p.match.rules[i].Resources {
				named := schema.GroupResource{Group: group, Resource: resource}
				if guarded(group, resource) {
					errs = append(errs, field.Invalid(element, named.String(), guardedMessage))
					continue
				}
				for _, lookup := range p.Expressions.Lookups {
					if decidedBy[lookup] != nil && !slices.Contains(decidedBy[lookup], named) && !byProfile(lookup, named) {
						errs = append(errs, field.Invalid(element, named.String(), lookup+" is for "+these(lookup)+": name these alone"))
					}
				}
			}
		}
	}
	return errs
}

// Ignored are the kinds that the lookups do not list.
func (p *Policy) Ignored() []v1alpha1.GroupKind {
	if p.Spec.Lookups == nil {
		return nil
	}
	return p.Spec.Lookups.IgnoreKinds
}

// checkIgnored returns an error for each kind that lookups have to list.
func (p *Policy) checkIgnored(path *field.Path) (errs field.ErrorList) {
	for i, kind := range p.Ignored() {
		element, named := path.Child("lookups", "ignoreKinds").Index(i), schema.GroupKind{Group: kind.Group, Kind: kind.Kind}
		switch {
		case kind.Group == wildcard || kind.Kind == wildcard:
			errs = append(errs, field.Invalid(element, named.String(), "name one group and one kind"))
		case references.BuiltIn(kind.Group) && named != schema.GroupKind{Kind: "Secret"}:
			errs = append(errs, field.Invalid(element, named.String(),
				"objects of Kubernetes' own kinds show whether others are used: let the account list them"))
		case slices.Contains(p.Expressions.Lookups, expression.LookupInstances):
			errs = append(errs, field.Invalid(element, named.String(),
				expression.LookupInstances+" ignores no kind, since a Namespace is deleted with all that it has: let the account list it"))
		}
	}
	return errs
}
