package lint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	policyKind  = schema.GroupKind{Group: policy.Group, Kind: "LifecyclePolicy"}
	profileKind = schema.GroupKind{Group: policy.Group, Kind: "KindProfile"}
)

// addPolicy checks a LifecyclePolicy and applies the usable part of it to the other documents.
func addPolicy(ctx context.Context, w *world, document *Document) {
	object := &v1alpha1.LifecyclePolicy{}
	if !w.read(ctx, document, object) {
		return
	}
	compiled, errs := w.compiler.Policy(object)
	w.policies = append(w.policies, compiled)
	w.compiled(document, errs)
	w.reviews = append(w.reviews, func() { w.review(document, compiled) })
}

// review runs the rules on a policy, once all namespaces among the documents are known.
func (w *world) review(document *Document, compiled *expression.Policy) {
	request := &rules.PlatformRequest{Policy: compiled, Options: w.options.Rules, Now: w.options.Now}
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		if known := w.namespaces[name].policy; known.Bounds != (policy.Bounds{}) {
			request.Namespaces = append(request.Namespaces, known)
		}
	}
	for _, finding := range rules.ReviewPlatform(request).Findings {
		w.find(document, finding)
	}
}

// addProfile does the same for a KindProfile.
func addProfile(ctx context.Context, w *world, document *Document) {
	object := &v1alpha1.KindProfile{}
	if !w.read(ctx, document, object) {
		return
	}
	compiled, errs := w.compiler.UserProfile(object)
	w.profiles = append(w.profiles, compiled)
	w.compiled(document, errs)
}

// read validates a document by the schema of its kind and decodes it. It reports false if that
// fails.
func (w *world) read(ctx context.Context, document *Document, into any) bool {
	stored, unknown, refused := w.options.Schemas.check(ctx, document.Object)
	for _, path := range unknown {
		w.find(document, policy.Finding{Rule: RuleSchema, Field: path, Severity: policy.Deny,
			Message: unknownField(path)})
	}
	for _, err := range refused {
		w.find(document, policy.Finding{Rule: RuleSchema, Field: err.Field, Value: fmt.Sprint(err.BadValue), Severity: policy.Deny, Message: err.ErrorBody()})
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored, into); err != nil {
		if len(refused) == 0 {
			w.find(document, policy.Finding{Rule: RuleSchema, Severity: policy.Deny, Message: "not of the shape of its kind: " + err.Error()})
		}
		return false
	}
	return true
}

// compiled records the errors of compiling an object. An error on a field that the schema rejects
// too is one finding with it.
func (w *world) compiled(document *Document, errs field.ErrorList) {
	for _, err := range errs {
		finding := policy.Finding{Rule: rules.PolicyCompiles, Field: err.Field, Value: fmt.Sprint(err.BadValue), Severity: policy.Deny, Message: err.Detail}
		about := w.about[placeOf(document)]
		at := slices.IndexFunc(about, func(other policy.Finding) bool { return other.Rule == RuleSchema && other.Field == err.Field })
		switch {
		case at < 0:
			w.find(document, finding)
		case !strings.Contains(about[at].Message, finding.Message):
			about[at].Message += "; " + finding.Message
		}
	}
}
