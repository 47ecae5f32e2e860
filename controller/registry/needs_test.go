package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/policy"
)

// A permission that finish times or deadlines take is asked for at the start. What lacks it is said, by log and metric, until it is
// granted; what does not take it goes on.
func TestPermissionsToPatchAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		granted, lines := false, []string{}
		c, r := begin(t, func(_ *cluster, r *Registry) {
			r.options.Typed = append(r.options.Typed, policy.PodProfile.Kind.GroupKind())
			r.options.Lacks = func(_ context.Context, needs []Need) ([]Need, error) {
				mu.Lock()
				defer mu.Unlock()
				if granted {
					return nil, nil
				}
				return needs, nil
			}
			r.log = funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(args, "lacks a permission") {
					lines = append(lines, args)
				}
			}, funcr.Options{})
		})
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(10 * time.Minute)
		c.expect(t, []string{"jobsets"}, nil)
		if n := count(t, r.skipped); n != 2 {
			t.Errorf("%d kinds are said to lack a permission, want Pods and JobSets", n)
		}
		mu.Lock()
		slices.Sort(lines)
		want := []string{`"kind"="JobSet" "missing"="patch jobsets.jobset.x-k8s.io/status"`, `"kind"="Pod" "missing"="patch pods"`}
		if len(lines) != len(want) || !strings.Contains(lines[0], want[0]) || !strings.Contains(lines[1], want[1]) {
			t.Errorf("logged %q, want %q, once each", lines, want)
		}
		granted = true
		mu.Unlock()
		after(2 * recheck)
		if n := count(t, r.skipped); n != 0 {
			t.Errorf("%d kinds are said to lack a permission that was granted", n)
		}
	})
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
	pods := finishNeeds().all[0]
	status := Need{Verb: "patch", Resource: pods.Resource, Subresource: "status"}
	got, err := Reviews{Client: client.AuthorizationV1().SelfSubjectAccessReviews()}.Lacks(t.Context(), []Need{pods, status})
	if err != nil || fmt.Sprint(got) != "[patch pods/status]" {
		t.Errorf("lacks %v, %v", got, err)
	}
}
