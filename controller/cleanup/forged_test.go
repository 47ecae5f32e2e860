package cleanup

import (
	"cmp"
	"context"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// forgery is a policy and a status for it that a tenant wrote.
type forgery struct {
	spec  func(*v1alpha1.CleanupSpec)
	forge func(*v1alpha1.CleanupPolicyStatus)
	// most and least are how many objects all runs together may and must delete.
	most, least int
}

var (
	dry   = func(s *v1alpha1.CleanupSpec) { s.DryRun = true }
	some  = func(s *v1alpha1.CleanupSpec) { s.MaxDeletions, s.OnExceed = new(int64(3)), v1alpha1.ExceedTruncates }
	half  = func(s *v1alpha1.CleanupSpec) { s.MaxPercentage, s.OnExceed = new(int32(43)), v1alpha1.ExceedTruncates } // 3 of 7
	aWeek = func(s *v1alpha1.CleanupSpec) {
		s.Conditions = []v1alpha1.CleanupCondition{{Name: "old", Expression: "now - timestamp(object.metadata.creationTimestamp) > duration('168h')"}}
	}
	nothing = func(*v1alpha1.CleanupSpec) {}
)

// forgeries begin with the run as Curfew began it, or with none.
var forgeries = map[string]forgery{
	"a dry run is not one":    {dry, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.DryRun = false }, 0, 0},
	"a live run is a dry one": {nothing, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.DryRun = true }, 5, 5},
	"it began in fifty years": {aWeek, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.StartTime = metav1.NewTime(start.AddDate(50, 0, 0)) }, 0, 0},
	"it is due in fifty years": {aWeek, func(s *v1alpha1.CleanupPolicyStatus) {
		s.LastRun.ScheduledTime = metav1.NewTime(start.AddDate(50, 0, 0))
	}, 0, 0},
	"deleted less than nothing": {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Deleted = -1_000_000 }, 3, 3},
	"the least number": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		s.LastRun.Deleted, s.LastRun.Lost = math.MinInt64, math.MinInt64
	}, 3, 3},
	"the greatest number": {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Deleted = math.MaxInt64 }, 3, 0},
	"deleted nothing":     {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Deleted = 0 }, 3, 3},
	"no pages":            {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Deleted, s.LastRun.Pages = 0, math.MinInt32 }, 3, 3},
	"too many pages":      {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Deleted, s.LastRun.Pages = 0, math.MaxInt32 }, 3, 3},
	"a percentage":        {half, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Deleted = -1_000_000 }, 3, 3},
	"it runs again": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		s.LastRun.Phase, s.LastRun.Deleted, s.LastRun.Pages = v1alpha1.RunRunning, 0, 0
	}, 3, 3},
	"another run": {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.ID, s.LastRun.Deleted = "another", 0 }, 3, 0},
	"of another day": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		t := start.AddDate(0, 0, -1)
		s.LastRun.ID, s.LastRun.ScheduledTime, s.LastRun.Deleted = runID(t, "policy"), metav1.NewTime(t), 0
	}, 3, 0},
	"of no time of the schedule": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		t := start.Add(-time.Minute)
		s.LastRun.ID, s.LastRun.ScheduledTime, s.LastRun.Deleted = runID(t, "policy"), metav1.NewTime(t), 0
	}, 3, 0},
	"lost all": {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Lost = math.MaxInt64 }, 3, 0},
	"listed and matched": {half, func(s *v1alpha1.CleanupPolicyStatus) {
		s.LastRun.Listed, s.LastRun.Matched = math.MaxInt64, math.MinInt64
	}, 3, 3},
	"another generation":  {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Generation = math.MaxInt64 }, 3, 0},
	"no id":               {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.ID = "" }, 3, 0},
	"no phase":            {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Phase = "" }, 3, 0},
	"it is complete":      {nothing, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun.Phase = v1alpha1.RunCompleted }, 5, 0},
	"no run":              {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun = nil }, 3, 0},
	"it runs, of no time": {dry, func(s *v1alpha1.CleanupPolicyStatus) { *s.LastRun = v1alpha1.CleanupRun{Phase: v1alpha1.RunRunning} }, 0, 0},
}

// A status is input. A user who may write only the status does so while a run is interrupted at any
// request, before or after it took effect, or when it has ended; the run is killed once more while
// it goes on. Spec, clock and limits hold, and each object counts once.
func TestForgedStatuses(t *testing.T) {
	for name, forged := range forgeries {
		t.Run(name, func(t *testing.T) { forged.enumerate(t, (*cluster).work, func(c *cluster) { forged.forge(&c.status) }) })
	}
}

