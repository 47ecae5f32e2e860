package cleanup

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// kill is when a run is killed: at a request, before or after it takes effect, and then once more
// while it is resumed. 0 is never.
type kill struct {
	first  int
	after  bool
	second int
}

func (k kill) String() string {
	return fmt.Sprintf("killed at request %d (after: %v) and %d", k.first, k.after, k.second)
}

// kills are all first kills from a request on, each with a seventh of the second ones. The crash
// part of make test-full has all of them.
func kills(from, requests int) iter.Seq[kill] {
	every := 7
	if os.Getenv("CRASH") == "full" {
		every = 1
	}
	return func(yield func(kill) bool) {
		for i := range 2 * (requests - from + 1) {
			for second := i % every; second <= requests; second += every {
				if !yield(kill{from + i/2, i%2 == 1, second}) {
					return
				}
			}
		}
	}
}

// survive has processes work until one is not killed. between is what happens after the first kill.
func (c *cluster) survive(k kill, work func() error, between func()) {
	c.t.Helper()
	c.dead, c.requests, c.killAt, c.after = false, 0, k.first, k.after
	_ = work()
	between()
	c.dead, c.requests, c.killAt, c.after = false, 0, k.second, !k.after
	_ = work()
	c.dead, c.killAt = false, 0
	if err := work(); err != nil {
		c.t.Fatalf("%s: %v", k, err)
	}
}

// A run is killed at each of its requests, before and after it takes effect, and once more while it
// is resumed. In the end everything that matches is deleted, nothing else is, and each object is
// counted once (S7).
func TestKilledAtEveryRequest(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.CleanupSpec){
		"one pass":     func(*v1alpha1.CleanupSpec) {},
		"two passes":   func(s *v1alpha1.CleanupSpec) { s.MaxDeletions = new(int64(5)) },
		"a percentage": func(s *v1alpha1.CleanupSpec) { s.MaxPercentage = new(int32(72)) }, // 5 of 7
		"with a lookup": func(s *v1alpha1.CleanupSpec) {
			s.Conditions = []v1alpha1.CleanupCondition{{Name: "x", Expression: "!lookup.owned"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(2)()
			detailedPages = 1
			defer func() { detailedPages = 40 }()
			p := tmpPolicy(t, edit)
			whole := newCluster(t)
			must(t, whole.work(t.Context(), p))
			whole.check("never killed")
			for k := range kills(1, whole.requests) {
				c := newCluster(t)
				c.survive(k, func() error { return c.work(t.Context(), p) }, func() {})
				if c.check(k.String()); t.Failed() {
					return
				}
			}
			t.Logf("%d requests", whole.requests)
		})
	}
}

// check compares the remaining objects, the counts and the sent requests.
func (c *cluster) check(what string) {
	c.t.Helper()
	for name, object := range c.objects {
		if tmp := strings.HasPrefix(name, "tmp-"); tmp && object.DeletionTimestamp == nil || !tmp && object.DeletionTimestamp != nil {
			c.t.Errorf("%s: %s is left, terminating %v", what, name, object.DeletionTimestamp != nil)
		}
	}
	status := c.status
	if status.Deleted != 5 || status.LastRun.Deleted != 5 || status.LastRun.Phase != v1alpha1.RunCompleted || len(status.UncountedDeletions) > 0 ||
		len(status.DeletedByKind) != 1 || status.DeletedByKind[0].Count != 5 || len(c.objects) != 3 {
		c.t.Errorf("%s: deleted %d, run %+v, uncounted %v, by kind %v, %d objects are left", what, status.Deleted, status.LastRun, status.UncountedDeletions, status.DeletedByKind, len(c.objects))
	}
	counted, truncated := map[types.UID]int{}, int64(0)
	for _, page := range c.pages {
		if page.Truncated {
			truncated += page.Deleted
		}
		for _, item := range page.Objects {
			if item.Result == v1alpha1.ItemDeleted || item.Result == v1alpha1.ItemGone {
				counted[item.UID]++
			}
		}
	}
	for _, m := range c.metrics {
		kept := &dto.Metric{}
		if must(c.t, m.objects.WithLabelValues(string(v1alpha1.ItemKept)).Write(kept)); kept.GetCounter().GetValue() > 0 {
			c.t.Errorf("%s: the metric says that %v objects were kept", what, kept.GetCounter().GetValue())
		}
	}
	for uid, times := range c.sent {
		if times != 1 || counted[uid] > 1 {
			c.t.Errorf("%s: %s was deleted %d times and is counted on %d pages", what, uid, times, counted[uid])
		}
	}
	if int64(len(counted))+truncated != 5 {
		c.t.Errorf("%s: %d objects are on pages, and %d are summarised", what, len(counted), truncated)
	}
}

// An aggregated API that is behind goes on listing what the run has deleted and counted before it was
// killed. That is not counted again.
func TestResumedRunSeesGhosts(t *testing.T) {
	defer small(2)()
	whole, p := newCluster(t), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	must(t, whole.work(t.Context(), p))
	for i := range 2 * whole.requests {
		c, k := newCluster(t), kill{first: 1 + i/2, after: i%2 == 0}
		c.behind = true
		c.survive(k, func() error { return c.work(t.Context(), p) }, func() {})
		if c.check(k.String()); t.Failed() {
			return
		}
	}
}

// A resumed run deletes nothing that it has not judged again: what was the third newest is one of
// the newest now.
func TestResumedRunJudgesAgain(t *testing.T) {
	defer small(5)()
	c := newCluster(t)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.KeepNewest = &v1alpha1.KeepNewest{Count: 3} })
	for i, name := range []string{"tmp-1", "tmp-2", "tmp-3", "tmp-4", "tmp-5"} {
		c.objects[name].CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i-10) * time.Hour))
	}
	whole := newCluster(t)
	for name, object := range c.objects {
		whole.objects[name] = object.DeepCopy()
	}
	if err := whole.work(t.Context(), p); err != nil || len(whole.sent) != 2 || whole.objects["tmp-3"] == nil {
		t.Fatalf("error %v, DELETEs %v; want two, and tmp-3 kept", err, whole.sent)
	}
	c.killAt = 7 // It has announced tmp-1 and tmp-2.
	_ = c.work(t.Context(), p)
	if len(c.status.UncountedDeletions) != 1 || len(c.sent) != 0 {
		t.Fatalf("killed too early or too late: %+v, %v", c.status.UncountedDeletions, c.sent)
	}
	c.dead, c.killAt = false, 0
	delete(c.objects, "tmp-4")
	delete(c.objects, "tmp-5")
	if err := c.work(t.Context(), p); err != nil || len(c.sent) != 0 || c.status.Deleted != 0 {
		t.Errorf("%v: deleted %v of the last three, %d counted", err, c.sent, c.status.Deleted)
	}
}
