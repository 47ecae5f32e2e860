package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// unusedPolicy deletes every ConfigMap with label unused after a number of daily runs.
func unusedPolicy(t *testing.T, runs int32, edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy {
	return tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.Schedule, s.ConsecutiveRuns = "0 2 * * *", runs
		s.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"unused": "true"}}
		if edit != nil {
			edit(s)
		}
	})
}

// day runs the policy on a day, from the start or from where it was killed.
func (c *cluster) day(ctx context.Context, p *cleanup.Policy, day int) error {
	due := start.AddDate(0, 0, day)
	process, cur := c.controller(), c.cur(p, due)
	if run := c.current().LastRun; run != nil && run.ScheduledTime.Time.Equal(due) {
		return process.finish(ctx, cur, true)
	}
	err := process.start(ctx, cur, due)
	return err
}

// unused sets or removes the label of objects.
func (c *cluster) unused(is bool, names ...string) {
	for _, name := range names {
		c.objects[name].Labels = map[string]string{"unused": fmt.Sprint(is)}
		c.objects[name].ResourceVersion += "1"
	}
}

// left are the tmp ConfigMaps that are not being deleted.
func (c *cluster) left() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		if strings.HasPrefix(name, "tmp-") && c.objects[name].DeletionTimestamp == nil {
			out = append(out, name[len("tmp-"):])
		}
	}
	return strings.Join(out, " ")
}

// skipped is how many objects the last run kept, and why.
func (c *cluster) skipped() string {
	var out []string
	for _, skipCount := range c.status.LastRun.Skipped {
		out = append(out, fmt.Sprintf("%d %s", skipCount.Count, skipCount.Message))
	}
	return strings.Join(out, "; ")
}

func (c *cluster) days(p *cleanup.Policy, days ...int) {
	c.t.Helper()
	for _, day := range days {
		must(c.t, c.day(c.t.Context(), p, day))
	}
}

// An object is deleted in the third run in a row that matches it, and not if it did not match in
// between, was created again, was protected, or began to match later.
func TestConsecutiveRuns(t *testing.T) {
	inTheThirdRun(t, unusedPolicy(t, 3, nil), "4 ConfigMap ci/tmp-1: matched in 1 of 3 runs in a row: see consecutiveRuns")
}

func inTheThirdRun(t *testing.T, p *cleanup.Policy, skipped string) {
	defer smallMatches(2)()
	c := newCluster(t)
	c.unused(true, "tmp-1", "tmp-2", "tmp-3", "tmp-5")
	c.onTime(p, 0)
	if got := c.skipped(); got != skipped {
		t.Errorf("the first run skipped %s", got)
	}
	c.unused(false, "tmp-2")
	c.unused(true, "tmp-4")
	c.objects["tmp-5"].Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
	c.onTime(p, 1)
	c.unused(true, "tmp-2")
	c.objects["tmp-3"].UID = "created again"
	c.objects["tmp-5"].Annotations = nil
	for i, want := range []string{"2 3 4 5", "2 3 5", "", ""} {
		c.onTime(p, 2+i)
		if got := c.left(); got != want {
			t.Errorf("run %d left %s, want %s", 3+i, got, want)
		}
	}
	if runs := c.status.Runs; len(runs) != v1alpha1.KeptRuns || runs[0] != runID(start.AddDate(0, 0, 1), "policy") {
		t.Errorf("the last runs of six are %v", runs)
	}
	if c.status.Deleted != 5 || c.status.LastRun.Phase != v1alpha1.RunCompleted {
		t.Errorf("%d deleted, run %+v", c.status.Deleted, c.status.LastRun)
	}
}

// smallMatches makes pages of a few matches.
func smallMatches(size int) (restore func()) {
	before := matchesPerPage
	matchesPerPage = size
	return func() { matchesPerPage = before }
}

