package expression

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/v1alpha1"
)

// maxMessage is the longest message of a condition that the API server accepts.
const maxMessage = 32768

// Ready is the condition that shows whether a generation of a policy or profile can be used: the
// errors of its compilation, or else of its evaluation. The caller sets lastTransitionTime, for
// instance by meta.SetStatusCondition.
func Ready(generation int64, compiling field.ErrorList, evaluating []error) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: v1alpha1.ReasonAccepted, Message: "everything can be used",
	}
	var lines []string
	switch {
	case len(compiling) > 0:
		condition.Reason = v1alpha1.ReasonInvalidField
		for _, err := range compiling {
			if err.Origin == originExpression {
				condition.Reason = v1alpha1.ReasonInvalidExpression
			}
			// Without the value: an expression is long, and stands in the spec.
			lines = append(lines, err.Field+": "+err.Detail)
		}
	case len(evaluating) > 0:
		condition.Reason = v1alpha1.ReasonEvaluationFailed
		for _, err := range evaluating {
			lines = append(lines, err.Error())
		}
	default:
		return condition
	}
	condition.Status = metav1.ConditionFalse
	condition.Message = strings.Join(lines, "; ")
	if runes := []rune(condition.Message); len(runes) > maxMessage {
		condition.Message = string(runes[:maxMessage-1]) + "…"
	}
	return condition
}
