package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// SubjectAccessReviews asks the API server's own authorizer.
type SubjectAccessReviews struct {
	Client authorizationclient.SubjectAccessReviewInterface
}

// May implements [AccessReviewer].
func (s SubjectAccessReviews) May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool,
	error) {
	spec := reviewOf(user, what)
	answer, err := s.Client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, unanswerable(spec, err)
	}
	return answer.Status.Allowed, nil
}

// LocalSubjectAccessReviews asks the same in the namespace of the object, which a Role can permit.
type LocalSubjectAccessReviews struct {
	Client authorizationclient.LocalSubjectAccessReviewsGetter
}

// errNoNamespace is the answer about cluster-scoped objects, and about all namespaces.
var errNoNamespace = errors.New("a LocalSubjectAccessReview asks about one namespace")

// May implements [AccessReviewer].
func (l LocalSubjectAccessReviews) May(ctx context.Context, user authenticationv1.UserInfo,
	what authorizationv1.ResourceAttributes) (bool, error) {
	spec := reviewOf(user, what)
	if what.Namespace == "" {
		return false, unanswerable(spec, errNoNamespace)
	}
	// The API server requires the namespace in both places.
	review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: what.Namespace}, Spec: spec}
	answer, err := l.Client.LocalSubjectAccessReviews(what.Namespace).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, unanswerable(spec, err)
	}
	return answer.Status.Allowed, nil
}

const verbDelete = "delete"

func reviewOf(user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	what.Verb = cmp.Or(what.Verb, verbDelete)
	return authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &what, User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra(user.Extra),
	}
}

func unanswerable(spec authorizationv1.SubjectAccessReviewSpec, err error) error {
	what := spec.ResourceAttributes
	return fmt.Errorf("asking whether %s may %s %s in %q: %w", spec.User, what.Verb, what.Resource, what.Namespace, err)
}

func extra(in map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]authorizationv1.ExtraValue, len(in))
	for key, value := range in {
		out[key] = authorizationv1.ExtraValue(value)
	}
	return out
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

// CachedReviews caches answers. It leaves out the name of an object that is to be deleted, so that
// a loop that creates a thousand Jobs asks once. Permissions for single names are therefore not
// seen, and the rule only warns by default.
type CachedReviews struct {
	// Limit is how many questions a second go to the API server; 0 means no limit. Where anyone can
	// call the webhooks, each request may name a user that was never asked about. So callers share the
	// limit, by their address, and the tenants that one caller names share its part: see [share].
	Limit int

	reviewer AccessReviewer
	clock    Clock
	answers  *cache.LRUExpireCache // whether it is allowed, by question

	mu sync.Mutex
	// asked are the questions since second began, and before has the questions of the second before.
	second        time.Time
	asked, before *uses
}

// LimitAnonymous is the Limit where callers of the webhooks are not authenticated. An API server
// has half of it while no others call, and a third beside one other caller.
const LimitAnonymous = 200

// errTooMany is the answer beyond the limit.
var errTooMany = errors.New("too many access reviews in one second")

const (
	// keepAnswers is how long an answer is cached: the next attempt should notice a role that was just
	// granted.
	keepAnswers = 10 * time.Second
	// maxAnswers bounds the memory of a cache.
	maxAnswers = 4096
)

// NewCachedReviews caches a reviewer's answers for ten seconds.
func NewCachedReviews(reviewer AccessReviewer, clock Clock) *CachedReviews {
	answers := cache.NewLRUExpireCacheWithClock(maxAnswers, clock)
	return &CachedReviews{reviewer: reviewer, clock: clock, answers: answers, asked: &uses{}}
}

// May implements [AccessReviewer]. Errors are not cached.
func (c *CachedReviews) May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if cmp.Or(what.Verb, verbDelete) == verbDelete {
		what.Name = ""
	}
	key := questionOf(&user, &what)
	if known, ok := c.answers.Get(key); ok {
		return known == true, nil
	}
	caller, _ := ctx.Value(callerKey{}).(string)
	requester, _ := ctx.Value(requesterKey{}).(string)
	if !c.permit(digestOf(caller), digestOf(tenantOf(cmp.Or(requester, user.Username)))) {
		return false, errTooMany
	}
	allowed, err := c.reviewer.May(ctx, user, what)
	if err != nil {
		return false, err
	}
	c.answers.Add(key, allowed, keepAnswers)
	return allowed, nil
}

// questionOf identifies a question. Names of users and groups may contain any text.
func questionOf(user *authenticationv1.UserInfo, what *authorizationv1.ResourceAttributes) digest {
	parts := []string{user.Username, user.UID, what.Verb, what.Group, what.Resource, what.Namespace, what.Name, strconv.Itoa(len(user.Groups))}
	parts = append(parts, user.Groups...)
	for _, key := range slices.Sorted(maps.Keys(user.Extra)) {
		parts = append(append(parts, key, strconv.Itoa(len(user.Extra[key]))), user.Extra[key]...)
	}
	return digestOf(parts...)
}

// digest identifies a list of texts.
type digest [sha256.Size]byte

// digestOf hashes each text with its length, so that no text can contain a separator.
func digestOf(texts ...string) digest {
	sum := sha256.New()
	for _, text := range texts {
		_ = binary.Write(sum, binary.LittleEndian, uint64(len(text))) // A hash never fails.
		_, _ = sum.Write([]byte(text))
	}
	return digest(sum.Sum(nil))
}