// damages are what a user who may write only report pages can do to each of them.
var damages = map[string]func(*v1alpha1.CleanupReportFields) (left bool){
	"lost": func(*v1alpha1.CleanupReportFields) bool { return false },
	"cut": func(page *v1alpha1.CleanupReportFields) bool {
		page.Objects = page.Objects[:min(1, len(page.Objects))]
		return true
	},
	"empty":              func(page *v1alpha1.CleanupReportFields) bool { page.Objects, page.Deleted = nil, 0; return true },
	"truncated":          func(page *v1alpha1.CleanupReportFields) bool { page.Objects, page.Truncated = nil, true; return true },
	"of another policy":  func(page *v1alpha1.CleanupReportFields) bool { page.Policy.UID = "another"; return true },
	"of another run":     func(page *v1alpha1.CleanupReportFields) bool { page.Run = "another"; return true },
	"of a dry run":       func(page *v1alpha1.CleanupReportFields) bool { page.DryRun = true; return true },
	"deleted less":       func(page *v1alpha1.CleanupReportFields) bool { page.Deleted = math.MinInt64; return true },
	"deleted more":       func(page *v1alpha1.CleanupReportFields) bool { page.Deleted = math.MaxInt64; return true },
	"far behind":         func(page *v1alpha1.CleanupReportFields) bool { page.Page = math.MaxInt32; return true },
	"said to be deleted": said(v1alpha1.ItemDeleted),
	"said to be kept":    said(v1alpha1.ItemKept),
	"with other objects": foreign,
	"another's": func(page *v1alpha1.CleanupReportFields) bool {
		page.Policy, page.Run, page.Objects = v1alpha1.PolicyReference{Name: "q", UID: "another"}, "another", nil
		return foreign(page)
	},
}

// said has a page say the same result of all its objects. It does not count: an object that exists
// is not deleted, and one that is gone is.
func said(result v1alpha1.ItemResult) func(*v1alpha1.CleanupReportFields) bool {
	return func(page *v1alpha1.CleanupReportFields) bool {
		for i := range page.Objects {
			page.Objects[i].Result = result
		}
		return true
	}
}

// foreign adds an object that the policy keeps, as deleted, undecided and by the UID of another.
func foreign(page *v1alpha1.CleanupReportFields) bool {
	item := v1alpha1.CleanupItem{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "ci", Name: "keep-1", UID: "uid-keep-1", ResourceVersion: "7"}
	deleted, other := item, item
	deleted.Name, deleted.UID, deleted.Result = "keep-2", "uid-keep-2", v1alpha1.ItemDeleted
	other.UID = "uid-keep-3"
	page.Objects = append(page.Objects, item, deleted, other)
	return true
}

// Report pages are input, too: the same, with pages that are lost, cut or foreign. Copies under
// other names change nothing.
func TestForgedPages(t *testing.T) {
	for name, damage := range damages {
		for text, forged := range map[string]forgery{"": {nothing, nil, 5, 5}, " (limited)": {some, nil, 3, 0}, " (dry run)": {dry, nil, 0, 0}} {
			t.Run(name+text, func(t *testing.T) {
				forged.enumerate(t, (*cluster).work, func(c *cluster) {
					c.forged = true
					for value, page := range maps.Clone(c.pages) {
						c.pages["copy-of-"+value] = *page.DeepCopy()
						if left := damage(&page); left {
							c.pages[value] = page
						} else {
							delete(c.pages, value)
						}
					}
				})
			})
		}
	}
}

// enumerate kills a run twice at each of its requests. Meanwhile a user forges a status, and one of
// the objects stops to match.
func (forged *forgery) enumerate(t *testing.T, work func(*cluster, context.Context, *cleanup.Policy) error, forge func(*cluster)) {
	defer small(2)()
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		forged.spec(s)
		s.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "keep", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	})
	begin := func() *cluster {
		c := newCluster(t)
		for _, object := range c.objects {
			object.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
		}
		return c
	}
	whole := begin()
	must(t, work(whole, t.Context(), p))
	for k := range kills(2, whole.requests+1) { // The first one writes the status.
		c, kept := begin(), types.UID("")
		c.survive(k, func() error { return work(c, t.Context(), p) }, func() {
			if object := c.objects["tmp-4"]; object != nil {
				object.Labels, object.ResourceVersion, kept = map[string]string{"keep": ""}, "8", object.UID
			}
			forge(c)
		})
		if c.checkForged(forged, kept, k.String()); t.Failed() {
			return
		}
	}
}

