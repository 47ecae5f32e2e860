package webhook

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/rules"
)

// The functions of this file let webhook/api answer as admission would.

// RuleOptions returns the settings of the rules.
func (w *Webhooks) RuleOptions() rules.Options { return w.options }

// Access reports whether a user who would make the request, and the controller, may delete the
// object. The cluster is not asked if the rules do not need it, nor about deleting if the profile
// does not name the resource.
func (w *Webhooks) Access(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error) {
	profile, who := review.Facts.Profile, func() (authenticationv1.UserInfo, error) { return user, nil }
	if profile.Resource == "" {
		return rules.Access{Policies: w.mayUpdate(ctx, rules.ProtectionDeniedBy(review), who)}, nil
	}
	resource := metav1.GroupVersionResource{Group: profile.Kind.Group, Version: profile.Kind.Version, Resource: profile.Resource}
	return w.access(ctx, review, resource, who)
}
