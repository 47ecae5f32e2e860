package permission

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

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