func (c *cluster) checkForged(forged *forgery, kept types.UID, what string) {
	c.t.Helper()
	least := forged.least
	if kept != "" {
		least = min(least, 4)
	}
	if len(c.sent) > forged.most || len(c.sent) < least || c.sent[kept] > 0 {
		c.t.Errorf("%s: WRONG DELETE: %v, want %d to %d, and not %s; run %+v", what, c.sent, least, forged.most, kept, c.status.LastRun)
	}
	for uid, times := range c.sent {
		if times > 1 || !strings.HasPrefix(string(uid), "uid-tmp-") {
			c.t.Errorf("%s: %s was deleted %d times", what, uid, times)
		}
	}
	run := cmp.Or(c.status.LastRun, &v1alpha1.CleanupRun{})
	if run.Phase == v1alpha1.RunRunning || len(c.status.UncountedDeletions) > 0 {
		c.t.Errorf("%s: the run goes on: %+v %v", what, run, c.status.UncountedDeletions)
	}
	uncounted := int64(len(c.sent)) - c.status.Deleted
	if uncounted < 0 || uncounted > 0 && (run.Lost < uncounted || !strings.HasPrefix(c.condition(v1alpha1.ConditionCountsExact), "False")) {
		c.t.Errorf("%s: %d objects are deleted, %d are counted and %d lost: %s", what, len(c.sent), c.status.Deleted, run.Lost, c.condition(v1alpha1.ConditionCountsExact))
	}
}

// A whole run that Curfew never began is that of the schedule, or none, wherever it is killed.
func TestForgedRun(t *testing.T) {
	for name, c := range map[string]struct {
		at    time.Time
		id    string
		now   time.Time
		phase v1alpha1.RunPhase
		sent  int
	}{
		"the last one of the schedule": {start, runID(start, "policy"), start.Add(time.Hour), v1alpha1.RunCompleted, 5},
		"its name":                     {start, "forged", start.Add(time.Hour), v1alpha1.RunFailed, 0},
		"an earlier one":               {start, runID(start, "policy"), start.AddDate(0, 0, 1), v1alpha1.RunFailed, 0},
		"a later one":                  {start.AddDate(0, 0, 1), runID(start.AddDate(0, 0, 1), "policy"), start, v1alpha1.RunFailed, 0},
		"at another time":              {start.Add(time.Minute), runID(start.Add(time.Minute), "policy"), start.Add(time.Hour), v1alpha1.RunFailed, 0},
		"without a time":               {time.Time{}, runID(time.Time{}, "policy"), start, v1alpha1.RunFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(2)()
			p := tmpPolicy(t, nothing)
			for k := range kills(0, 12) {
				api := newCluster(t)
				api.status.LastRun = &v1alpha1.CleanupRun{ID: c.id, Phase: v1alpha1.RunRunning, Generation: 1, ScheduledTime: metav1.NewTime(c.at), StartTime: metav1.NewTime(c.at)}
				api.survive(k, func() error { return api.controller().finish(t.Context(), api.cur(p, c.now), true) }, func() {})
				if run := api.status.LastRun; len(api.sent) != c.sent || run.Phase != c.phase || run.Deleted != int64(c.sent) {
					t.Errorf("%s: deleted %v, run %+v", k, api.sent, run)
				}
			}
		})
	}
}

// step is a step of a process for the policy, which exists for a month.
func (c *cluster) step(ctx context.Context, p *cleanup.Policy) error {
	cur := c.cur(p, start)
	cur.object.SetCreationTimestamp(metav1.NewTime(start.AddDate(0, -1, 0)))
	_, _, err := c.controller().advance(ctx, cur, nil)
	return err
}

var (
	twice    = func(s *v1alpha1.CleanupSpec) { s.ConsecutiveRuns = 2 }
	tomorrow = new(metav1.NewTime(start.AddDate(0, 0, 1)))
	before   = new(metav1.NewTime(start.AddDate(0, 0, -1)))
	longAgo  = new(metav1.NewTime(start.AddDate(-50, 0, 0)))
	some50   = new(metav1.NewTime(start.AddDate(50, 0, 0)))
)

