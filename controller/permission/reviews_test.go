package permission

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/controller/watch"
)

// Anyone may bind a Role of any size to Curfew in a namespace. A long answer is not read; Curfew
// asks for each kind then.
func TestLongRules(t *testing.T) {
	for name, c := range map[string]struct {
		size       int
		incomplete bool
	}{"short": {100 << 10, false}, "long": {1 << 20, true}} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","status":{"resourceRules":[{"verbs":["*"],"resourceNames":[%q]}]}}`,
					strings.Repeat("x", c.size))
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			config.Wrap(watch.Cap)
			client, err := authorizationclient.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			grants, err := Reviews{RulesOf: client.SelfSubjectRulesReviews()}.Rules(t.Context(), "ci")
			if err != nil || grants.Incomplete != c.incomplete || (len(grants.Rules) == 0) != c.incomplete {
				t.Errorf("%d rules, incomplete %v, %v", len(grants.Rules), grants.Incomplete, err)
			}
		})
	}
}

// The API server is asked for just the verb and subresource.
func TestLacks(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb == "patch" && asked.Resource == "pods" && asked.Subresource == ""
		return true, review, nil
	})
	pods := Need{Verb: "patch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	status := Need{Verb: "patch", Resource: pods.Resource, Subresource: "status"}
	got, err := Reviews{Access: client.AuthorizationV1().SelfSubjectAccessReviews()}.LacksIn(t.Context(), "", []Need{pods, status})
	if err != nil || fmt.Sprint(got) != "[patch pods/status]" {
		t.Errorf("lacks %v, %v", got, err)
	}
}
