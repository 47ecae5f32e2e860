package webhook

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// TallyGetter reads the PodTallies.
type TallyGetter interface {
	// In returns the PodTallies of a namespace, from a cache. It is an error until all are known.
	In(namespace string) ([]*tally.Tally, error)
}

// tallied reports whether a PodTally of a namespace counts Pods.
func (s *source) tallied(namespace string) (bool, error) {
	if s.tallies == nil {
		return false, nil
	}
	all, err := s.tallies.In(namespace)
	return slices.ContainsFunc(all, func(each *tally.Tally) bool { return !each.Deleting }), err
}

// hold gives a new Pod the finalizer of the tally that counts it. It takes a finalizer or an
// annotation counted-by away that the author copied from another Pod: nothing would remove the one,
// and with the other the Pod would never be counted (S7). The controller adopts a Pod that is
// created before the cache knows its tally.
func (w *Webhooks) hold(pod *policy.Facts) (out []policy.Assignment, want bool) {
	if !pod.IsPod() || w.source.tallies == nil {
		return nil, false
	}
	if _, copied := pod.Annotations[policy.AnnotationCountedBy]; copied {
		out = append(out, policy.Assignment{Path: policy.FieldPath{"metadata", "annotations", policy.AnnotationCountedBy}})
	}
	tallies, err := w.source.tallies.In(pod.Namespace)
	if err != nil {
		w.log.V(1).Info("a new Pod is left to the controller to adopt", "namespace", pod.Namespace, "reason", err.Error())
		return out, false
	}
	want = tally.Owner(tallies, pod) != nil
	if want == tally.Held(pod) {
		return out, want
	}
	finalizers := make([]any, 0, len(pod.Finalizers)+1)
	for _, finalizer := range pod.Finalizers {
		if finalizer != policy.FinalizerTally {
			finalizers = append(finalizers, finalizer)
		}
	}
	if want {
		finalizers = append(finalizers, policy.FinalizerTally)
	}
	path := policy.FieldPath{"metadata", "finalizers"}
	if len(finalizers) == 0 {
		return append(out, policy.Assignment{Path: path}), want
	}
	return append(out, policy.Assignment{Path: path, Value: finalizers}), want
}

// tallyKind is the kind of PodTallies.
const tallyKind = "PodTally"

// validateTally asks the rules about a PodTally.
func (w *Webhooks) validateTally(ctx context.Context, request *request) answer {
	review := &rules.TallyRequest{Options: w.options, Outer: w.source.store.Snapshot().BoundingKind(policy.PodProfile.Kind.GroupKind())}
	var err error
	if review.Tally, review.Errors, err = compileTally(request.facts.Namespace, request.review.Object.Raw); err != nil {
		return invalid(fmt.Errorf("request.object: %w", err))
	}
	if request.old != nil {
		if review.Old, review.OldErrors, err = compileTally(request.facts.Namespace, request.review.Old.Raw); err != nil {
			return invalid(fmt.Errorf("request.oldObject: %w", err))
		}
	}
	if review.Namespace, err = w.source.Namespace(ctx, request.facts.Namespace); err != nil {
		return unreadable(request.facts, err)
	}
	if w.source.tallies != nil {
		review.Others, _ = w.source.tallies.In(request.facts.Namespace) // The rule about them only warns.
	}
	if user := w.controllerUser; user != "" && w.reviews != nil && review.Old == nil {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		may, err := w.reviews.May(ctx, authenticationv1.UserInfo{Username: user, Groups: serviceAccountGroups(user)},
			authorizationv1.ResourceAttributes{Verb: "patch", Namespace: request.facts.Namespace, Resource: "pods"})
		review.ControllerLacks = err == nil && !may
	}
	if w.reviews != nil && review.SetsTTL() {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		author, err := request.review.UserInfo()
		if err == nil {
			review.Author, err = w.ask(ctx, author, authorizationv1.ResourceAttributes{Namespace: request.facts.Namespace, Version: "v1", Resource: "pods"})
		}
		if err != nil && w.options.RequireDelete {
			return unanswered("curfew could not find out in time whether you may delete Pods", err)
		}
	}
	return decided(rules.ReviewTally(review), request.user.IsPerson())
}

func compileTally(namespace, raw string) (*tally.Tally, field.ErrorList, error) {
	object := &v1alpha1.PodTally{}
	if err := json.Unmarshal([]byte(raw), object); err != nil {
		return nil, nil, err
	}
	object.Namespace = namespace // On CREATE it may only be in the URL.
	compiled, errs := tally.Compile(object)
	return compiled, errs, nil
}
