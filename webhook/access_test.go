package webhook

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/policy/platform"
)

// answers is an AccessReviewer over a table of user names, which counts.
type answers struct {
	of    map[string]bool
	err   error
	asked []string
	last  authorizationv1.ResourceAttributes
}

func (a *answers) May(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	a.asked = append(a.asked, user.Username)
	a.last = what
	return a.of[user.Username], a.err
}

func TestCachedReviews(t *testing.T) {
	behind := &answers{of: map[string]bool{"ann": true}}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	cached := NewCachedReviews(behind, clock)
	may := func(user authenticationv1.UserInfo, namespace, name string, want bool) {
		t.Helper()
		got, err := cached.May(t.Context(), user, authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: "batch", Resource: "jobs", Name: name,
		})
		if err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	ann, bob := authenticationv1.UserInfo{Username: "ann"}, authenticationv1.UserInfo{Username: "bob"}
	may(ann, "ci", "a", true)
	may(ann, "ci", "b", true) // a loop that creates Jobs asks once
	if len(behind.asked) != 1 || behind.last.Name != "" {
		t.Fatalf("asked %q about name %q, want once and about all names", behind.asked, behind.last.Name)
	}
	may(bob, "ci", "a", false)
	may(ann, "prod", "a", true)
	may(authenticationv1.UserInfo{Username: "bob", Groups: []string{"admins"}}, "ci", "a", false)
	if len(behind.asked) != 4 {
		t.Errorf("asked %q, want anew for another user, namespace and set of groups", behind.asked)
	}
	behind.of["bob"] = true
	may(bob, "ci", "a", false)
	clock.Step(keepAnswers)
	may(bob, "ci", "a", true) // a role that was granted meanwhile
	behind.err = errors.New("no answer")
	clock.Step(keepAnswers)
	for range 2 {
		if _, err := cached.May(t.Context(), ann, authorizationv1.ResourceAttributes{}); err == nil {
			t.Error("an error was remembered as an answer, or lost")
		}
	}
	behind.err = nil
	for i := range 2 * maxAnswers {
		_, _ = cached.May(t.Context(), ann, authorizationv1.ResourceAttributes{Namespace: string(rune('a' + i))})
	}
	if len(cached.answers) > maxAnswers {
		t.Errorf("%d answers are remembered, want at most %d", len(cached.answers), maxAnswers)
	}
}

// A runtime's TTL has the objects deleted that use it, so that these are what is asked about.
func TestAccessOfWhatUsesARuntime(t *testing.T) {
	known, err := platform.New(builtinProfiles(t))
	if err != nil {
		t.Fatal(err)
	}
	for kind, namespace := range map[string]string{"TrainingRuntime": "ci", "ClusterTrainingRuntime": ""} {
		access := &answers{of: map[string]bool{}}
		w := newWorld(t, func(o *Options) { o.Platform, o.Access, o.RequireDelete = known, access, true })
		response := w.ask(t, ask{path: PathValidate, namespace: namespace,
			object: "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: " + kind + ", metadata: {name: torch, namespace: '" + namespace + "', annotations: {curfew.dev/ttl-after-finished: 1d}}, spec: {}}"})
		if response.Allowed {
			t.Errorf("%s: allowed, though nobody may delete TrainJobs", kind)
		}
		want := authorizationv1.ResourceAttributes{Namespace: namespace, Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
		if access.last != want {
			t.Errorf("%s: asked about %+v, want %+v", kind, access.last, want)
		}
	}
}
