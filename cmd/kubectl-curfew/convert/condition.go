package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/v1alpha1"
)

// condition of Kyverno's cleanup policies.
type condition struct {
	Key      any    `json:"key"`
	Operator string `json:"operator"`
	Value    any    `json:"value"`
	Message  string `json:"message"`
}

// conditions are two lists: one of Any must hold, and each of All.
type conditions struct {
	Any []condition `json:"any"`
	All []condition `json:"all"`
}

func (d *draft) conditions(of *conditions) {
	if of == nil {
		return
	}
	for i := range of.All {
		path := fmt.Sprintf("spec.conditions.all[%d]", i)
		if text, err := of.All[i].translate(); err != nil {
			d.never(fmt.Sprintf("all-%d", i), path, "%s: %v", &of.All[i], err)
		} else {
			d.condition(fmt.Sprintf("all-%d", i), text)
		}
	}
	var alternatives []string
	for i := range of.Any {
		text, err := of.Any[i].translate()
		if err != nil {
			// Without it fewer objects match, and still it is not the same policy.
			d.lost(fmt.Sprintf("spec.conditions.any[%d]", i), "%s: %v", &of.Any[i], err)
			text = "false"
		}
		alternatives = append(alternatives, text)
	}
	if len(alternatives) > 0 {
		d.condition("any", strings.Join(alternatives, " || "))
	}
}

// String is the condition as its author wrote it.
func (c *condition) String() string {
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return s
		}
		out, _ := json.Marshal(v)
		return string(out)
	}
	return fmt.Sprintf("%s %s %s", text(c.Key), c.Operator, text(c.Value))
}

// comparisons are the operators of Kyverno with an order.
var comparisons = map[string]string{
	"GreaterThan": ">", "GreaterThanOrEquals": ">=", "LessThan": "<", "LessThanOrEquals": "<=",
	"DurationGreaterThan": ">", "DurationGreaterThanOrEquals": ">=", "DurationLessThan": "<", "DurationLessThanOrEquals": "<=",
}

// translate returns the condition in CEL. Where types do not match, a condition of Kyverno is
// false. The expression is false then, too, or fails, and Curfew keeps the object.
func (c *condition) translate() (string, error) {
	key, ok, err := variableCode(c.Key)
	if !ok {
		return "", fmt.Errorf("the key is not one variable in braces")
	}
	if err != nil {
		return "", err
	}
	switch c.Operator {
	case "Equals", "Equal":
		return equals(key, c.Value)
	case "NotEquals", "NotEqual":
		return notEquals(key, c.Value)
	case "In", "AnyIn", "AllIn", "NotIn", "AnyNotIn", "AllNotIn":
		return in(key, c.Operator, c.Value)
	}
	if operator, ok := comparisons[c.Operator]; ok {
		return compare(key, operator, c.Value)
	}
	return "", fmt.Errorf("operator %q is not supported", c.Operator)
}

