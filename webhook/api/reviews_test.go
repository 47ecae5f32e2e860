package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewer stands for the API server: token "good" is ann's, who may call everything under /v1/.
func reviewer(t *testing.T) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.Method + " " + r.URL.Path {
		case "POST /apis/authentication.k8s.io/v1/tokenreviews":
			var review authenticationv1.TokenReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			switch review.Spec.Token {
			case "good":
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: ann, Audiences: review.Spec.Audiences}
			case "unaware": // of an authenticator that knows no audiences
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: ann}
			case "for another":
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: ann, Audiences: []string{"https://kubernetes.default.svc"}}
			case "nameless":
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true}
			case "forbidden":
				w.WriteHeader(http.StatusForbidden)
				answer = apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", errors.New("not you")).Status()
			}
			if answer == nil {
				answer = review
			}
		case "POST /apis/authorization.k8s.io/v1/subjectaccessreviews":
			var review authorizationv1.SubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			want := authorizationv1.SubjectAccessReviewSpec{User: "ann", UID: "7", Groups: []string{"ci"}, Extra: map[string]authorizationv1.ExtraValue{"x": {"y"}}}
			if resource := review.Spec.ResourceAttributes; resource != nil {
				want.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "get", Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes", Namespace: "ci", Name: resource.Name}
				review.Status.Allowed = resource.Name == "torch"
			} else {
				path := review.Spec.NonResourceAttributes.Path
				want.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: path, Verb: "post"}
				review.Status.Allowed = strings.HasPrefix(path, "/v1/")
				review.Status.Denied = path == "/v1/denied"
			}
			if !reflect.DeepEqual(review.Spec, want) {
				t.Errorf("asked for %+v, want %+v", review.Spec, want)
			}
			answer = review
		default:
			t.Errorf("got %s %s, want only TokenReviews and SubjectAccessReviews", r.Method, r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

var ann = authenticationv1.UserInfo{
	Username: "ann", UID: "7", Groups: []string{"ci"}, Extra: map[string]authenticationv1.ExtraValue{"x": {"y"}},
}

func TestTokenReviews(t *testing.T) {
	client, err := authenticationclient.NewForConfig(reviewer(t))
	must(t, err)
	reviews := NewTokenReviews(client.TokenReviews(), "curfew.dev")
	if user, ok, err := reviews.Authenticate(t.Context(), "good"); err != nil || !ok || !reflect.DeepEqual(user, ann) {
		t.Errorf("a good token: %+v, %v, %v", user, ok, err)
	}
	for _, token := range []string{"bad", "nameless", "unaware", "for another"} {
		if _, ok, err := reviews.Authenticate(t.Context(), token); err != nil || ok {
			t.Errorf("token %s: authenticated %v, error %v; want neither", token, ok, err)
		}
	}
	if _, ok, err := NewTokenReviews(client.TokenReviews(), "").Authenticate(t.Context(), "unaware"); err != nil || !ok {
		t.Errorf("for the API server's audience: %v, %v", ok, err)
	}
	if _, ok, err := reviews.Authenticate(t.Context(), "forbidden"); ok || !apierrors.IsForbidden(err) {
		t.Errorf("without the right to ask: %v, %v", ok, err)
	}
}

func TestAccessReviews(t *testing.T) {
	client, err := authorizationclient.NewForConfig(reviewer(t))
	must(t, err)
	reviews := NewAccessReviews(client.SubjectAccessReviews())
	for path, want := range map[string]bool{PathValidate: true, "/metrics": false, "/v1/denied": false} {
		if have, err := reviews.Authorize(t.Context(), ann, path, "post"); err != nil || have != want {
			t.Errorf("path %s: allowed %v, error %v; want %v", path, have, err, want)
		}
	}
	runtimes := schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes"}
	for name, want := range map[string]bool{"torch": true, "jax": false} {
		if have, err := reviews.MayGet(t.Context(), ann, runtimes, "ci", name); err != nil || have != want {
			t.Errorf("runtime %s: readable %v, error %v; want %v", name, have, err, want)
		}
	}
}
