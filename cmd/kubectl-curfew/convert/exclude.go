package convert

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// exclude takes over the filters of exclude. A single one becomes spec.exclude if it can; others
// become conditions.
func (d *draft) exclude(of *filters) {
	if of == nil {
		return
	}
	if len(of.All) > 1 {
		d.lost("spec.exclude.all", "several filters are not supported: the policy would keep less or more")
		return
	}
	all := append(slices.Clone(of.Any), of.All...)
	for i := range all {
		path, r := fmt.Sprintf("spec.exclude.any[%d].resources", i), &all[i].Resources
		if len(of.All) > 0 {
			path = "spec.exclude.all[0].resources"
		}
		if len(all) == 1 && d.excludeOne(path, r) {
			return
		}
		text, err := exclusion(r)
		if err != nil {
			d.never("exclude", path, "%v", err)
			continue
		}
		d.condition("exclude", text)
	}
}

// excludeOne reports whether the filter fits into spec.exclude. A kind whose plural is a guess does
// not: a wrong plural would exclude nothing.
func (d *draft) excludeOne(path string, r *resources) bool {
	wild := slices.ContainsFunc(r.Namespaces, func(n string) bool { return strings.ContainsAny(n, "*?") })
	custom := slices.ContainsFunc(r.Kinds, func(kind string) bool {
		one, _, reason := rule(kind)
		return reason != "" || builtinBy(func(b *builtin) bool { return b.plural == one.Resources[0] && b.group == one.APIGroups[0] }) == nil
	})
	if wild || custom || d.namespaced || d.hasNamespaces() || len(r.Annotations) > 0 || !selects(r.Selector) || !selects(r.NamespaceSelector) ||
		len(r.Kinds) == 0 && len(r.names()) > 0 {
		return false
	}
	out := &v1alpha1.CleanupExclusion{NamespaceSelector: r.NamespaceSelector, ObjectSelector: r.Selector, ResourceRules: d.rules(path, r)}
	if len(r.Namespaces) > 0 {
		if out.NamespaceSelector = out.NamespaceSelector.DeepCopy(); out.NamespaceSelector == nil {
			out.NamespaceSelector = &metav1.LabelSelector{}
		}
		out.NamespaceSelector.MatchExpressions = append(out.NamespaceSelector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: r.Namespaces})
	}
	if len(out.ResourceRules) == 0 && out.NamespaceSelector == nil && out.ObjectSelector == nil {
		return false
	}
	d.spec.Exclude = out
	return true
}

// exclusion is a filter of exclude as a condition that is false for what it matches.
func exclusion(r *resources) (string, error) {
	var parts []string
	if len(r.Kinds) > 0 {
		var kinds []string
		for _, kind := range r.Kinds {
			kinds = append(kinds, kind[strings.LastIndex(kind, "/")+1:])
		}
		parts = append(parts, anyOf("object.kind", kinds))
	}
	if names := r.names(); len(names) > 0 {
		parts = append(parts, anyOf("object.metadata.name", names))
	}
	if len(r.Namespaces) > 0 {
		// Namespaces themselves are excluded by their name.
		parts = append(parts, anyOf("object.metadata.?namespace.orValue(object.metadata.name)", r.Namespaces))
	}
	for _, key := range sortedKeys(r.Annotations) {
		parts = append(parts, annotation(key, r.Annotations[key]))
	}
	for of, selector := range map[string]*metav1.LabelSelector{"object": r.Selector, "namespaceObject": r.NamespaceSelector} {
		labels, err := selectorCode(of, selector)
		if err != nil {
			return "", err
		}
		parts = append(parts, labels...)
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("an empty filter is not supported")
	}
	slices.Sort(parts)
	return "!(" + strings.Join(parts, " && ") + ")", nil
}
