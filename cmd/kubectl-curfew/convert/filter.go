package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// filters are match and exclude of Kyverno's cleanup policies.
type filters struct {
	Any []filter `json:"any"`
	All []filter `json:"all"`
}

type filter struct {
	Resources resources `json:"resources"`
}

// resources are what an object must match, all of it.
type resources struct {
	Kinds             []string              `json:"kinds"`
	Name              string                `json:"name"`
	Names             []string              `json:"names"`
	Namespaces        []string              `json:"namespaces"`
	Annotations       map[string]string     `json:"annotations"`
	Selector          *metav1.LabelSelector `json:"selector"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	// Operations of a request, of which there is none.
	Operations []string `json:"operations"`
}

// names are the patterns of names, old field included.
func (r *resources) names() []string {
	out := slices.Clone(r.Names)
	if r.Name != "" {
		out = append(out, r.Name)
	}
	return out
}

// rules are the kinds with the names. The draft loses what is no kind.
func (d *draft) rules(path string, r *resources) []v1alpha1.ResourceRule {
	var out []v1alpha1.ResourceRule
	for i, kind := range r.Kinds {
		one, note, reason := rule(kind)
		field := fmt.Sprintf("%s.kinds[%d]", path, i)
		if reason != "" {
			d.lost(field, "%q %s", kind, reason)
			continue
		}
		if note != "" {
			d.note(field, "%q: %s", kind, note)
		}
		one.ResourceNames = r.names()
		out = append(out, one)
	}
	return out
}

// selects reports whether the API server can select the labels: they have no wildcards of Kyverno.
func selects(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return true
	}
	for key, value := range selector.MatchLabels {
		if strings.ContainsAny(key+value, "*?") {
			return false
		}
	}
	return true
}

// match takes over one filter of match.
func (d *draft) match(path string, r *resources) {
	match := &d.spec.MatchConstraints
	match.ResourceRules = d.rules(path, r)
	if len(r.Kinds) == 0 {
		d.lost(path+".kinds", "is empty: name the kinds")
	}
	match.ObjectSelector, match.NamespaceSelector = r.Selector, r.NamespaceSelector
	if !selects(r.Selector) {
		match.ObjectSelector = nil
		if labels, err := selectorCode("object", r.Selector); err != nil {
			d.never("selector", path+".selector", "%v", err)
		} else {
			d.condition("selector", strings.Join(labels, " && "))
		}
	}
	if !selects(r.NamespaceSelector) {
		match.NamespaceSelector = nil
		d.never("namespaceSelector", path+".namespaceSelector", "wildcards in the labels of namespaces are not supported")
	}
	if d.namespaced && r.NamespaceSelector != nil {
		d.lost(path+".namespaceSelector", "a policy of one namespace has none")
		match.NamespaceSelector = nil
	}
	for _, key := range sortedKeys(r.Annotations) {
		d.condition("annotation", annotation(key, r.Annotations[key]))
	}
	d.namespaces(path, r.Namespaces)
}

// namespaces restricts the policy to namespaces, by their label if no name has a wildcard.
func (d *draft) namespaces(path string, names []string) {
	match := &d.spec.MatchConstraints
	switch {
	case len(names) == 0:
	case d.hasNamespaces():
		d.lost(path+".namespaces", "with Namespaces as objects they are names: write resourceNames")
	case d.namespaced || slices.ContainsFunc(names, func(n string) bool { return strings.ContainsAny(n, "*?") }):
		d.condition("namespaces", anyOf(`object.metadata.?namespace.orValue("")`, names))
	default:
		selector := &metav1.LabelSelector{}
		if match.NamespaceSelector != nil {
			selector = match.NamespaceSelector.DeepCopy()
		}
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: names})
		match.NamespaceSelector = selector
	}
}

// hasNamespaces reports whether Namespaces themselves are matched.
func (d *draft) hasNamespaces() bool {
	return slices.ContainsFunc(d.spec.MatchConstraints.ResourceRules, func(r v1alpha1.ResourceRule) bool {
		return slices.Contains(r.Resources, "namespaces")
	})
}

// selectorCode is a label selector in CEL.
func selectorCode(of string, selector *metav1.LabelSelector) ([]string, error) {
	if selector == nil {
		return nil, nil
	}
	if of == "namespaceObject" {
		return nil, fmt.Errorf("a namespaceSelector beside other filters is not supported")
	}
	var out []string
	label := func(key string) string { return fmt.Sprintf("object.metadata.?labels[?%q]", key) }
	for _, key := range sortedKeys(selector.MatchLabels) {
		if strings.ContainsAny(key, "*?") {
			return nil, fmt.Errorf("wildcards in the keys of labels are not supported")
		}
		out = append(out, label(key)+".hasValue()", anyOf(label(key)+`.orValue("")`, []string{selector.MatchLabels[key]}))
	}
	for _, one := range selector.MatchExpressions {
		present, value := label(one.Key)+".hasValue()", label(one.Key)+`.orValue("")`
		switch one.Operator {
		case metav1.LabelSelectorOpIn:
			out = append(out, present, anyOf(value, one.Values))
		case metav1.LabelSelectorOpNotIn:
			out = append(out, fmt.Sprintf("!(%s && %s)", present, anyOf(value, one.Values)))
		case metav1.LabelSelectorOpExists:
			out = append(out, present)
		case metav1.LabelSelectorOpDoesNotExist:
			out = append(out, "!"+present)
		default:
			return nil, fmt.Errorf("operator %q of a selector is not known", one.Operator)
		}
	}
	return out, nil
}

// annotation is true for an annotation that matches a pattern of Kyverno.
func annotation(key, pattern string) string {
	if strings.ContainsAny(key, "*?") {
		return fmt.Sprintf("object.metadata.?annotations.orValue({}).exists(k, k.matches(%q) && %s)", wildcard(key),
			anyOf("object.metadata.annotations[k]", []string{pattern}))
	}
	value := fmt.Sprintf("object.metadata.?annotations[?%q]", key)
	return "(" + value + ".hasValue() && " + anyOf(value+`.orValue("")`, []string{pattern}) + ")"
}

// anyOf is true for a text that is one of the values, or matches one with a wildcard.
func anyOf(text string, values []string) string {
	var exact, out []string
	for _, value := range values {
		if strings.ContainsAny(value, "*?") {
			out = append(out, fmt.Sprintf("%s.matches(%q)", text, wildcard(value)))
		} else {
			exact = append(exact, strconv.Quote(value))
		}
	}
	switch {
	case len(exact) == 1:
		out = append([]string{text + " == " + exact[0]}, out...)
	case len(exact) > 1:
		out = append([]string{text + " in [" + strings.Join(exact, ", ") + "]"}, out...)
	}
	if len(out) == 1 {
		return out[0]
	}
	return "(" + strings.Join(out, " || ") + ")"
}
