package webhook

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// compiles reports whether objects of a kind of Curfew's group are compiled at admission.
func (w *Webhooks) compiles(kind string) bool {
	return kind == "LifecyclePolicy" || kind == "KindProfile" || kind == cleanupKind || kind == clusterCleanupKind || kind == tallyKind
}

// validatePolicy asks the rules about a policy, KindProfile or PodTally.
func (w *Webhooks) validatePolicy(ctx context.Context, request *request, now time.Time) answer {
	kind := request.facts.Profile.Kind
	if request.facts.Deleting || kind.Group != policy.Group || !w.compiles(kind.Kind) {
		return untouched()
	}
	if kind.Kind == cleanupKind || kind.Kind == clusterCleanupKind {
		return w.validateCleanup(ctx, request)
	}
	if kind.Kind == tallyKind {
		return w.validateTally(ctx, request)
	}
	review := &rules.PlatformRequest{Options: w.options, Now: now}
	var err error
	if review.Policy, review.Errors, err = w.compile(kind.Kind, request.review.Object.Raw); err != nil {
		return invalid(fmt.Errorf("request.object: %w", err))
	}
	if request.old != nil {
		if review.OldPolicy, review.OldErrors, err = w.compile(kind.Kind, request.review.Old.Raw); err != nil {
			return invalid(fmt.Errorf("request.oldObject: %w", err))
		}
	}
	if lister, ok := w.source.namespaces.(NamespaceLister); ok && review.Policy != nil && review.Policy.Bounds != (policy.Bounds{}) {
		review.Namespaces = lister.Bounded()
	}
	return decided(rules.ReviewPlatform(review), request.user.IsPerson())
}

func (w *Webhooks) compile(kind, raw string) (*expression.Policy, field.ErrorList, error) {
	if kind == "KindProfile" {
		object := &v1alpha1.KindProfile{}
		if err := json.Unmarshal([]byte(raw), object); err != nil {
			return nil, nil, err
		}
		_, errs := w.compiler.UserProfile(object)
		return nil, errs, nil
	}
	object := &v1alpha1.LifecyclePolicy{}
	if err := json.Unmarshal([]byte(raw), object); err != nil {
		return nil, nil, err
	}
	compiled, errs := w.compiler.Policy(object)
	return compiled, errs, nil
}
