package cleanup

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/v1alpha1"
)

// results are the results of all objects on the pages, by name.
func (c *cluster) results() map[string]v1alpha1.ItemResult {
	out := map[string]v1alpha1.ItemResult{}
	for _, page := range c.pages {
		for _, item := range page.Objects {
			out[item.Name] = item.Result
		}
	}
	return out
}

// A DELETE that is answered 429, 500 or not at all is sent again, and nothing is listed again for
// it. Only another attempt waits: a page that is decided at once does not.
func TestTransientAnswersDoNotEndTheRun(t *testing.T) {
	for name, answer := range map[string]*expire.Ending{"done": nil, "429": new(expire.Throttled), "500": new(expire.Failed), "held": new(expire.Held)} {
		c := newCluster(t)
		times := map[string]int{}
		c.answer = func(name string) *expire.Ending {
			if times[name]++; times[name] < 5 {
				return answer
			}
			return nil
		}
		if err := c.work(t.Context(), tmpPolicy(t, nothing)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.check(name); c.lists != 1 || (c.waited > 0) != (answer != nil) {
			t.Errorf("%s: %d lists, waited %s", name, c.lists, c.waited)
		}
	}
}

// An object that never can be deleted fails, and does not keep the run from its end. One that is
// gone although each answer was an error is counted.
func TestOneObjectDoesNotWedgeARun(t *testing.T) {
	c := newCluster(t)
	failed := expire.Failed
	c.answer = func(name string) *expire.Ending {
		switch name {
		case "tmp-2":
			delete(c.objects, name)
			return &failed
		case "tmp-3":
			return &failed
		default:
			return nil
		}
	}
	must(t, c.work(t.Context(), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})))
	results := c.results()
	if results["tmp-3"] != v1alpha1.ItemFailed || results["tmp-2"] != v1alpha1.ItemGone || c.objects["tmp-3"] == nil {
		t.Errorf("results %v", results)
	}
	if run := c.status.LastRun; run.Phase != v1alpha1.RunCompleted || run.Deleted != 4 || c.status.Deleted != 4 {
		t.Errorf("run %+v", run)
	}
}

// Some aggregated APIs give their objects no UID. They are kept: a DELETE without that precondition
// could delete another object (S2).
func TestObjectsWithoutUID(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"tmp-0", "tmp-00"} {
		c.objects[name] = c.objects["tmp-1"].DeepCopy()
		c.objects[name].Name, c.objects[name].UID = name, ""
	}
	must(t, c.work(t.Context(), tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.MaxDeletions = new(int64(5)) })))
	if run := c.status.LastRun; run.Deleted != 5 || c.skipped() != "2 ConfigMap ci/tmp-0: has no UID, so Curfew cannot distinguish it from another object" {
		t.Errorf("skipped %s, run %+v", c.skipped(), run)
	}
}

// While the API server answers nothing but 429, the run is interrupted and says so, and nothing has
// failed. It goes on where it was.
func TestBusyServerInterruptsTheRun(t *testing.T) {
	c := newCluster(t)
	throttled, busy := expire.Throttled, true
	c.answer = func(string) *expire.Ending {
		if busy {
			return &throttled
		}
		return nil
	}
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	if err := c.work(t.Context(), p); err == nil || !strings.Contains(err.Error(), "the answer was an error") {
		t.Errorf("the run ended with %v", err)
	}
	if run := c.status.LastRun; run.Phase != v1alpha1.RunRunning || len(c.sent) != 0 {
		t.Errorf("run %+v, sent %v", run, c.sent)
	}
	busy = false
	must(t, c.work(t.Context(), p))
	c.check("after the server was busy")
}

