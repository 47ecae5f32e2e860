package webhook

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// ruleCompiles is the one rule about Curfew's own objects: what they say can be used.
const ruleCompiles = "policy-compiles"

// compiles reports whether objects of a kind of Curfew's group are compiled at admission.
func (w *Webhooks) compiles(kind string) bool {
	return kind == "LifecyclePolicy" || kind == "KindProfile"
}

// validatePolicy refuses a LifecyclePolicy or KindProfile of which something cannot be used, by field and, within an
// expression, by line and column. What could not be used before the request and is left as it was passes.
func (w *Webhooks) validatePolicy(_ context.Context, request *request, _ time.Time) answer {
	kind := request.facts.Profile.Kind
	if request.facts.Deleting || kind.Group != policy.Group || !w.compiles(kind.Kind) {
		return untouched()
	}
	errs, err := w.compile(kind.Kind, request.raw)
	if err != nil {
		return invalid(fmt.Errorf("request.object: %w", err))
	}
	stood := field.ErrorList{}
	if len(errs) > 0 && len(request.oldRaw) > 0 {
		if stood, err = w.compile(kind.Kind, request.oldRaw); err != nil {
			return invalid(fmt.Errorf("request.oldObject: %w", err))
		}
	}
	decision := &policy.Decision{}
	for _, err := range errs {
		if !contains(stood, err) {
			decision.Findings = append(decision.Findings, policy.Finding{
				Rule: ruleCompiles, Field: err.Field, Value: fmt.Sprint(err.BadValue), Severity: policy.Deny, Message: err.Detail,
			})
		}
	}
	return decided(decision, request.user.IsPerson())
}

func (w *Webhooks) compile(kind string, raw []byte) (field.ErrorList, error) {
	if kind == "KindProfile" {
		object := &v1alpha1.KindProfile{}
		if err := json.Unmarshal(raw, object); err != nil {
			return nil, err
		}
		_, errs := w.compiler.Profile(object)
		return errs, nil
	}
	object := &v1alpha1.LifecyclePolicy{}
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, err
	}
	_, errs := w.compiler.Policy(object)
	return errs, nil
}

func contains(errs field.ErrorList, wanted *field.Error) bool {
	for _, err := range errs {
		if err.Error() == wanted.Error() {
			return true
		}
	}
	return false
}