// timings decide when the policy runs, and what it counts on from.
var timings = map[string]forgery{
	"it never ran":              {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastScheduleTime = nil }, 3, 3},
	"it ran the day before":     {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastScheduleTime = before }, 3, 3},
	"all of it, the day before": {nothing, func(s *v1alpha1.CleanupPolicyStatus) { s.LastScheduleTime = before }, 5, 4},
	"it ran in fifty years":     {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastScheduleTime = some50 }, 3, 3},
	"since tomorrow":            {some, func(s *v1alpha1.CleanupPolicyStatus) { s.ScheduleSinceTime = tomorrow }, 3, 0},
	"since fifty years ago":     {some, func(s *v1alpha1.CleanupPolicyStatus) { s.ScheduleSinceTime, s.LastScheduleTime = longAgo, nil }, 3, 3},
	"next, the day before":      {some, func(s *v1alpha1.CleanupPolicyStatus) { s.NextScheduleTime, s.ObservedGeneration = before, 7 }, 3, 0},
	"next, the same day": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		s.NextScheduleTime, s.ObservedGeneration = new(metav1.NewTime(start)), 7
	}, 3, 0},
	"next, and it never ran": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		s.NextScheduleTime, s.LastScheduleTime, s.ObservedGeneration = longAgo, nil, 7
	}, 3, 0},
	"no runs": {some, func(s *v1alpha1.CleanupPolicyStatus) { s.Runs, s.LastScheduleTime = nil, before }, 3, 3},
	"other runs": {some, func(s *v1alpha1.CleanupPolicyStatus) {
		s.Runs, s.LastScheduleTime = []string{"1", "2", "3", "4", "5"}, before
	}, 3, 3},
	"no run, and it never ran":    {some, func(s *v1alpha1.CleanupPolicyStatus) { s.LastRun, s.LastScheduleTime = nil, nil }, 3, 0},
	"it has never matched before": {twice, func(s *v1alpha1.CleanupPolicyStatus) { s.LastScheduleTime = before }, 0, 0},
	"it matched the day before": {twice, func(s *v1alpha1.CleanupPolicyStatus) {
		if s.LastScheduleTime = before; s.Matches != nil {
			s.Matches.ScheduledTime = *before
		}
	}, 0, 0},
	"another run matched the day before": {twice, func(s *v1alpha1.CleanupPolicyStatus) {
		if s.LastScheduleTime = before; s.Matches != nil {
			s.Matches.ScheduledTime, s.Matches.Run = *before, runID(before.Time, "policy")
		}
	}, 0, 0},
}

// The same for what decides when a run is due, through the steps of the controller. A run that is
// started again has the limits, the pages and the matches of the first one.
func TestForgedTimings(t *testing.T) {
	for name, forged := range timings {
		t.Run(name, func(t *testing.T) { forged.enumerate(t, (*cluster).step, func(c *cluster) { forged.forge(&c.status) }) })
	}
}

// An old page that a forged status announces is neither counted nor changed, wherever the run is
// killed.
func TestForgedAnnouncements(t *testing.T) {
	forged := forgery{some, nil, 3, 0}
	id := runID(before.Time, "policy")
	old := v1alpha1.CleanupReportFields{Policy: v1alpha1.PolicyReference{Name: "p", UID: "policy"}, Run: id, Page: 1}
	uids := []types.UID{}
	for _, name := range []string{"gone-1", "gone-2", "keep-1", "tmp-1"} {
		item := v1alpha1.CleanupItem{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "ci", Name: name, UID: types.UID("uid-" + name), Result: v1alpha1.ItemDeleted}
		old.Objects, uids = append(old.Objects, item), append(uids, item.UID)
	}
	var clusters []*cluster
	forged.enumerate(t, (*cluster).step, func(c *cluster) {
		clusters = append(clusters, c)
		c.pages[pageName("p", id, 1)] = *old.DeepCopy()
		c.status.UncountedDeletions = append(c.status.UncountedDeletions[:min(1, len(c.status.UncountedDeletions))], v1alpha1.UncountedPage{Report: pageName("p", id, 1), UIDs: uids, SHA256: sumItems(old.Objects)})
	})
	for _, c := range clusters {
		if page := c.pages[pageName("p", id, 1)]; !equality.Semantic.DeepEqual(page, old) {
			t.Fatalf("the old page is %+v", page)
		}
	}
}

// UIDs that are announced without a run are no reason never to run.
func TestForgedAnnouncement(t *testing.T) {
	c := newCluster(t)
	c.pages["x"], c.pages["y"] = v1alpha1.CleanupReportFields{}, v1alpha1.CleanupReportFields{}
	c.status.UncountedDeletions = []v1alpha1.UncountedPage{{Report: "x"}, {Report: "y"}}
	must(t, c.work(t.Context(), tmpPolicy(t, nothing)))
	delete(c.pages, "x")
	delete(c.pages, "y")
	c.check("announced before")
}
