package cleanup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// For random clusters and policies: what a survey shows, and so a preview, is what a run then
// deletes, and it skips the same objects.
func TestRunDeletesWhatASurveyShows(t *testing.T) {
	deleting := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(t)
		clear(c.objects)
		for i := range random.IntN(12) {
			object := randomObject(random, i)
			c.objects[object.Name] = object
		}
		p := tmpPolicy(t, func(spec *v1alpha1.CleanupSpec) { randomSpec(random, spec) })
		shown, skipped, stalled := c.survey(p)
		restore := small(1 + random.IntN(4))
		err := c.work(t.Context(), p)
		restore()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var deleted []string
		for uid := range c.sent {
			deleted = append(deleted, string(uid))
		}
		slices.Sort(deleted)
		if !slices.Equal(shown, deleted) {
			t.Errorf("seed %d: the survey shows %v, and the run deleted %v: %+v", seed, shown, deleted, p.Spec)
		}
		run := c.status.LastRun
		if got := fmt.Sprint(run.Skipped); got != skipped || (run.Phase == v1alpha1.RunStalled) != stalled {
			t.Errorf("seed %d: skipped %s, and the run %s; stalled %t, and the run is %s", seed, skipped, got, stalled, run.Phase)
		}
		if len(deleted) > 0 && len(run.Skipped) > 0 {
			deleting++
		}
	}
	if deleting < 50 {
		t.Errorf("only %d runs deleted and skipped something", deleting)
	}
}

func randomObject(random *rand.Rand, i int) *metav1.PartialObjectMetadata {
	name := fmt.Sprintf("%s-%d", []string{"tmp", "tmp", "tmp", "keep"}[random.IntN(4)], i)
	out := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ci", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(start.Add(-time.Duration(random.IntN(5)) * time.Hour)), Labels: map[string]string{},
		},
	}
	if random.IntN(3) > 0 {
		out.Labels["app"] = []string{"a", "b"}[random.IntN(2)]
	}
	switch random.IntN(8) {
	case 0:
		out.Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
	case 1:
		controller := true
		out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "w", Controller: &controller}}
	case 2:
		out.Finalizers = []string{"a/b"}
	}
	return out
}

func randomSpec(random *rand.Rand, spec *v1alpha1.CleanupSpec) {
	often := func() bool { return random.IntN(2) == 0 }
	if often() { // It fails on objects without the label.
		spec.Conditions = []v1alpha1.CleanupCondition{{Name: "app", Expression: `object.metadata.labels.app == "a"`}}
	}
	if often() {
		spec.KeepNewest = &v1alpha1.KeepNewest{Count: int32(1 + random.IntN(2)), GroupBy: new(v1alpha1.Expression(`"app" in object.metadata.labels ? "x" : "y"`))}
	}
	if random.IntN(6) == 0 {
		spec.ConsecutiveRuns = 2
	}
	if often() {
		spec.MaxDeletions = new(int64(1 + random.IntN(4)))
	}
	if often() {
		spec.MaxPercentage = new(int32(1 + random.IntN(100)))
	}
	if often() {
		spec.OnExceed = v1alpha1.ExceedTruncates
	}
	spec.IncludeOwned = often()
}

// survey returns the UIDs that a survey shows, what it skips, and whether a run would be stalled.
func (c *cluster) survey(p *cleanup.Policy) (uids []string, skipped string, stalled bool) {
	c.t.Helper()
	process := c.controller()
	account, err := process.options.Account(p.Account)
	if err != nil {
		c.t.Fatal(err)
	}
	s := survey.New(p, reader{survey.Clients{Metadata: account.Metadata}, account}, survey.Options{
		Served: process.options.Served, Source: c, Namespaces: process.options.Namespaces, Now: start,
	})
	if _, err := s.Open(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	if err := s.Count(context.Background(), 0); err != nil {
		return nil, "[]", true
	}
	err = s.Choose(c.t.Context(), func(_ *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict == cleanup.Delete {
			uids = append(uids, string(object.GetUID()))
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	var counts []v1alpha1.SkipCount
	for _, one := range s.Skipped {
		counts = append(counts, *one)
	}
	slices.SortFunc(counts, func(a, b v1alpha1.SkipCount) int { return slices.Compare([]byte(a.Reason), []byte(b.Reason)) })
	slices.Sort(uids)
	return uids, fmt.Sprint(counts), false
}

// A run with onExceed: Truncate deletes as many as its limit allows, and counts the others.
func TestTruncatedRun(t *testing.T) {
	c := newCluster(t)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.MaxDeletions, s.OnExceed = new(int64(2)), v1alpha1.ExceedTruncates })
	if err := c.work(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	run := c.status.LastRun
	if len(c.sent) != 2 || run.Deleted != 2 || len(run.Skipped) != 1 || run.Skipped[0].Reason != cleanup.SkipLimit || run.Skipped[0].Count != 3 {
		t.Errorf("deleted %v: %+v", c.sent, run)
	}
}