// Where the run before is not known, or was another one, each object has matched once. Whatever
// else makes it doubtful since when objects match restarts the time of all (S6).
func TestMinUnusedRestarts(t *testing.T) {
	defer smallMatches(2)()
	const all = "1 2 3 4 5"
	for name, c := range map[string]struct {
		edit func(*cluster, *cleanup.Policy)
		of   func(*v1alpha1.CleanupSpec)
		day  int // of the next run
		left string
		time bool // it is about minUnused alone
	}{
		"nothing":          {day: 1},
		"a missed run":     {day: 2, left: all},
		"a changed policy": {day: 1, of: func(s *v1alpha1.CleanupSpec) { s.IncludeOwned = true }, left: all},
		"a lost page": {day: 1, edit: func(c *cluster, _ *cleanup.Policy) {
			maps.DeleteFunc(c.pages, func(name string, _ v1alpha1.CleanupReportFields) bool { return strings.HasSuffix(name, "-2") })
		}, left: all},
		"a forged page":            {day: 1, edit: func(c *cluster, _ *cleanup.Policy) { c.forgeMatch(0, 1) }, left: all},
		"a forged time":            {day: 1, time: true, edit: func(c *cluster, _ *cleanup.Policy) { c.forgeMatch(cleanup.MatchSize, -1) }, left: all},
		"an object that is new":    {day: 1, edit: func(c *cluster, _ *cleanup.Policy) { c.objects["tmp-4"].UID = "new" }, left: "4"},
		"a forged time of the run": {day: 2, edit: func(c *cluster, _ *cleanup.Policy) { c.status.Matches.ScheduledTime = *tomorrow }, left: all},
		"another run":              {day: 1, edit: func(c *cluster, _ *cleanup.Policy) { c.status.Matches.Run = runID(start, "other") }, left: all},
		"no status":                {day: 1, edit: func(c *cluster, _ *cleanup.Policy) { c.status.Matches = nil }, left: all},
		"a run that listed nothing": {day: 1, edit: func(c *cluster, p *cleanup.Policy) {
			c.unlistable = func() error { return errors.New("broken") }
			c.late = 24 * time.Hour
			if err := c.day(c.t.Context(), p, 1); err == nil {
				c.t.Error("the run did not fail")
			}
			c.unlistable = nil
		}},
		"a late run": {day: 2, time: true, edit: func(c *cluster, p *cleanup.Policy) { c.late = 37 * time.Hour; c.days(p, 1) }, left: all},
	} {
		for _, row := range []struct {
			policy func(edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy
			runs   int // that decide
		}{
			{func(edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy { return unusedPolicy(t, 2, edit) }, 1},
			{func(edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy { return minUnusedPolicy(t, "2d", edit) }, 2},
		} {
			if c.time && row.runs == 1 {
				continue
			}
			t.Run(fmt.Sprint(name, ", ", row.runs), func(t *testing.T) {
				api := newCluster(t)
				api.unused(true, "tmp-1", "tmp-2", "tmp-3", "tmp-4", "tmp-5")
				api.onTime(row.policy(nil), 0)
				if len(api.sent) != 0 || len(api.pages) < 3 {
					t.Fatalf("the first run deleted %v, and left %d pages", api.sent, len(api.pages))
				}
				if c.edit != nil {
					c.edit(api, row.policy(nil))
				}
				for i := range row.runs {
					api.onTime(row.policy(c.of), c.day+i)
				}
				if got := api.left(); got != c.left {
					t.Errorf("left %q, want %q", got, c.left)
				}
			})
		}
	}
}

// forgeMatch changes a byte of each page of matches.
func (c *cluster) forgeMatch(i int, by int8) {
	for name, page := range c.pages {
		page.Matched = slices.Clone(page.Matched)
		page.Matched[i] += byte(by)
		c.pages[name] = page
	}
}

// A status that is set back starts the same run again. The run does not count on from its own
// matches, so nothing is deleted sooner (S6).
func TestTheSameRunAgain(t *testing.T) {
	back := func(instant *metav1.Time) { *instant = metav1.NewTime(instant.AddDate(0, 0, -1)) }
	for name, forge := range map[string]func(*v1alpha1.CleanupPolicyStatus){
		"when it last ran":                          func(s *v1alpha1.CleanupPolicyStatus) { back(s.LastScheduleTime) },
		"when it last ran, and the time of matches": func(s *v1alpha1.CleanupPolicyStatus) { back(s.LastScheduleTime); back(&s.Matches.ScheduledTime) },
		"these, and the run of matches": func(s *v1alpha1.CleanupPolicyStatus) {
			back(s.LastScheduleTime)
			back(&s.Matches.ScheduledTime)
			s.Matches.Run = runID(s.Matches.ScheduledTime.Time, "policy")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			p := unusedPolicy(t, 3, nil)
			c.unused(true, "tmp-1")
			c.days(p, 0, 1)
			forge(&c.status)
			cur := c.cur(p, start.AddDate(0, 0, 1).Add(time.Hour))
			cur.object.SetCreationTimestamp(metav1.NewTime(start.AddDate(0, -1, 0)))
			due, _ := cur.due()
			if !due.Equal(start.AddDate(0, 0, 1)) {
				t.Fatalf("due at %s", due)
			}
			if err := c.controller().start(t.Context(), cur, due); err != nil || len(c.sent) > 0 {
				t.Errorf("%v: deleted %v in the second run", err, c.sent)
			}
		})
	}
}

// A run that is late by more than half an interval does not count for the next one: an object would
// be deleted after less time than the policy says (S6).
func TestLateRunDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		late       time.Duration
		interrupt  bool
		after, end string
	}{
		"in time":                     {late: 12 * time.Hour, after: "1 2 3 4 5", end: ""},
		"late":                        {late: 12*time.Hour + time.Second, after: "1 2 3 4 5", end: "1 2 3 4 5"},
		"interrupted, and late again": {late: 23 * time.Hour, interrupt: true, after: "1 2 3 4 5", end: "1 2 3 4 5"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t)
			p := unusedPolicy(t, 2, nil)
			api.unused(true, "tmp-1", "tmp-2", "tmp-3", "tmp-4", "tmp-5")
			if c.interrupt {
				api.killAt = 4
				_ = api.day(t.Context(), p, 0)
				api.dead, api.killAt = false, 0
			}
			api.late = c.late
			if api.days(p, 0); api.left() != c.after {
				t.Errorf("the late run left %q", api.left())
			}
			api.late = 24 * time.Hour
			if api.days(p, 1); api.left() != c.end {
				t.Errorf("the next run left %q, want %q", api.left(), c.end)
			}
			api.late = 48 * time.Hour
			if api.days(p, 2); api.left() != "" {
				t.Errorf("the third run left %q", api.left())
			}
		})
	}
}