// A page that a user deletes, or whose objects a user changes, before it is counted is reported.
// Lost objects count towards the limits. The engine, which never forgets a resource, sees only
// resources that the policy lists.
func TestLostReportsAreReported(t *testing.T) {
	defer small(5)()
	kept := func(*v1alpha1.CleanupReportFields) bool { return true }
	for name, c := range map[string]struct {
		edit          func(*v1alpha1.CleanupReportFields) bool
		lost, deleted int64
		sum           *string // in the status
	}{
		"nothing": {kept, 0, 5, nil},
		"deleted": {func(*v1alpha1.CleanupReportFields) bool { return false }, 5, 0, nil},
		"cut":     {func(page *v1alpha1.CleanupReportFields) bool { page.Objects = page.Objects[:2]; return true }, 5, 0, nil},
		"twice": {func(page *v1alpha1.CleanupReportFields) bool {
			page.Objects = append(page.Objects, page.Objects...)
			return true
		}, 5, 0, nil},
		"another name":    {func(page *v1alpha1.CleanupReportFields) bool { page.Objects[0].Name = "keep-1"; return true }, 5, 0, nil},
		"another version": {func(page *v1alpha1.CleanupReportFields) bool { page.Objects[0].Version = "v9"; return true }, 0, 5, nil},
		"another run":     {func(page *v1alpha1.CleanupReportFields) bool { page.Run = "another"; return true }, 5, 0, nil},
		"its numbers alone": {func(page *v1alpha1.CleanupReportFields) bool {
			summarised(page)
			page.Objects = nil
			return true
		}, 5, 0, nil},
		"numbers and names":             {func(page *v1alpha1.CleanupReportFields) bool { summarised(page); return true }, 0, 5, nil},
		"announced without a checksum":  {kept, 5, 0, new("")},
		"announced by a wrong checksum": {kept, 5, 0, new("0")},
	} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t)
			p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
			api.killAt, api.after = 11, true // Everything is deleted, and nothing counted.
			_ = api.work(t.Context(), p)
			if len(api.sent) != 5 || api.status.Deleted != 0 || len(api.status.UncountedDeletions) != 1 {
				t.Fatalf("killed too early or too late: %v, %+v", api.sent, api.status)
			}
			for page, fields := range api.pages {
				if delete(api.pages, page); c.edit(&fields) {
					api.pages[page] = fields
				}
			}
			if c.sum != nil {
				api.status.UncountedDeletions[0].SHA256 = *c.sum
			}
			api.dead, api.killAt = false, 0
			process := api.controller()
			must(t, process.finish(t.Context(), api.cur(p, start), true))
			if got := process.metrics.counted(t, "Lost"); got != c.lost || len(api.registered) != 1 {
				t.Errorf("the metric has %d lost, want %d; registered %v", got, c.lost, api.registered)
			}
			want := "False ReportLost"
			if c.lost == 0 {
				want = "none"
			}
			if got := api.condition(v1alpha1.ConditionCountsExact); !strings.HasPrefix(got, want) || api.status.LastRun.Lost != c.lost || api.status.Deleted != c.deleted {
				t.Errorf("%s; lost %d, deleted %d", got, api.status.LastRun.Lost, api.status.Deleted)
			}
		})
	}
}

// counted is curfew_cleanup_objects_total with a result.
func (m *metrics) counted(t *testing.T, result v1alpha1.ItemResult) int64 {
	t.Helper()
	var metric dto.Metric
	must(t, m.objects.WithLabelValues(string(result)).Write(&metric))
	return int64(metric.GetCounter().GetValue())
}

// summarised has a page say how many of its objects are deleted.
func summarised(page *v1alpha1.CleanupReportFields) {
	page.Truncated, page.Deleted = true, 4
	page.Summary = []v1alpha1.SummaryCount{{Kind: "ConfigMap", Namespace: "a", Count: 4}}
}

// hasty is a clock on which no wait takes any time. The cluster adds them up.
type hasty struct {
	*clocktesting.FakeClock
	of *cluster
}

// NewTimer implements clock.Clock.
func (h hasty) NewTimer(d time.Duration) clock.Timer {
	timer := h.FakeClock.NewTimer(d)
	h.Step(d)
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.waited += d
	return timer
}

// The API server may carry out a DELETE that it did not answer after the object was last read: the
// counts are not exact then, and say so, also if the process is killed before it has counted.
func TestUnansweredDeletionIsNotExact(t *testing.T) {
	const refuse, kill = "then a webhook refuses", "then it is killed"
	for name, c := range map[string]struct {
		code int
		then string
		want string
		lost int64
	}{
		"no answer":                    {0, "", "False NoAnswer DELETEs of report p-", 1},
		"timeout":                      {http.StatusGatewayTimeout, "", "False NoAnswer DELETEs of report p-", 1},
		"no answer, killed":            {0, kill, "False NoAnswer DELETEs of report p-", 1},
		"no answer, refused":           {0, refuse, "False NoAnswer DELETEs of report p-", 1},
		"an error, not acted":          {http.StatusInternalServerError, "", "none", 0},
		"an error, not acted, refused": {http.StatusInternalServerError, refuse, "none", 0},
	} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t)
			api.fails = map[string]int{"tmp-3": c.code}
			p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
			attempts := 0
			api.answer = func(name string) *expire.Ending {
				if name == "tmp-3" {
					attempts++
				}
				if c.then == refuse && attempts == 2 {
					api.fails, api.denies = nil, map[string]int{"tmp-3": http.StatusForbidden}
				}
				return nil
			}
			if c.then == kill { // The outcomes are on the page, and not in the status.
				api.beforeStatus = func() { api.dead = slices.Contains(slices.Collect(maps.Values(api.results())), v1alpha1.ItemUnknown) }
				if err := api.work(t.Context(), p); err == nil || api.status.LastRun.Lost != 0 {
					t.Fatalf("not killed: %+v", api.status.LastRun)
				}
				api.dead, api.beforeStatus, api.fails = false, nil, nil
			}
			must(t, api.work(t.Context(), p))
			run := api.status.LastRun
			if got := api.condition(v1alpha1.ConditionCountsExact); !strings.HasPrefix(got, c.want) || run.Lost != c.lost || run.Phase != v1alpha1.RunCompleted {
				t.Errorf("condition %q, run %+v; want %q, %d lost, Completed", got, run, c.want, c.lost)
			}
		})
	}
}
