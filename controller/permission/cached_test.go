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

// What is granted is asked for once a minute and namespace. What is not, each time: a permission
// counts as soon as it is granted.
func TestCached(t *testing.T) {
	granted, rules, access := "list", 0, 0
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectrulesreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		rules++
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectRulesReview)
		if review.Spec.Namespace != Nowhere {
			review.Status.ResourceRules = []authorizationv1.ResourceRule{
				{Verbs: []string{granted}, APIGroups: []string{""}, Resources: []string{"pods"}},
				{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"one"}},
			}
		}
		return true, review, nil
	})
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		access++
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = review.Spec.ResourceAttributes.Verb == granted && review.Spec.ResourceAttributes.Namespace == "ci"
		return true, review, nil
	})
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	authorization := client.AuthorizationV1()
	c := NewCached(Reviews{Access: authorization.SelfSubjectAccessReviews(), RulesOf: authorization.SelfSubjectRulesReviews()}, clock)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	ask := func(namespace, want string, wantRules, wantAccess int) {
		t.Helper()
		got, err := c.LacksIn(t.Context(), namespace, []Need{{Verb: "list", Resource: pods}, {Verb: "delete", Resource: pods}})
		if err != nil || fmt.Sprint(got) != want || rules != wantRules || access != wantAccess {
			t.Errorf("lacks %v, %v after %d and %d reviews, want %s after %d and %d", got, err, rules, access, want, wantRules, wantAccess)
		}
	}
	ask("ci", "[delete pods]", 1, 1)
	ask("ci", "[delete pods]", 1, 2)
	granted = "delete"
	ask("ci", "[]", 1, 3)
	clock.Step(time.Hour)
	ask("ci", "[list pods]", 2, 4)
	ask("", "[list pods delete pods]", 3, 6)
}
