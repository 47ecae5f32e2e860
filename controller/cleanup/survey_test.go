package cleanup

import (
	"cmp"
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
		if often() {
			spec.KeepNewest.From = v1alpha1.KeepNewestFromAll
		}
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
	must(c.t, err)
	s := survey.New(p, reader{survey.Clients{Metadata: account.Metadata}, account}, survey.Options{Served: process.options.Served, Source: c, Namespaces: process.options.Namespaces, Now: start})
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
	must(c.t, err)
	var counts []v1alpha1.SkipCount
	for _, skipCount := range s.Skipped {
		counts = append(counts, *skipCount)
	}
	slices.SortFunc(counts, func(a, b v1alpha1.SkipCount) int { return slices.Compare([]byte(a.Reason), []byte(b.Reason)) })
	slices.Sort(uids)
	return uids, fmt.Sprint(counts), false
}

// A run with onExceed: Truncate deletes as many as its limit allows, and counts the others.
func TestTruncatedRun(t *testing.T) {
	c := newCluster(t)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.MaxDeletions, s.OnExceed = new(int64(2)), v1alpha1.ExceedTruncates })
	must(t, c.work(t.Context(), p))
	run := c.status.LastRun
	if len(c.sent) != 2 || run.Deleted != 2 || len(run.Skipped) != 1 || run.Skipped[0].Reason != cleanup.SkipLimit || run.Skipped[0].Count != 3 {
		t.Errorf("deleted %v: %+v", c.sent, run)
	}
}

// With from: All the newest of all objects stay, those that the conditions do not match among them.
// An object that is kept for another reason takes no place. Limits count what a run would delete.
func TestKeepNewestOfAll(t *testing.T) {
	for name, c := range map[string]struct {
		from v1alpha1.KeepNewestFrom
		keep int32 // 2 unless it says so
		most int64
		edit func(objects map[string]*metav1.PartialObjectMetadata)
		left string
	}{
		"of the matching":       {left: "2 3 4 5"},
		"of the matching, said": {from: v1alpha1.KeepNewestFromMatched, left: "2 3 4 5"},
		"of all":                {from: v1alpha1.KeepNewestFromAll, left: "4 5"},
		"one of all":            {from: v1alpha1.KeepNewestFromAll, keep: 1, left: "4 5"}, // 4 does not match.
		"at the limit":          {from: v1alpha1.KeepNewestFromAll, most: 3, left: "4 5"},
		"over the limit":        {from: v1alpha1.KeepNewestFromAll, most: 2, left: "1 2 3 4 5"},
		"one is protected": {from: v1alpha1.KeepNewestFromAll, left: "3 4 5", edit: func(objects map[string]*metav1.PartialObjectMetadata) {
			objects["tmp-5"].Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
		}},
		"one is deleted": {from: v1alpha1.KeepNewestFromAll, left: "3 4", edit: func(objects map[string]*metav1.PartialObjectMetadata) {
			objects["tmp-5"].DeletionTimestamp = new(metav1.NewTime(start))
			objects["tmp-5"].Finalizers = []string{"a/b"}
		}},
		"one has another name": {from: v1alpha1.KeepNewestFromAll, left: "3 4", edit: func(objects map[string]*metav1.PartialObjectMetadata) {
			objects["keep-5"] = objects["tmp-5"]
			objects["keep-5"].Name = "keep-5"
			delete(objects, "tmp-5")
		}},
		"one is in a group of own": {from: v1alpha1.KeepNewestFromAll, left: "1 4 5", edit: func(objects map[string]*metav1.PartialObjectMetadata) {
			objects["tmp-1"].Labels = map[string]string{"app": "x"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			for i := range 5 {
				cluster.objects[fmt.Sprintf("tmp-%d", i+1)].CreationTimestamp = metav1.NewTime(start.Add([]time.Duration{-5, -4, -3, -1, 0}[i] * time.Hour))
			}
			if c.edit != nil {
				c.edit(cluster.objects)
			}
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
				s.Conditions = []v1alpha1.CleanupCondition{{Name: "old", Expression: `now - timestamp(object.metadata.creationTimestamp) > duration("2h")`}}
				s.KeepNewest = &v1alpha1.KeepNewest{Count: cmp.Or(c.keep, 2), From: c.from, GroupBy: new(v1alpha1.Expression(`object.metadata.?labels.?app.orValue("")`))}
				if c.most > 0 {
					s.MaxDeletions = new(c.most)
				}
			})
			must(t, cluster.work(t.Context(), p))
			if cluster.left() != c.left {
				t.Errorf("left %s, want %s", cluster.left(), c.left)
			}
		})
	}
}
