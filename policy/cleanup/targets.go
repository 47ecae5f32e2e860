package cleanup

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/references"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Resource is a resource that the API server serves.
type Resource struct {
	schema.GroupResource
	Kind       string
	Namespaced bool
	// Versions that are served, the preferred one first.
	Versions []string
	// Undeletable: it cannot be listed, read and deleted. No policy matches it.
	Undeletable bool
	// Listable are all versions that can be listed, the preferred one first. TokenReviews have none.
	Listable []string
}

// SilentGroups are API groups that do not answer. Discovery returns it beside the resources of the
// others: these can be used, and whatever depends on the silent groups is unknown.
type SilentGroups []string

// Error implements error.
func (g SilentGroups) Error() string { return "no answer from API groups " + strings.Join(g, ", ") }

// Names reports whether a rule of the policy names an API group, or all.
func (p *Policy) Names(group string) bool {
	return slices.ContainsFunc(p.match.rules, func(rule v1alpha1.ResourceRule) bool {
		return slices.Contains(rule.APIGroups, group) || slices.Contains(rule.APIGroups, wildcard)
	})
}

// Target is a resource that a policy lists.
type Target struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Name is the only name that the policy matches; empty if there may be others.
	Name string
}

// GroupVersionKind is the kind of the target's objects.
func (t *Target) GroupVersionKind() schema.GroupVersionKind {
	return t.GroupVersion().WithKind(t.Kind)
}

// wildcard matches any group or resource in a rule.
const wildcard = "*"

// Targets returns the served resources that the policy lists. A CleanupPolicy never lists
// cluster-scoped resources, and no policy lists Curfew's own.
func (p *Policy) Targets(served []Resource) []Target {
	var out []Target
	for i := range served {
		resource := &served[i]
		version, name, ok := p.match.target(resource)
		if !ok || resource.Undeletable || resource.Group == wellknown.Group || p.Namespace != "" && !resource.Namespaced {
			continue
		}
		out = append(out, Target{GroupVersionResource: resource.WithVersion(version), Kind: resource.Kind, Namespaced: resource.Namespaced, Name: name})
	}
	return out
}

// target reports whether a rule names the resource, in which version it is read, and its only name
// if all rules agree on one.
func (s *selection) target(resource *Resource) (version, name string, ok bool) {
	for i := range s.rules {
		rule := &s.rules[i]
		if !names(rule, resource.GroupResource, resource.Kind, s.excludes) {
			continue
		}
		read, served := versionOf(rule, resource.Versions)
		if !served {
			continue
		}
		only := onlyName(rule)
		if ok && only != name {
			only = ""
		}
		if !ok {
			version = read
		}
		name, ok = only, true
	}
	return version, name, ok
}

// versionOf is the version in which a rule reads a resource: the first served one that it names, or
// the preferred one.
func versionOf(rule *v1alpha1.ResourceRule, served []string) (string, bool) {
	for _, version := range served {
		if len(rule.APIVersions) == 0 || slices.Contains(rule.APIVersions, wildcard) || slices.Contains(rule.APIVersions, version) {
			return version, true
		}
	}
	return "", false
}

// names reports whether a rule names a resource. A wildcard matches nothing that a cluster depends
// on, unless it is one of an exclusion, which matches anything.
func names(rule *v1alpha1.ResourceRule, resource schema.GroupResource, kind string, anything bool) bool {
	if explicit(rule, resource) {
		return true
	}
	matches := (slices.Contains(rule.APIGroups, wildcard) || slices.Contains(rule.APIGroups, resource.Group)) &&
		(slices.Contains(rule.Resources, wildcard) || slices.Contains(rule.Resources, resource.Resource))
	return matches && (anything || !policy.EssentialKind(schema.GroupKind{Group: resource.Group, Kind: kind}))
}

// ServerSelector is the label selector that the API server applies to lists.
func (p *Policy) ServerSelector() labels.Selector { return p.match.labels }

// Namespaces returns the namespaces in which the policy lists objects: its own, or all that its
// namespaceSelector matches. all means that it lists the whole cluster.
func (p *Policy) Namespaces(known []*resolution.NamespacePolicy) (names []string, all bool) {
	if p.Namespace != "" {
		return []string{p.Namespace}, false
	}
	if p.match.namespaces.Empty() {
		return nil, true
	}
	for _, namespacePolicy := range known {
		if p.match.namespaces.Matches(labels.Set(namespacePolicy.Labels)) {
			names = append(names, namespacePolicy.Name)
		}
	}
	slices.Sort(names)
	return names, false
}

// onlyName is the one name that a rule matches; empty if it may match others.
func onlyName(rule *v1alpha1.ResourceRule) string {
	if len(rule.ResourceNames) != 1 || strings.ContainsAny(rule.ResourceNames[0], "*?") {
		return ""
	}
	return rule.ResourceNames[0]
}

