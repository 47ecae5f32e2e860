package coverage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requirements are those of a selector, in a form in which equals are equal. All have to hold.
func requirements(selector *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if selector == nil {
		return nil
	}
	var out []metav1.LabelSelectorRequirement
	for key, value := range selector.MatchLabels {
		out = append(out, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	for _, requirement := range selector.MatchExpressions {
		requirement.Values = slices.Clone(requirement.Values)
		slices.Sort(requirement.Values)
		requirement.Values = slices.Compact(requirement.Values)
		out = append(out, requirement)
	}
	slices.SortFunc(out, compareRequirements)
	return slices.CompactFunc(out, func(a, b metav1.LabelSelectorRequirement) bool { return compareRequirements(a, b) == 0 })
}

func compareRequirements(a, b metav1.LabelSelectorRequirement) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
}

// negated holds exactly where a requirement does not.
func negated(requirement metav1.LabelSelectorRequirement) metav1.LabelSelectorRequirement {
	requirement.Operator = map[metav1.LabelSelectorOperator]metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn: metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpNotIn: metav1.LabelSelectorOpIn,
		metav1.LabelSelectorOpExists: metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpDoesNotExist: metav1.LabelSelectorOpExists,
	}[requirement.Operator]
	return requirement
}

// selects asks in CEL whether the labels of an object fulfil all requirements; "true" where there are none.
func selects(all []metav1.LabelSelectorRequirement) string {
	var out []string
	for _, requirement := range all {
		label := "object.?metadata.?labels[?" + quote(requirement.Key) + "]"
		var values []string
		for _, value := range requirement.Values {
			values = append(values, quote(value))
		}
		in := fmt.Sprintf("%s.optMap(v, v in [%s]).orValue(false)", label, strings.Join(values, ", "))
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn:
			out = append(out, in)
		case metav1.LabelSelectorOpNotIn:
			out = append(out, "!"+in)
		case metav1.LabelSelectorOpExists:
			out = append(out, label+".hasValue()")
		case metav1.LabelSelectorOpDoesNotExist:
			out = append(out, "!"+label+".hasValue()")
		}
	}
	if len(out) == 0 {
		return "true"
	}
	return strings.Join(out, " && ")
}
