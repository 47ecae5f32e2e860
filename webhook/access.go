package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Reviews asks the API server's authorizer what users may do. It caches answers, so that a loop that
// creates a thousand Jobs asks once.
type Reviews struct {
	client  authorizationclient.AuthorizationV1Interface
	answers *cache.LRUExpireCache // whether it is allowed, by the question
	local   bool
}

const (
	// keepAnswers is how long an answer is cached: the next attempt should notice a role that was just
	// granted.
	keepAnswers = 10 * time.Second
	// maxAnswers bounds the memory of a cache.
	maxAnswers = 4096
	// maxQuestion bounds what is cached. Anyone who reaches the webhooks can make up users with a
	// megabyte of groups. A question of more bytes is asked each time.
	maxQuestion = 4 << 10
	// reviewsPerSecond bounds what one of them asks.
	reviewsPerSecond = 200
)

// NewReviews returns reviews by a client that may create SubjectAccessReviews. With local it asks by
// LocalSubjectAccessReviews in the namespace of the object, which a Role can permit.
func NewReviews(config *rest.Config, local bool) (*Reviews, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.ContentType = reviewsPerSecond, reviewsPerSecond, runtime.ContentTypeJSON
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of access reviews: %w", err)
	}
	return &Reviews{client: client, answers: cache.NewLRUExpireCache(maxAnswers), local: local}, nil
}

// errNoNamespace is the answer about cluster-scoped objects, and about all namespaces.
var errNoNamespace = errors.New("a LocalSubjectAccessReview asks about one namespace")

const verbDelete = "delete"

// May implements [AccessReviewer]. It leaves out the name of an object that is to be deleted, so that
// one answer counts for all names. Permissions for single names are therefore not seen, and the rule
// only warns by default.
func (r *Reviews) May(ctx context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if what.Verb = cmp.Or(what.Verb, verbDelete); what.Verb == verbDelete {
		what.Name = ""
	}
	allowed, err := r.Allows(ctx, who, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &what})
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s in %q: %w", who.Username, what.Verb, what.Resource, what.Namespace, err)
	}
	return allowed, nil
}

// Allows reports whether a user may do what the spec names. It fills in the user. An error means that
// this is unknown, also where too many others are asked about.
func (r *Reviews) Allows(ctx context.Context, who authenticationv1.UserInfo, what authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	what.User, what.UID, what.Groups, what.Extra = who.Username, who.UID, who.Groups, map[string]authorizationv1.ExtraValue{}
	for key, values := range who.Extra {
		what.Extra[key] = authorizationv1.ExtraValue(values)
	}
	question, err := json.Marshal(what)
	if err != nil {
		return false, err
	}
	if allowed, known := r.answers.Get(string(question)); known {
		return allowed == true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	status, err := r.ask(ctx, what)
	allowed := status.Allowed && !status.Denied
	if err == nil && len(question) <= maxQuestion {
		r.answers.Add(string(question), allowed, keepAnswers)
	}
	return allowed && err == nil, err
}

func (r *Reviews) ask(ctx context.Context, what authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if !r.local {
		review, err := r.client.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: what}, metav1.CreateOptions{})
		return review.Status, err
	}
	asked := &authorizationv1.LocalSubjectAccessReview{Spec: what}
	if what.ResourceAttributes != nil {
		asked.Namespace = what.ResourceAttributes.Namespace
	}
	if asked.Namespace == "" {
		return asked.Status, errNoNamespace
	}
	review, err := r.client.LocalSubjectAccessReviews(asked.Namespace).Create(ctx, asked, metav1.CreateOptions{})
	return review.Status, err
}

// accessTimeout bounds the questions about deleting, and those about updating. Both together leave
// time for an answer within the five seconds that the API server waits.
const accessTimeout = 2 * time.Second

// access asks about the user and the controller if the request sets a TTL, and about the user if it
// sets a protection that policies deny. Without an answer the rules that need one do not apply,
// except with --require-delete: that is an error, and the request is denied.
func (w *Webhooks) access(ctx context.Context, review *rules.Request, resource metav1.GroupVersionResource,
	who authenticationv1.UserInfo) (rules.Access, error) {
	if w.settings.Access == nil {
		return rules.Access{}, nil
	}
	out := rules.Access{Policies: w.mayUpdate(ctx, rules.ProtectionDeniedBy(review), who)}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	for sets, access := rules.SetsLifetime(review), &out; sets != nil; sets, access = sets.Also, access.Also {
		if err := w.mayDelete(ctx, review, resource, sets, who, access); err != nil {
			return out, err
		}
		if sets.Also != nil {
			access.Also = &rules.Access{}
		}
	}
	return out, nil
}

// mayDelete asks about the objects that one setting makes Curfew delete.
func (w *Webhooks) mayDelete(ctx context.Context, review *rules.Request, resource metav1.GroupVersionResource, sets *rules.Lifetime,
	who authenticationv1.UserInfo, access *rules.Access) error {
	what := authorizationv1.ResourceAttributes{
		Namespace: review.Facts.Namespace, Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Name: review.Facts.Name,
	}
	if sets.Of != nil { // Objects that use the runtime: of a ClusterTrainingRuntime, in all namespaces.
		what.Group, what.Version, what.Resource, what.Name = sets.Of.Kind.Group, sets.Of.Kind.Version, sets.Of.Resource, ""
	}
	if review.Facts.IsNamespace() {
		what.Namespace = review.Facts.Name // Roles in a Namespace apply to requests for it.
	}
	var err error
	if access.User, err = w.ask(ctx, who, what); err != nil && w.options.RequireDelete {
		return err
	}
	if w.settings.ControllerUser != "" {
		controller := authenticationv1.UserInfo{Username: w.settings.ControllerUser, Groups: serviceAccountGroups(w.settings.ControllerUser)}
		access.Controller, _ = w.ask(ctx, controller, what)
	}
	return nil
}

// mayUpdate asks which of some LifecyclePolicies the user may update.
func (w *Webhooks) mayUpdate(ctx context.Context, names []string, who authenticationv1.UserInfo) map[string]rules.Answer {
	if len(names) == 0 || w.settings.Access == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout) // Of its own: it is never a reason to deny a TTL.
	defer cancel()
	out := make(map[string]rules.Answer, len(names))
	for _, name := range names {
		var err error
		out[name], err = w.ask(ctx, who, authorizationv1.ResourceAttributes{ // Without an answer the bound applies.
			Verb: "update", Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "lifecyclepolicies", Name: name,
		})
		if err != nil && !errors.Is(err, errNoNamespace) && !apierrors.IsForbidden(err) {
			out[name] = rules.Later // Too many reviews, or too slow ones.
		}
	}
	return out
}

func (w *Webhooks) ask(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (rules.Answer, error) {
	allowed, err := w.settings.Access.May(ctx, user, what)
	switch {
	case err != nil:
		w.log.V(1).Info("no answer to an access review", "user", user.Username, "reason", err.Error())
		return rules.Unknown, err
	case allowed:
		return rules.Yes, nil
	default:
		return rules.No, nil
	}
}

// serviceAccountGroups are the groups of a ServiceAccount.
func serviceAccountGroups(username string) []string {
	parts := strings.Split(username, ":")
	if len(parts) != 4 {
		return nil
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2], "system:authenticated"}
}