// matchesName reports whether a rule matches an object's name, and whether it spells the name out.
func matchesName(rule *v1alpha1.ResourceRule, name string) (matches, exact bool) {
	if len(rule.ResourceNames) == 0 {
		return true, false
	}
	for _, pattern := range rule.ResourceNames {
		if pattern == name {
			return true, true
		}
		matches = matches || glob(pattern, name)
	}
	return matches, false
}

// glob matches a name with a pattern, in which * is any number of characters and ? is one. It takes
// at most length of pattern times length of name steps.
func glob(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0: // Let the last * take one more character.
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// volumeKinds are the kinds of the core group that lookups about volumes apply to.
const (
	claimKind  = "PersistentVolumeClaim"
	volumeKind = "PersistentVolume"
)

// fieldOf is the field of an object of a kind that a lookup reads; "" for none. Without it the
// answer is unknown: a list of metadata has no claimRef, and the volume may have one.
func fieldOf(lookup, kind string) string {
	switch {
	case lookup == expression.LookupBound:
		return "status"
	case lookup == expression.LookupDangling && strings.HasSuffix(kind, "RoleBinding"):
		return "roleRef"
	case lookup == expression.LookupDangling && strings.HasSuffix(kind, "WebhookConfiguration"):
		return "" // Without its list of webhooks, none of them dangles.
	case lookup == expression.LookupMounted && kind == volumeKind, lookup == expression.LookupSelects, lookup == expression.LookupDangling:
		return "spec"
	default:
		return ""
	}
}

// NeedsWhole reports whether the policy has to see more of the objects of a resource than their
// metadata. A report about many kinds needs that of few of them, and never of Secrets.
func (p *Policy) NeedsWhole(resource schema.GroupResource) bool {
	if p.Report {
		return references.Selecting[resource] != "" || references.Referring[resource] != ""
	}
	return p.NeedsObject()
}

// NeedsObject reports whether the policy has to see more of an object than its metadata.
func (p *Policy) NeedsObject() bool {
	return p.Expressions.NeedsObject || slices.ContainsFunc(p.Expressions.Lookups, func(lookup string) bool {
		return fieldOf(lookup, volumeKind) != ""
	})
}

func (o *Candidate) variables() *expression.Variables {
	return &expression.Variables{Object: o.JSON, NamespacePolicy: o.Namespace, Now: o.Now, Lookup: o.lookup}
}

// lookup answers a lookup, and notes if there is no answer. Lookups have three values: where one of
// them is unknown, the object is kept, whatever an expression makes of it (S6).
func (o *Candidate) lookup(name string) (bool, error) {
	answer, err := o.answer(name)
	if err != nil && o.unknown == nil {
		o.unknown = err
	}
	return answer, err
}

// undecided keeps an object because a lookup has no answer.
func (o *Candidate) undecided() Decision {
	return Decision{Verdict: Skip, Reason: SkipLookup, Message: o.unknown.Error()}
}

// answer answers the lookups that the object itself decides, and asks for the rest.
func (o *Candidate) answer(name string) (bool, error) {
	group, kind := o.Facts.Profile.Kind.Group, o.Facts.Profile.Kind.Kind
	volume := group == "" && (kind == claimKind || kind == volumeKind)
	switch {
	case !o.report && guarded(o.Resource.Group, o.Resource.Resource):
		return false, fmt.Errorf("%s: %s: %s", name, o.Resource, guardedMessage)
	case name == expression.LookupOwned:
		metadata, _ := o.JSON["metadata"].(map[string]any)
		owners, _ := metadata["ownerReferences"].([]any)
		return len(owners) > 0, nil
	case (name == expression.LookupMounted || name == expression.LookupBound) && !volume:
		return false, fmt.Errorf("%s: is for PersistentVolumes and PersistentVolumeClaims, not for a %s", name, kind)
	case name == expression.LookupService && !o.Facts.IsPod():
		return false, fmt.Errorf("%s: is for Pods, not for a %s", name, kind)
	}
	if used, err := o.used(name); used || err != nil {
		return used, err
	}
	if field := fieldOf(name, kind); field != "" {
		if _, shown := o.JSON[field].(map[string]any); !shown {
			return false, fmt.Errorf("%s: %s is not known of this %s", name, field, kind)
		}
	}
	switch {
	case name == expression.LookupBound:
		return o.bound(name)
	case o.Lookup == nil:
		return false, fmt.Errorf("%s is not known here", name)
	default:
		return o.Lookup(name)
	}
}

// bound reports whether a volume or a claim is in phase Bound.
func (o *Candidate) bound(name string) (bool, error) {
	status, _ := o.JSON["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	switch phase {
	case "Bound":
		return true, nil
	case "Available", "Released", "Pending", "Lost":
		return false, nil
	default:
		return false, fmt.Errorf("%s: status.phase is %q", name, quote.Shorten(phase))
	}
}

// explicit reports whether a rule names the resource without a wildcard.
func explicit(rule *v1alpha1.ResourceRule, resource schema.GroupResource) bool {
	return slices.Contains(rule.APIGroups, resource.Group) && slices.Contains(rule.Resources, resource.Resource)
}