// exclude takes over the filters of exclude. A single one becomes spec.exclude if it can; others
// become conditions.
func (d *draft) exclude(of *filters) {
	if of == nil {
		return
	}
	if len(of.All) > 1 || len(of.All) == 1 && len(of.Any) > 0 {
		d.excludeAll(of)
		return
	}
	all := append(slices.Clone(of.Any), of.All...)
	for i := range all {
		at, r := fmt.Sprintf("spec.exclude.any[%d].resources", i), &all[i].Resources
		if len(of.All) > 0 {
			at = "spec.exclude.all[0].resources"
		}
		if len(all) == 1 && d.excludeOne(at, r) {
			return
		}
		text, err := exclusion(r)
		if err != nil {
			d.never("exclude", at, "%v", err)
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
	selected := selects(r.Selector) && selects(r.NamespaceSelector)
	if wild || custom || d.namespaced || d.hasNamespaces() || len(r.Annotations) > 0 || !selected || len(r.Kinds) == 0 && len(r.names()) > 0 {
		return false
	}
	out := &v1alpha1.CleanupExclusion{NamespaceSelector: r.NamespaceSelector, ObjectSelector: r.Selector, ResourceRules: d.rules(path, r)}
	if len(r.Namespaces) > 0 {
		out.NamespaceSelector = inNamespaces(out.NamespaceSelector, r.Namespaces)
	}
	if len(out.ResourceRules) == 0 && out.NamespaceSelector == nil && out.ObjectSelector == nil {
		return false
	}
	d.spec.Exclude = out
	if len(r.Namespaces) == 0 && d.clusterScoped() && matchesUnlabeled(r.NamespaceSelector) {
		d.condition("exclude", "has(object.metadata.namespace)")
	}
	return true
}

// matchesUnlabeled reports whether a selector matches a namespace without labels. To Kyverno, a
// cluster-scoped object is in one.
func matchesUnlabeled(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return false
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || parsed.Matches(labels.Set{})
}

// clusterScoped reports whether the policy may match cluster-scoped objects.
func (d *draft) clusterScoped() bool {
	return slices.ContainsFunc(d.spec.MatchConstraints.ResourceRules, func(rule v1alpha1.ResourceRule) bool {
		return slices.ContainsFunc(rule.Resources, func(plural string) bool {
			known := builtinBy(func(b *builtin) bool { return b.plural == plural && slices.Contains(rule.APIGroups, b.group) })
			return known == nil || known.cluster
		})
	})
}

// excludeAll keeps what matches all filters of exclude.all. Kyverno denies any beside it.
func (d *draft) excludeAll(of *filters) {
	if len(of.Any) > 0 {
		d.never("exclude", "spec.exclude", "any beside all is not supported")
		return
	}
	var all []string
	for i := range of.All {
		parts, err := terms(&of.All[i].Resources, false)
		if err != nil {
			d.never("exclude", fmt.Sprintf("spec.exclude.all[%d].resources", i), "%v", err)
			return
		}
		all = append(all, parts...)
	}
	if len(all) == 0 {
		all = []string{"true"}
	}
	d.condition("exclude", "!("+strings.Join(all, " && ")+")")
}

// exclusion is a filter of exclude as a condition that is false for what it matches.
func exclusion(r *resources) (string, error) {
	parts, err := terms(r, false)
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("an empty filter is not supported")
	}
	return "!(" + strings.Join(parts, " && ") + ")", err
}

// terms are conditions that an object which matches a filter meets. They are exact for a filter of
// match, and may be true for more objects in an exclusion, which then keeps more.
func terms(r *resources, exact bool) ([]string, error) {
	var out []string
	switch {
	case len(r.Kinds) > 0 && exact:
		text, err := kindTerm(r.Kinds)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	case len(r.Kinds) > 0:
		out = append(out, anyOf("object.kind", console.Map(r.Kinds, path.Base)))
	}
	if names := r.names(); len(names) > 0 {
		out = append(out, anyOf("object.metadata.name", names))
	}
	switch {
	case len(r.Namespaces) > 0 && exact:
		out = append(out, anyOf(namespaceOf, r.Namespaces))
	case len(r.Namespaces) > 0:
		out = append(out, anyOf("object.metadata.?namespace.orValue(object.metadata.name)", r.Namespaces))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		out = append(out, annotation(key, r.Annotations[key]))
	}
	for of, selector := range map[string]*metav1.LabelSelector{"object": r.Selector, "namespaceObject": r.NamespaceSelector} {
		labels, err := selectorCode(of, selector)
		if err != nil {
			return nil, err
		}
		out = append(out, labels...)
	}
	slices.Sort(out)
	return out, nil
}

// namespaceOf is the namespace of an object. Kyverno takes a Namespace for one in itself.
const namespaceOf = `(object.kind == "Namespace" ? object.metadata.name : object.metadata.?namespace.orValue(""))`

// truth translates an expression to its truth value in JMESPath, where null, false and empty values
// are false.
func (d dialect) truth(n *node) (string, error) {
	switch n.kind {
	case kindNot:
		if mentionsContext(n.args[0]) {
			return "", fmt.Errorf("the opposite of _context is not supported")
		}
		inner, err := d.truth(n.args[0])
		return "!(" + inner + ")", err
	case kindAnd, kindOr:
		left, err := d.truth(n.args[0])
		if err != nil {
			return "", err
		}
		right, err := d.truth(n.args[1])
		if left == right {
			return left, err
		}
		if n.kind == kindAnd {
			return left + " && " + right, err
		}
		return "(" + left + " || " + right + ")", err
	case kindCompare:
		left, err := d.value(n.args[0])
		if err != nil {
			return "", err
		}
		right, err := d.value(n.args[1])
		return left.text + " " + n.text + " " + right.text, err
	}
	return d.truthOfValue(n)
}

func (d dialect) truthOfValue(n *node) (string, error) {
	if d == janitor && isContext(n) {
		return "!lookup.mounted", nil
	}
	if path, err := d.anyPath(n); err == nil && typOf(path) == typString {
		if alwaysThere(path) {
			return "true", nil
		}
		return optional(path) + `.orValue("") != ""`, nil
	}
	value, err := d.value(n)
	if err != nil || value.typ == typBool {
		return value.text, err
	}
	if value.typ == typNumber || value.typ == typTime || value.typ == typDuration {
		return "true", nil
	}
	return truthy(value.text), nil
}

// anyPath is path for nodes that may be anything.
func (d dialect) anyPath(n *node) ([]step, error) {
	if n.kind > kindFlatten {
		return nil, fmt.Errorf("not a path")
	}
	return d.path(n)
}

func truthy(text string) string {
	return "!(" + text + ` in [dyn(null), dyn(false), dyn(""), dyn([]), dyn({})])`
}

// isContext recognizes what kube-janitor adds to PersistentVolumeClaims. To Curfew's lookup, a
// claim is in use if either of them says so: it deletes less.
func isContext(n *node) bool {
	return n.kind == kindField && len(n.args) == 1 && n.args[0].kind == kindField && n.args[0].text == "_context" &&
		len(n.args[0].args) == 0 && (n.text == "pvc_is_not_mounted" || n.text == "pvc_is_not_referenced")
}

func mentionsContext(n *node) bool {
	return n.kind == kindField && n.text == "_context" || slices.ContainsFunc(n.args, mentionsContext)
}
