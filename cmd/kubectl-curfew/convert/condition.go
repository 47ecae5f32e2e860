package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"

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

func (d *draft) conditions(block *conditions) {
	for i := range block.All {
		path := fmt.Sprintf("spec.conditions.all[%d]", i)
		if text, err := block.All[i].translate(); err != nil {
			d.lost(path, "%s: %v", &block.All[i], err)
		} else {
			d.condition(fmt.Sprintf("all-%d", i), text)
		}
	}
	// Kyverno keeps the object at the first condition of any that fails, such as by an absent field.
	// CEL's || passes over it, and ? : does not.
	chain := "false"
	for i := len(block.Any) - 1; i >= 0; i-- {
		text, err := block.Any[i].translate()
		if err != nil {
			d.lost(fmt.Sprintf("spec.conditions.any[%d]", i), "%s: %v", &block.Any[i], err)
			return
		}
		if chain == "false" {
			chain = text
		} else {
			chain = fmt.Sprintf("(%s) ? true : (%s)", text, chain)
		}
	}
	if len(block.Any) > 0 {
		d.condition("any", chain)
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
	if text, _ := json.Marshal(c.Value); strings.Contains(string(text), "{{") {
		return "", fmt.Errorf("a variable as value is not supported")
	}
	switch c.Operator {
	case "Equals", "Equal":
		return equals(key, c.Value)
	case "NotEquals", "NotEqual":
		return notEquals(key, c.Value)
	case "In", "AnyIn", "AllIn", "NotIn", "AnyNotIn", "AllNotIn":
		return in(key, c.Operator, c.Value)
	}
	name, ofDuration := strings.CutPrefix(c.Operator, "Duration")
	if operator, ok := comparisons[name]; ok {
		if ofDuration && key.typ != typDuration {
			return "", fmt.Errorf("operator %s is supported for time_since and time_diff only", c.Operator)
		}
		return compare(key, operator, c.Value)
	}
	return "", fmt.Errorf("operator %q is not supported", c.Operator)
}

// exclude takes over the filters of exclude as conditions.
func (d *draft) exclude(filter *filters) {
	for _, placed := range d.list("spec.exclude", filter) {
		if placed.NamespaceSelector != nil {
			d.excludeNamespaces(placed.path, &placed.resources)
		} else if text, err := exclusion(&placed.resources); err != nil {
			d.lost(placed.path, "%v", err)
		} else {
			d.condition("exclude", text)
		}
	}
}

// excludeNamespaces takes over a filter with a selector of namespaces. To Kyverno, a cluster-scoped
// object is in a namespace without labels.
func (d *draft) excludeNamespaces(path string, r *resources) {
	alone := reflect.DeepEqual(*r, resources{NamespaceSelector: r.NamespaceSelector})
	if !alone || d.spec.Exclude != nil || d.namespaced || d.clusterScoped() || !selects(r.NamespaceSelector) {
		d.lost(path+".namespaceSelector", "is converted alone, without wildcards, once, and for namespaced kinds of Kubernetes")
		return
	}
	d.spec.Exclude = &v1alpha1.CleanupExclusion{NamespaceSelector: r.NamespaceSelector}
}

// clusterScoped reports whether the policy may match cluster-scoped objects.
func (d *draft) clusterScoped() bool {
	return slices.ContainsFunc(d.spec.MatchConstraints.ResourceRules, func(rule v1alpha1.ResourceRule) bool {
		return slices.ContainsFunc(rule.Resources, func(plural string) bool {
			known := builtinOf(plural, rule.APIGroups)
			return known == nil || known.cluster
		})
	})
}

// exclusion is a filter of exclude as a condition that is false for what it matches. It may be false
// for more objects, which keeps them.
func exclusion(r *resources) (string, error) {
	var out []string
	if len(r.Kinds) > 0 {
		out = append(out, anyOf("object.kind", console.Map(r.Kinds, kindOf)))
	}
	if names := r.names(); len(names) > 0 {
		out = append(out, anyOf("object.metadata.name", names))
	}
	if len(r.Namespaces) > 0 {
		out = append(out, anyOf("object.metadata.?namespace.orValue(object.metadata.name)", r.Namespaces))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		out = append(out, annotation(key, r.Annotations[key]))
	}
	labels, err := selectorCode(r.Selector)
	out = append(out, labels...)
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("an empty filter is not supported")
	}
	return "!(" + strings.Join(out, " && ") + ")", err
}

