package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// Authenticator finds the user of a token.
type Authenticator interface {
	// Authenticate returns false for an invalid token, and an error if the cluster cannot be asked.
	Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error)
}

// TokenReviews is an [Authenticator] that asks the API server.
type TokenReviews struct {
	client   authenticationclient.TokenReviewInterface
	audience string
}

// NewTokenReviews needs a client that may create tokenreviews.authentication.k8s.io. Tokens must be
// meant for the audience. If it is empty, they must be meant for the API server, as tokens of
// kubectl and of service accounts are by default.
func NewTokenReviews(client authenticationclient.TokenReviewInterface, audience string) *TokenReviews {
	return &TokenReviews{client: client, audience: audience}
}

// Authenticate implements [Authenticator].
func (t *TokenReviews) Authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	spec := authenticationv1.TokenReviewSpec{Token: token}
	if t.audience != "" {
		spec.Audiences = []string{t.audience}
	}
	review, err := t.client.Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("creating a TokenReview: %w", err)
	}
	// An authenticator that ignores audiences returns none.
	meant := t.audience == "" || slices.Contains(review.Status.Audiences, t.audience)
	return review.Status.User, meant && review.Status.Authenticated && review.Status.User.Username != "", nil
}

type userKey struct{}

func userOf(r *http.Request) authenticationv1.UserInfo {
	user, _ := r.Context().Value(userKey{}).(authenticationv1.UserInfo)
	return user
}

// authenticated lets a request about the cluster pass only with a valid token of the cluster. hint
// says how to get one.
func authenticated(authenticator Authenticator, hint string, log logr.Logger) func(http.Handler) http.Handler {
	asking := semaphore.NewWeighted(maxAuthenticating)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if queryOf(r).offline {
				next.ServeHTTP(w, r)
				return
			}
			token := bearer(r)
			if token == "" {
				unauthenticated(w, r, "no token: send the header Authorization: Bearer TOKEN"+orOffline)
				return
			}
			if len(token) > maxToken {
				unauthenticated(w, r, fmt.Sprintf("the token has %d bytes, and at most %d are read: %s", len(token), maxToken, hint))
				return
			}
			if asking.Acquire(r.Context(), 1) != nil {
				tooBusy(w, r)
				return
			}
			user, known, err := authenticator.Authenticate(r.Context(), token)
			asking.Release(1)
			if err != nil {
				log.Error(err, "token review failed", "path", r.URL.Path)
				WriteProblem(w, r, http.StatusServiceUnavailable, "the cluster could not be asked who you are: try again later")
				return
			}
			if !known {
				unauthenticated(w, r, "the cluster does not know the token, or it has another audience: "+hint)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		})
	}
}

// newToken says how to make a token with an audience.
func newToken(audience string) string {
	if audience == "" {
		return "send one as kubectl create token makes"
	}
	return fmt.Sprintf("send one for audience %q, as kubectl create token SERVICEACCOUNT --audience=%s makes", audience, audience)
}

// orOffline names the other way to ask.
const orOffline = ", or ask with ?offline=true"

func unauthenticated(w http.ResponseWriter, r *http.Request, detail string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="curfew"`)
	WriteProblem(w, r, http.StatusUnauthorized, detail)
}

// maxToken bounds the token that is sent to the API server, in bytes. A ServiceAccount has one of
// about a thousand.
const maxToken = 16 << 10

// bearer is the token of a request (RFC 6750); empty if there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Authorizer reports the permissions of a user.
type Authorizer interface {
	// Allows reports whether a user may send a request.
	Allows(ctx context.Context, user authenticationv1.UserInfo, request authorizer.AttributesRecord) (bool, error)
}

// authorized lets a request about the cluster pass only if its user may send it: the answer shows
// settings of namespaces.
func authorized(users Authorizer, log logr.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if queryOf(r).offline {
				next.ServeHTTP(w, r)
				return
			}
			user, path, verb := userOf(r), r.URL.Path, strings.ToLower(r.Method)
			allowed, err := users.Allows(r.Context(), user, authorizer.AttributesRecord{Path: path, Verb: verb})
			if err != nil {
				log.Error(err, "access review failed", "path", path, "user", user.Username)
				WriteProblem(w, r, http.StatusServiceUnavailable, "the cluster could not be asked what you may do: try again later")
				return
			}
			if !allowed {
				WriteProblem(w, r, http.StatusForbidden, fmt.Sprintf(
					"user %q may not %s %s: have a ClusterRole with nonResourceURLs %[3]s and verbs %[2]s bound to you%[4]s",
					user.Username, verb, path, orOffline))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