// A late run deletes what has matched often enough before.
func TestLateRunCountsOn(t *testing.T) {
	c := newCluster(t)
	p := unusedPolicy(t, 2, nil)
	c.unused(true, "tmp-1")
	c.days(p, 0)
	c.late = 47 * time.Hour
	if c.days(p, 1); c.left() != "2 3 4 5" {
		t.Errorf("left %q", c.left())
	}
}

// A run that stalls counts: the next one stalls as well, instead of starting again.
func TestStalledRunCounts(t *testing.T) {
	c := newCluster(t)
	p := unusedPolicy(t, 2, func(s *v1alpha1.CleanupSpec) { s.MaxDeletions = new(int64(4)) })
	c.unused(true, "tmp-1", "tmp-2", "tmp-3", "tmp-4", "tmp-5")
	c.days(p, 0)
	if phase := c.status.LastRun.Phase; phase != v1alpha1.RunCompleted {
		t.Errorf("five objects that are not deleted yet: %s", phase)
	}
	c.days(p, 1, 2)
	if run := c.status.LastRun; run.Phase != v1alpha1.RunStalled || len(c.sent) != 0 {
		t.Errorf("run %+v, sent %v", run, c.sent)
	}
	c.unused(false, "tmp-5")
	if c.days(p, 3); c.left() != "5" {
		t.Errorf("left %s", c.left())
	}
}

// What keepNewest keeps does not match, and starts again.
func TestKeptNewestDoNotMatch(t *testing.T) {
	c := newCluster(t)
	p := unusedPolicy(t, 2, func(s *v1alpha1.CleanupSpec) { s.KeepNewest = &v1alpha1.KeepNewest{Count: 2} })
	for i := range 4 {
		name := fmt.Sprintf("tmp-%d", i+1)
		c.unused(true, name)
		c.objects[name].CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i-100) * time.Hour))
	}
	c.days(p, 0) // 3 and 4 are the newest.
	c.unused(true, "tmp-5")
	c.objects["tmp-5"].CreationTimestamp = metav1.NewTime(start)
	for i, want := range []string{"3 4 5", "4 5"} {
		if c.days(p, i+1); c.left() != want {
			t.Errorf("run %d left %s, want %s", i+2, c.left(), want)
		}
	}
}