// namespaceOf is the namespace of an object. Kyverno takes a Namespace for one in itself.
const namespaceOf = `(object.kind == "Namespace" ? object.metadata.name : object.metadata.?namespace.orValue(""))`

// truth translates an expression to its truth value in JMESPath, where null, false and empty values
// are false. To the result of a kube-janitor rule Python's bool applies, by which 0 is false, too.
// Kyverno and kube-janitor fail with an operand of && or ||. CEL's operators pass over that, and
// ? : does not.
func (d dialect) truth(n *node, result bool) (string, error) {
	switch n.NodeType {
	case parsing.ASTNotExpression:
		if mentionsContext(&n.Children[0]) {
			return "", fmt.Errorf("the opposite of _context is not supported")
		}
		inner, err := d.truth(&n.Children[0], false)
		return "!(" + inner + ")", err
	case parsing.ASTAndExpression, parsing.ASTOrExpression:
		left, err := d.truth(&n.Children[0], false)
		if err != nil {
			return "", err
		}
		right, err := d.truth(&n.Children[1], result)
		if left == right {
			return left, err
		}
		if n.NodeType == parsing.ASTAndExpression {
			return "(" + left + " ? " + right + " : false)", err
		}
		whole := "true"
		if result {
			if text, _ := d.truth(&n.Children[0], true); text != left {
				whole = text
			}
		}
		return "(" + left + " ? " + whole + " : " + right + ")", err
	case parsing.ASTComparator:
		operator := operators[n.Value]
		left, err := d.value(&n.Children[0])
		if err != nil {
			return "", err
		}
		right, err := d.value(&n.Children[1])
		if err == nil && d == kyverno && strings.ContainsAny(operator, "<>") && left.typ != typNumber && right.typ != typNumber {
			err = fmt.Errorf("%s is supported with a number only", operator)
		}
		return left.text + " " + operator + " " + right.text, err
	}
	return d.truthOfValue(n, result)
}

func (d dialect) truthOfValue(n *node, result bool) (string, error) {
	if d == janitor && isContext(n) {
		return "!lookup.mounted", nil
	}
	if path, err := d.path(n); err == nil && d == janitor && typOf(path) == typString {
		if alwaysThere(path) {
			return "true", nil
		}
		return optional(path) + `.orValue("") != ""`, nil
	}
	value, err := d.value(n)
	switch {
	case err != nil || value.typ == typBool:
		return value.text, err
	case d == kyverno:
		return "", fmt.Errorf("%s is not true or false", value.text)
	case value.typ == typNumber && !result:
		return "true", nil
	case value.typ == typNumber:
		return value.text + " != 0", nil
	}
	return truthy(value.text, result), nil
}

// truthy is the truth value of any value, zero being false for a result.
func truthy(text string, result bool) string {
	zero := ""
	if result {
		zero = ", dyn(0)"
	}
	return "!(" + text + ` in [dyn(null), dyn(false), dyn(""), dyn([]), dyn({})` + zero + `])`
}

// isContext recognizes what kube-janitor adds to PersistentVolumeClaims. To Curfew's lookup, a
// claim is in use if either of them says so: it deletes less.
func isContext(n *node) bool {
	path, err := steps(n)
	return err == nil && n.NodeType == parsing.ASTSubexpression && len(path) == 2 && path[0].field == "_context" &&
		(path[1].field == "pvc_is_not_mounted" || path[1].field == "pvc_is_not_referenced")
}

func mentionsContext(n *node) bool {
	return n.NodeType == parsing.ASTField && n.Value == "_context" ||
		slices.ContainsFunc(n.Children, func(child node) bool { return mentionsContext(&child) })
}
