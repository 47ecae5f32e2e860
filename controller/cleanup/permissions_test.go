package cleanup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

func (c *cluster) condition(kind string) string {
	found := meta.FindStatusCondition(c.status.Conditions, kind)
	if found == nil {
		return "none"
	}
	return string(found.Status) + " " + found.Reason + " " + found.Message
}

// A run whose account lacks a permission is stalled and says so, and waits, also for one of its
// kinds or for what its conditions read (S10). It goes on once the permission is granted:
// everything is deleted, and counted once.
func TestPermissionRevokedInMidRun(t *testing.T) {
	for name, c := range map[string]struct {
		after   int    // so many deletions; 0: the account never had it
		lacksOf string // "": of everything
		says    string
		edit    func(*v1alpha1.CleanupSpec)
	}{
		"in mid-run":         {2, "", "service account / may not list configmaps", nothing},
		"from the beginning": {0, "", "service account / may not list configmaps", nothing},
		"for one of its kinds": {2, "secrets", "service account / may not list secrets", func(s *v1alpha1.CleanupSpec) {
			s.MatchConstraints.ResourceRules[0].Resources = []string{"configmaps", "secrets"}
		}},
		"to get what namespaceObject shows": {0, "namespaces", "service account / may not get namespaces", func(s *v1alpha1.CleanupSpec) {
			s.Conditions = []v1alpha1.CleanupCondition{{Name: "x", Expression: `namespaceObject.metadata.name == "ci"`}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(2)()
			api, p := newCluster(t), tmpPolicy(t, c.edit)
			revoke := func() { api.lacks, api.lacksOf = c.lacksOf == "", c.lacksOf }
			if c.after == 0 {
				revoke()
			}
			api.answer = func(string) *expire.Ending {
				if api.lacks || api.lacksOf != "" || len(api.sent) >= c.after {
					revoke()
					return new(expire.Refused)
				}
				return nil
			}
			if err := api.work(t.Context(), p); !isForbidden(err) || (len(api.sent) == 0) != (c.after == 0) {
				t.Fatalf("the run ended with %v after %v", err, api.sent)
			}
			deleted := len(api.sent)
			api.answer = nil
			if err := api.work(t.Context(), p); !isForbidden(err) || len(api.sent) != deleted || c.after == 0 && api.lists > 0 {
				t.Errorf("the run went on with %v after %d lists: deleted %v", err, api.lists, api.sent)
			}
			stalled, granted := api.condition(v1alpha1.ConditionStalled), api.condition(v1alpha1.ConditionPermissionsGranted)
			if api.status.LastRun.Phase != v1alpha1.RunRunning || !strings.HasPrefix(stalled, "True Forbidden") || !strings.Contains(stalled, c.says) || !strings.HasPrefix(granted, "False Forbidden") {
				t.Errorf("%s, stalled: %s, permissions: %s", api.status.LastRun.Phase, stalled, granted)
			}
			api.lacks, api.lacksOf = false, ""
			must(t, api.work(t.Context(), p))
			api.check("after the permission was granted")
			if got := api.condition(v1alpha1.ConditionPermissionsGranted); got != "True Granted " {
				t.Errorf("permissions: %s", got)
			}
		})
	}
}

// A run that waits for a permission asks until a few are missing, not for each namespace every
// time.
func TestForbiddenRunAsksLittle(t *testing.T) {
	c := newCluster(t)
	c.lacks = true
	for i := range 40 {
		c.namespaces = append(c.namespaces, resolution.ParseNamespace(fmt.Sprint("n", i), nil, map[string]string{"team": "a"}))
	}
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	})
	for i, most := range []int{50, maxLacks + 1, maxLacks + 1} {
		before := c.asked
		if err := c.work(t.Context(), p); !isForbidden(err) {
			t.Errorf("the run ended with %v", err)
		}
		if asked := c.asked - before; asked > most {
			t.Errorf("attempt %d asked %d times, want at most %d", i+1, asked, most)
		}
	}
}

// Missing permissions show before the first run. They are asked for when a policy is new or
// changed, and again after some minutes.
func TestPermissionsBetweenRuns(t *testing.T) {
	c := newCluster(t)
	c.lacks = true
	process := c.controller()
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	now := start
	check := func(want string, asks bool) {
		t.Helper()
		before := c.asked
		must(t, process.review(t.Context(), c.cur(p, now), time.Minute))
		if got := c.condition(v1alpha1.ConditionPermissionsGranted); got != want || (c.asked > before) != asks {
			t.Errorf("%s, want %s; asked %d times", got, want, c.asked-before)
		}
	}
	const lacks, granted = "False Forbidden service account / may not list configmaps", "True Granted "
	check(lacks, true)
	c.lacks = false
	check(lacks, false)
	now = now.Add(2 * permissionsEvery)
	check(granted, true)
	check(granted, false)
	c.lacks, p.Generation = true, p.Generation+1
	check(lacks, true)
	if requests := c.requests; requests != 3 || c.lists != 0 {
		t.Errorf("%d requests, want a write for each change; %d lists", requests, c.lists)
	}
}

// A policy whose account never had all permissions is resumed after a crash: it waits for no more
// than it had when it began.
func TestPartialRightsAreResumed(t *testing.T) {
	defer small(2)()
	c := newCluster(t)
	c.lacksOf = "secrets"
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.MatchConstraints.ResourceRules[0].Resources = []string{"secrets", "configmaps"}
	})
	if err := c.controller().checkPermissions(t.Context(), c.cur(p, start)); err != nil || !strings.HasPrefix(c.condition(v1alpha1.ConditionPermissionsGranted), "False Forbidden") {
		t.Fatal(err, c.condition(v1alpha1.ConditionPermissionsGranted))
	}
	c.answer = func(string) *expire.Ending { // Pages are deleted side by side: the second DELETE that comes.
		if len(c.sent) > 0 {
			c.dead = true
		}
		return nil
	}
	if _ = c.work(t.Context(), p); len(c.sent) == 0 || c.status.LastRun == nil {
		t.Fatal("it was killed too early")
	}
	c.dead, c.answer = false, nil
	must(t, c.work(t.Context(), p))
	c.check("after a crash")
	if got := c.condition(v1alpha1.ConditionPermissionsGranted); !strings.HasPrefix(got, "False Forbidden") {
		t.Error(got)
	}
}

// A run that ends for another reason does not claim permissions that its account lacks.
func TestStalledRunReportsMissingPermissions(t *testing.T) {
	c := newCluster(t)
	c.lacksOf = "secrets"
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.MatchConstraints.ResourceRules[0].Resources = []string{"secrets", "configmaps"}
		s.MaxDeletions = new(int64(1))
	})
	if err := c.work(t.Context(), p); err != nil || c.status.LastRun.Phase != v1alpha1.RunStalled {
		t.Fatal(err, c.status.LastRun)
	}
	if got := c.condition(v1alpha1.ConditionPermissionsGranted); !strings.HasPrefix(got, "False Forbidden") {
		t.Error(got)
	}
}
