package convert

import (
	"encoding/json"
	"fmt"
	"strings"
)

// condition of Kyverno's cleanup policies.
type condition struct {
	Key      any    `json:"key"`
	Operator string `json:"operator"`
	Value    any    `json:"value"`
	Message  string `json:"message"`
}

// conditions are those of which any, and those of which all must hold.
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
	text, ok := c.Key.(string)
	inner, isVariable := variable(text)
	if !ok || !isVariable {
		return "", fmt.Errorf("the key is not one variable in braces")
	}
	n, err := parseJMESPath(inner)
	if err != nil {
		return "", err
	}
	key, err := kyverno.value(n)
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
