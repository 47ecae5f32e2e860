package cleanup

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy/v1alpha1"
)

func (c *cluster) condition(kind string) string {
	found := meta.FindStatusCondition(c.status.Conditions, kind)
	if found == nil {
		return "none"
	}
	return string(found.Status) + " " + found.Reason + " " + found.Message
}

// A run whose account loses its permissions is stalled and says so, waits, and goes on once they
// are granted again: everything is deleted, and counted once.
func TestPermissionRevokedInMidRun(t *testing.T) {
	defer small(2)()
	c := newCluster(t)
	refused := engine.Refused
	c.answer = func(string) *engine.Result {
		if c.lacks = c.lacks || len(c.sent) >= 2; c.lacks {
			return &refused
		}
		return nil
	}
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	if err := c.work(t.Context(), p); !isForbidden(err) || len(c.sent) == 0 {
		t.Fatalf("the run ended with %v after %v", err, c.sent)
	}
	deleted := len(c.sent)
	if err := c.work(t.Context(), p); !isForbidden(err) {
		t.Errorf("the run went on with %v", err)
	}
	if got := c.condition(v1alpha1.ConditionStalled); c.status.LastRun.Phase != v1alpha1.RunRunning || len(got) < 14 || got[:14] != "True Forbidden" {
		t.Errorf("%s, stalled: %s", c.status.LastRun.Phase, got)
	}
	if got := c.condition(v1alpha1.ConditionPermissionsGranted); len(got) < 15 || got[:15] != "False Forbidden" || len(c.sent) != deleted {
		t.Errorf("permissions: %s; deleted %v", got, c.sent)
	}
	c.lacks, c.answer = false, nil
	if err := c.work(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	c.check("after the permission was granted again")
	if got := c.condition(v1alpha1.ConditionPermissionsGranted); got != "True Granted " {
		t.Errorf("permissions: %s", got)
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
		cur := &current{object: &unstructured.Unstructured{}, policy: p, now: now, ledger: &ledger{store: c}}
		if err := process.checkPermissions(t.Context(), cur); err != nil {
			t.Fatal(err)
		}
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
