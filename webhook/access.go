package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Reviews asks the API server's authorizer what users may do, through apiserver's delegating
// authorizer. It caches answers, so that a loop that creates a thousand Jobs asks once.
type Reviews struct {
	config authorizerfactory.DelegatingAuthorizerConfig
	cached authorizer.Authorizer
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
	// reviewsPerSecond bounds what the webhooks ask, and likewise the HTTP API.
	reviewsPerSecond = 200
)

// NewReviews returns reviews by a client that may create SubjectAccessReviews.
func NewReviews(config *rest.Config) (*Reviews, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.ContentType = reviewsPerSecond, reviewsPerSecond, runtime.ContentTypeJSON
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return reviewTransport{next} })
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of access reviews: %w", err)
	}
	out := &Reviews{config: authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client, Compiler: authorizationcel.NewDefaultCompiler(),
		AllowCacheTTL: keepAnswers, DenyCacheTTL: keepAnswers, WebhookRetryBackoff: &wait.Backoff{Steps: 1},
	}}
	out.cached, err = out.config.New()
	return out, err
}

// reviewTransport sends a review, and shortens the answer.
type reviewTransport struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t reviewTransport) RoundTrip(review *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(review)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return response, err
	}
	return short(response)
}

// short keeps of an answer what is allowed. The authorizer would cache a text of any length, and a
// tenant can make it a megabyte, by RoleBindings to Roles that do not exist.
func short(response *http.Response) (*http.Response, error) {
	var answer authorizationv1.SubjectAccessReview
	err := json.NewDecoder(response.Body).Decode(&answer)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	body, err := json.Marshal(authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: answer.Status.Allowed, Denied: answer.Status.Denied},
	})
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, err
}

const verbDelete = "delete"

// May implements [AccessReviewer]. It leaves out the name of an object that is to be deleted, so that
// one answer counts for all names. Permissions for single names are therefore not seen, and the rule
// only warns by default.
func (r *Reviews) May(ctx context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if what.Verb = cmp.Or(what.Verb, verbDelete); what.Verb == verbDelete {
		what.Name = ""
	}
	return r.Allows(ctx, who, authorizer.AttributesRecord{
		Verb: what.Verb, Namespace: what.Namespace, APIGroup: what.Group, APIVersion: what.Version, Resource: what.Resource, Name: what.Name,
		ResourceRequest: true,
	})
}

// Allows reports whether a user may send a request. An error means that this is unknown, also where
// too many others are asked about.
func (r *Reviews) Allows(ctx context.Context, who authenticationv1.UserInfo, request authorizer.AttributesRecord) (bool, error) {
	defaultInfo := &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: make(map[string][]string, len(who.Extra))}
	for key, values := range who.Extra {
		defaultInfo.Extra[key] = values
	}
	request.User = defaultInfo
	answers := r.cached
	question, err := json.Marshal(request)
	if err == nil && len(question) > maxQuestion {
		answers, err = r.config.New()
	}
	var decision authorizer.Decision
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		decision, _, err = answers.Authorize(ctx, request)
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s in %q: %w", defaultInfo.Name, request.Verb, cmp.Or(request.Path, request.Resource), request.Namespace, err)
	}
	return decision == authorizer.DecisionAllow, nil
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
		if err != nil && !apierrors.IsForbidden(err) {
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