// Nor does it in a run that stalls, which has no second pass.
func TestKeptNewestDoNotMatchInAStalledRun(t *testing.T) {
	c := newCluster(t)
	p := unusedPolicy(t, 2, func(s *v1alpha1.CleanupSpec) {
		s.KeepNewest, s.MaxDeletions = &v1alpha1.KeepNewest{Count: 1}, new(int64(1))
	})
	for i := range 4 {
		c.objects[fmt.Sprintf("tmp-%d", i+1)].CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i-100) * time.Hour))
	}
	c.unused(true, "tmp-1", "tmp-2", "tmp-3")
	c.days(p, 0, 1) // 3 is the newest.
	if phase := c.status.LastRun.Phase; phase != v1alpha1.RunStalled {
		t.Fatalf("the second run is %s", phase)
	}
	c.unused(false, "tmp-1", "tmp-2")
	c.unused(true, "tmp-4")
	for i, want := range []string{"1 2 3 4 5", "1 2 4 5"} {
		if c.days(p, 2+i); c.left() != want {
			t.Errorf("run %d left %s, want %s", 3+i, c.left(), want)
		}
	}
}

// An object that does not match when it is about to be deleted starts again.
func TestLiveReadStartsAgain(t *testing.T) { startsAgain(t, unusedPolicy(t, 2, nil)) }

func startsAgain(t *testing.T, p *cleanup.Policy) {
	c := newCluster(t)
	c.unused(true, "tmp-1", "tmp-2")
	c.onTime(p, 0)
	c.answer = func(name string) *expire.Ending {
		if name == "tmp-2" {
			c.unused(false, name)
		}
		return nil
	}
	c.onTime(p, 1)
	c.answer = nil
	c.unused(true, "tmp-2")
	for i, want := range []string{"2 3 4 5", "3 4 5"} {
		if c.onTime(p, 2+i); c.left() != want {
			t.Errorf("run %d left %s, want %s", 3+i, c.left(), want)
		}
	}
}

// So does one that matches in the first pass of a run, and not in the second.
func TestSecondPassStartsAgain(t *testing.T) {
	c := newCluster(t)
	p := unusedPolicy(t, 2, nil)
	c.unused(true, "tmp-1", "tmp-2")
	c.listing = func() {
		if c.lists == 2 {
			c.unused(false, "tmp-2")
		}
	}
	c.days(p, 0)
	c.unused(true, "tmp-2")
	for i, want := range []string{"2 3 4 5", "3 4 5"} {
		if c.days(p, 1+i); c.left() != want {
			t.Errorf("run %d left %s, want %s", 2+i, c.left(), want)
		}
	}
}

// More objects than a run can remember stall it: none is deleted, and all start again.
func TestTooManyMatchesStall(t *testing.T) {
	c := newCluster(t)
	p := unusedPolicy(t, 2, nil)
	c.unused(true, "tmp-1")
	c.days(p, 0)
	for i := range cleanup.MaxMatched {
		name := fmt.Sprintf("tmp-x%06d", i)
		object := c.objects["tmp-1"].DeepCopy()
		object.Name, object.UID = name, types.UID(name)
		c.objects[name] = object
	}
	c.days(p, 1)
	if run := c.status.LastRun; run.Phase != v1alpha1.RunStalled || len(c.sent) != 0 || c.status.Matches != nil {
		t.Errorf("run %+v, %d sent, matches %v", run, len(c.sent), c.status.Matches)
	}
	if got := c.condition(v1alpha1.ConditionStalled); !strings.HasPrefix(got, "True TooManyMatches consecutiveRuns or minUnused would have to remember") {
		t.Errorf("stalled: %s", got)
	}
	maps.DeleteFunc(c.objects, func(name string, _ *metav1.PartialObjectMetadata) bool { return strings.HasPrefix(name, "tmp-x") })
	if c.days(p, 2); len(c.sent) != 0 {
		t.Error("deleted after a run that does not count")
	}
}

// Runs are killed at each of their requests, before and after it takes effect. Each object is
// deleted in its third run all the same, not sooner and not later, and counted once (S6, S7).
func TestConsecutiveRunsKilled(t *testing.T) { killEachRun(t, unusedPolicy(t, 3, nil)) }
