package permission

import (
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// A granted permission is asked for once a minute, account and namespace. A refused one is asked
// for each time: it counts as soon as it is granted. Nothing lists all permissions.
func TestCached(t *testing.T) {
	granted, asked := "list", 0
	client := fake.NewClientset()
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		review, ok := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			t.Fatalf("asked with %T", action.(clienttesting.CreateAction).GetObject())
		}
		review.Status.Allowed = review.Spec.ResourceAttributes.Verb == granted && review.Spec.ResourceAttributes.Namespace == "ci"
		return true, review, nil
	})
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	authorization := client.AuthorizationV1()
	reviews := Reviews{Access: authorization.SelfSubjectAccessReviews(), RulesOf: authorization.SelfSubjectRulesReviews()}
	c := NewCached(clock)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	ask := func(account, namespace, want string, wantAsked int) {
		t.Helper()
		asked = 0
		got, err := c.LacksIn(t.Context(), account, reviews, namespace, []Need{{Verb: "list", Resource: pods}, {Verb: "delete", Resource: pods}})
		if err != nil || fmt.Sprint(got) != want || asked != wantAsked {
			t.Errorf("lacks %v, %v after %d reviews, want %s after %d", got, err, asked, want, wantAsked)
		}
	}
	ask("a", "ci", "[delete pods]", 2)
	ask("a", "ci", "[delete pods]", 1)
	ask("b", "ci", "[delete pods]", 2)
	granted = "delete"
	ask("a", "ci", "[]", 1)
	ask("a", "ci", "[]", 0)
	clock.Step(time.Hour)
	ask("a", "ci", "[list pods]", 2)
	ask("a", "", "[list pods delete pods]", 2)
}
