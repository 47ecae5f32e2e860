package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer reports the permissions of a user.
type Authorizer interface {
	// Allows reports whether a user may send a request.
	Allows(ctx context.Context, user authenticationv1.UserInfo, request authorizer.AttributesRecord) (bool, error)
}

// orOffline names the other way to ask.
const orOffline = ", or ask with ?offline=true"

// maxToken bounds the token that is sent to the API server, in bytes. A ServiceAccount has one of
// about a thousand.
const maxToken = 16 << 10

// authenticated returns the user of a request about the cluster: it needs a valid token of the
// cluster.
func (s *service) authenticated(w http.ResponseWriter, r *http.Request) (authenticationv1.UserInfo, *Problem) {
	none := authenticationv1.UserInfo{}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ") // RFC 6750
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return none, unauthenticated(w, "no token: send the header Authorization: Bearer TOKEN"+orOffline)
	}
	if len(token) > maxToken {
		return none, unauthenticated(w, fmt.Sprintf("the token has %d bytes, and at most %d are read: %s", len(token), maxToken, s.newToken()))
	}
	if s.authenticating.Acquire(r.Context(), 1) != nil {
		return none, tooBusy(w)
	}
	user, known, err := s.authenticate(r.Context(), token)
	s.authenticating.Release(1)
	if err != nil {
		s.Logger.Error(err, "token review failed", "path", r.URL.Path)
		return none, problem(http.StatusServiceUnavailable, "the cluster could not be asked who you are: try again later")
	}
	if !known {
		return none, unauthenticated(w, "the cluster does not know the token, or it has another audience: "+s.newToken())
	}
	return user, nil
}

// authenticate finds the user of a token. It returns false for an invalid token, and an error if the
// cluster cannot be asked.
func (s *service) authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	spec := authenticationv1.TokenReviewSpec{Token: token}
	if s.Audience != "" {
		spec.Audiences = []string{s.Audience}
	}
	review, err := s.TokenReviews.Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	// An authenticator that ignores audiences returns none.
	meant := s.Audience == "" || slices.Contains(review.Status.Audiences, s.Audience)
	return review.Status.User, meant && review.Status.Authenticated && review.Status.User.Username != "", nil
}

// newToken says how to make a token with the audience.
func (s *service) newToken() string {
	if s.Audience == "" {
		return "send one as kubectl create token makes"
	}
	return fmt.Sprintf("send one for audience %q, as kubectl create token SERVICEACCOUNT --audience=%[1]s makes", s.Audience)
}

func unauthenticated(w http.ResponseWriter, detail string) *Problem {
	w.Header().Set("WWW-Authenticate", `Bearer realm="curfew"`)
	return problem(http.StatusUnauthorized, detail)
}

// authorized returns the problem of a user who may not send a request about the cluster: the answer
// shows settings of namespaces.
func (s *service) authorized(r *http.Request, user authenticationv1.UserInfo) *Problem {
	path, verb := r.URL.Path, strings.ToLower(r.Method)
	allowed, err := s.Authorizer.Allows(r.Context(), user, authorizer.AttributesRecord{Path: path, Verb: verb})
	if err != nil {
		s.Logger.Error(err, "access review failed", "path", path, "user", user.Username)
		return problem(http.StatusServiceUnavailable, "the cluster could not be asked what you may do: try again later")
	}
	if !allowed {
		return problem(http.StatusForbidden, fmt.Sprintf("user %q may not %s %s: have a ClusterRole with nonResourceURLs %[3]s and verbs %[2]s bound to you%[4]s",
			user.Username, verb, path, orOffline))
	}
	return nil
}
