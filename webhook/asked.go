package webhook

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/rules"
)

// What follows is for those who are asked what admission would answer, and have to come to the same: webhook/api.

// RuleOptions are the settings of the rules by which the webhooks judge.
func (w *Webhooks) RuleOptions() rules.Options { return w.options }

// Access is what access reviews say about a user who would make the request under review, and about the controller. Nobody is
// asked where the rules do not need it, or where the profile does not name the resource.
func (w *Webhooks) Access(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error) {
	profile := review.Facts.Profile
	if profile.Resource == "" {
		return rules.Access{}, nil
	}
	resource := metav1.GroupVersionResource{Group: profile.Kind.Group, Version: profile.Kind.Version, Resource: profile.Resource}
	return w.access(ctx, review, resource, func() (authenticationv1.UserInfo, error) { return user, nil })
}
