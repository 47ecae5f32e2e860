package api

import (
	"errors"
	"reflect"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestTokenReviews(t *testing.T) {
	ann := authenticationv1.UserInfo{
		Username: "ann", UID: "7", Groups: []string{"ci"}, Extra: map[string]authenticationv1.ExtraValue{"x": {"y"}},
	}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if review.Spec.Token == "forbidden" {
			return true, nil, apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", errors.New("not you"))
		}
		review.Status = map[string]authenticationv1.TokenReviewStatus{
			"good":        {Authenticated: true, User: ann, Audiences: review.Spec.Audiences},
			"unaware":     {Authenticated: true, User: ann}, // of an authenticator that knows no audiences
			"for another": {Authenticated: true, User: ann, Audiences: []string{"https://kubernetes.default.svc"}},
			"nameless":    {Authenticated: true},
		}[review.Spec.Token]
		return true, review, nil
	})
	reviews := &service{Decisions: Decisions{TokenReviews: client.AuthenticationV1().TokenReviews(), Audience: "curfew.dev"}}
	if user, ok, err := reviews.authenticate(t.Context(), "good"); err != nil || !ok || !reflect.DeepEqual(user, ann) {
		t.Errorf("a good token: %+v, %v, %v", user, ok, err)
	}
	for _, token := range []string{"bad", "nameless", "unaware", "for another"} {
		if _, ok, err := reviews.authenticate(t.Context(), token); err != nil || ok {
			t.Errorf("token %s: authenticated %v, error %v; want neither", token, ok, err)
		}
	}
	if _, ok, err := reviews.authenticate(t.Context(), "forbidden"); ok || !apierrors.IsForbidden(err) {
		t.Errorf("without the right to ask: %v, %v", ok, err)
	}
	reviews.Audience = ""
	if _, ok, err := reviews.authenticate(t.Context(), "unaware"); err != nil || !ok {
		t.Errorf("for the API server's audience: %v, %v", ok, err)
	}
}
