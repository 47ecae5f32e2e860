package cleanup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// minUnusedPolicy is a daily policy that deletes ConfigMaps which have been unused for a time.
func minUnusedPolicy(t *testing.T, least v1alpha1.Duration, edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy {
	return unusedPolicy(t, 0, func(s *v1alpha1.CleanupSpec) {
		if s.MinUnused = new(least); edit != nil {
			edit(s)
		}
	})
}

// onTime runs the policy on days, each on time.
func (c *cluster) onTime(p *cleanup.Policy, days ...int) {
	c.t.Helper()
	for _, day := range days {
		c.late = time.Duration(day) * 24 * time.Hour
		c.days(p, day)
	}
}

// An object is deleted once it has matched for two days.
func TestMinUnused(t *testing.T) {
	inTheThirdRun(t, minUnusedPolicy(t, "2d", nil), "4 ConfigMap ci/tmp-1: unused since 2026-12-01T02:00:00Z, deleted at about 2026-12-03T02:00:00Z: see minUnused")
}

// An object whose condition has no answer in one run starts again, and no other does.
func TestMinUnusedOfAnUnknownObject(t *testing.T) {
	c := newCluster(t)
	p := minUnusedPolicy(t, "2d", func(s *v1alpha1.CleanupSpec) {
		s.Conditions = []v1alpha1.CleanupCondition{{Name: "known", Expression: `int(object.metadata.annotations["n"]) > 0`}}
	})
	c.unused(true, "tmp-1", "tmp-2")
	for _, name := range []string{"tmp-1", "tmp-2"} {
		c.objects[name].Annotations = map[string]string{"n": "1"}
	}
	c.onTime(p, 0)
	c.objects["tmp-2"].Annotations["n"] = "unreadable"
	c.onTime(p, 1)
	if got := c.skipped(); !strings.Contains(got, "ConfigMap ci/tmp-2: spec.conditions[0] (known)") {
		t.Errorf("skipped %s", got)
	}
	c.objects["tmp-2"].Annotations["n"] = "1"
	for i, want := range []string{"2 3 4 5", "2 3 4 5", "3 4 5"} {
		if c.onTime(p, 2+i); c.left() != want {
			t.Errorf("run %d left %s, want %s", 3+i, c.left(), want)
		}
	}
}

// An object that is used when it is about to be deleted starts again.
func TestMinUnusedOfALiveRead(t *testing.T) { startsAgain(t, minUnusedPolicy(t, "1d", nil)) }

// maxDeletions counts only what has been unused for long enough.
func TestMinUnusedAndLimits(t *testing.T) {
	c := newCluster(t)
	p := minUnusedPolicy(t, "1d", func(s *v1alpha1.CleanupSpec) { s.MaxDeletions = new(int64(2)) })
	c.unused(true, "tmp-1", "tmp-2")
	c.onTime(p, 0)
	c.unused(true, "tmp-3", "tmp-4", "tmp-5")
	c.onTime(p, 1)
	if run := c.status.LastRun; run.Phase != v1alpha1.RunCompleted || c.left() != "3 4 5" {
		t.Errorf("run %+v left %s", run, c.left())
	}
	if c.onTime(p, 2); c.status.LastRun.Phase != v1alpha1.RunStalled || c.left() != "3 4 5" {
		t.Errorf("run %+v left %s", c.status.LastRun, c.left())
	}
}

// A run writes one Event in each namespace, on the object that is deleted first. So does a dry run
// whose time counts, because an approval can end it. A dry run by the policy writes none.
func TestUnusedEvents(t *testing.T) {
	before := maxUnused
	defer func() { maxUnused = before }()
	maxUnused = 2
	for name, row := range map[string]struct{ policy, controller, unapproved bool }{
		"live": {}, "dryRun of the policy": {policy: true}, "--dry-run": {controller: true}, "not approved": {unapproved: true},
	} {
		c := newCluster(t)
		for _, name := range []string{"tmp-1", "tmp-2", "tmp-3", "tmp-4"} {
			c.unused(true, name)
		}
		c.objects["tmp-3"].Namespace, c.objects["tmp-4"].Namespace = "other", "too-many"
		c.unused(false, "tmp-1")
		p := minUnusedPolicy(t, "2d", func(s *v1alpha1.CleanupSpec) {
			if s.DryRun = row.policy; row.unapproved {
				s.Approval = v1alpha1.ApprovalRequired
			}
		})
		var events []string
		for day := range 2 {
			process := c.controller()
			process.options.DryRun = row.controller
			process.options.Objects = approvals(p.UID, p.Hash, func() bool { return false })
			process.options.Event = func(object *unstructured.Unstructured, kind, reason, message string) {
				if reason == "Unused" {
					events = append(events, fmt.Sprintf("%s %s %s/%s %s: %s", kind, object.GetKind(), object.GetNamespace(), object.GetName(), object.GetUID(), message))
				}
			}
			c.late = time.Duration(day) * 24 * time.Hour
			due := start.AddDate(0, 0, day)
			must(t, process.start(t.Context(), c.cur(p, due), due))
			c.unused(true, "tmp-1")
		}
		const rest = ", by cleanup/p: use them, or set annotation curfew.dev/protect"
		want := []string{
			"Normal ConfigMap ci/tmp-2 uid-tmp-2: unused objects: 1, first deletion at about 2026-12-03T02:00:00Z" + rest,
			"Normal ConfigMap other/tmp-3 uid-tmp-3: unused objects: 1, first deletion at about 2026-12-03T02:00:00Z" + rest,
			"Normal ConfigMap ci/tmp-2 uid-tmp-2: unused objects: 2, first deletion at about 2026-12-03T02:00:00Z" + rest,
			"Normal ConfigMap other/tmp-3 uid-tmp-3: unused objects: 1, first deletion at about 2026-12-03T02:00:00Z" + rest,
		}
		if row.policy {
			want = nil
		}
		if !slices.Equal(events, want) {
			t.Errorf("%s: events\n%s\nwant\n%s", name, strings.Join(events, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Owners are told before: what no Event announces, for lack of room or behind consecutiveRuns, is not
// deleted when the time of others ends.
func TestUnusedIsAnnouncedFirst(t *testing.T) {
	before := maxUnused
	defer func() { maxUnused = before }()
	maxUnused = 1
	c := newCluster(t)
	p := minUnusedPolicy(t, "2d", func(s *v1alpha1.CleanupSpec) { s.ConsecutiveRuns = 3 })
	c.unused(true, "tmp-1", "tmp-4")
	c.objects["tmp-4"].Namespace = "too-many"
	for day, want := range []string{"1 2 3 4 5", "1 2 3 4 5", "2 3 4 5", "2 3 4 5", "2 3 5"} {
		if c.onTime(p, day); c.left() != want {
			t.Errorf("run %d left %s, want %s", day+1, c.left(), want)
		}
		if day < 2 && !strings.Contains(c.skipped(), "unused since") {
			t.Errorf("run %d skipped %s", day+1, c.skipped())
		}
	}
}

// A run that stalls announces nothing, so that the time of what is new in it does not begin.
func TestUnusedInAStalledRun(t *testing.T) {
	c := newCluster(t)
	p := minUnusedPolicy(t, "1d", func(s *v1alpha1.CleanupSpec) { s.MaxDeletions = new(int64(2)) })
	c.unused(true, "tmp-1", "tmp-2", "tmp-3")
	c.onTime(p, 0)
	c.unused(true, "tmp-4")
	if c.onTime(p, 1); c.status.LastRun.Phase != v1alpha1.RunStalled {
		t.Fatalf("run %+v", c.status.LastRun)
	}
	c.unused(false, "tmp-1", "tmp-2")
	for day, want := range []string{"1 2 4 5", "1 2 5"} {
		if c.onTime(p, 2+day); c.left() != want {
			t.Errorf("run %d left %s, want %s", 3+day, c.left(), want)
		}
	}
}

// A policy that waits for an approval makes dry runs, and their time counts: each announces.
func TestMinUnusedBeforeAnApproval(t *testing.T) {
	c := newCluster(t)
	p := minUnusedPolicy(t, "2d", nil)
	c.unused(true, "tmp-1")
	for day := range 3 {
		c.late = time.Duration(day) * 24 * time.Hour
		process := c.controller()
		process.options.DryRun = day < 2 // As without an approval: the spec does not change.
		due := start.AddDate(0, 0, day)
		must(t, process.start(t.Context(), c.cur(p, due), due))
	}
	if c.left() != "2 3 4 5" {
		t.Errorf("left %s", c.left())
	}
}

// Runs with minUnused are killed at each of their requests, as in [TestConsecutiveRunsKilled].
func TestMinUnusedKilled(t *testing.T) { killEachRun(t, minUnusedPolicy(t, "2d", nil)) }

func killEachRun(t *testing.T, p *cleanup.Policy) {
	defer small(2)()
	defer smallMatches(2)()
	for day := range 4 {
		requests := 1
		for index := 1; index <= requests; index++ {
			for _, after := range []bool{false, true} {
				c := newCluster(t)
				c.unused(true, "tmp-1", "tmp-2", "tmp-3", "tmp-5")
				for i := range 4 {
					if i == 1 {
						c.unused(true, "tmp-4")
					}
					c.requests, c.late = 0, time.Duration(i)*24*time.Hour
					if i == day {
						c.killAt, c.after = index, after
						_ = c.day(t.Context(), p, i)
						requests = max(requests, c.requests+1)
						if !c.dead {
							requests = index // It has no such request.
						}
						c.dead, c.killAt = false, 0
					}
					c.days(p, i)
					if want := []string{"1 2 3 4 5", "1 2 3 4 5", "4", ""}[i]; c.left() != want {
						t.Fatalf("run %d killed at request %d (after: %v): run %d left %q, want %q", day, index, after, i, c.left(), want)
					}
				}
				if c.status.Deleted != 5 || len(c.sent) != 5 || len(c.status.UncountedDeletions) > 0 || len(c.status.Runs) != 4 {
					t.Fatalf("run %d killed at request %d (after: %v): %d counted, %v sent, runs %v", day, index, after, c.status.Deleted, c.sent, c.status.Runs)
				}
			}
		}
		t.Logf("run %d: %d requests", day, requests)
	}
}
