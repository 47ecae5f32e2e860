package cleanup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// archive is an API server with the pages of a policy.
type archive struct {
	t      *testing.T
	policy *cleanup.Policy
	client *dynamicfake.FakeDynamicClient
	store  *store
	now    time.Time
}

var clusterReports = v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupReports)

func newArchive(t *testing.T) *archive {
	t.Helper()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{clusterReports: "ClusterCleanupReportList"})
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	return &archive{t, p, client, newStore(clock.RealClock{}, client, p, "1", v1alpha1.CleanupPolicyStatus{}), start}
}

// day is the run so many days before the current one.
func (a *archive) day(ago int) string { return runID(start.AddDate(0, 0, -ago), a.policy.UID) }

// write writes a page as Curfew does.
func (a *archive) write(run string, fields v1alpha1.CleanupReportFields) {
	a.t.Helper()
	fields.Policy, fields.Run, fields.Page = v1alpha1.PolicyReference{Name: "p", UID: a.policy.UID}, run, 1
	must(a.t, a.store.writePage(a.t.Context(), &page{name: pageName("p", run, 1), fields: fields}))
}

// forge changes a page, or makes another one of it.
func (a *archive) forge(run string, edit func(*unstructured.Unstructured)) {
	a.t.Helper()
	reports := a.client.Resource(clusterReports)
	page, err := reports.Get(a.t.Context(), pageName("p", run, 1), metav1.GetOptions{})
	must(a.t, err)
	name := page.GetName()
	if edit(page); page.GetName() == name {
		_, err = reports.Update(a.t.Context(), page, metav1.UpdateOptions{})
	} else {
		_, err = reports.Create(a.t.Context(), page, metav1.CreateOptions{})
	}
	must(a.t, err)
}

func label(run string) func(*unstructured.Unstructured) {
	return func(page *unstructured.Unstructured) {
		labels := page.GetLabels()
		labels[v1alpha1.LabelCleanupRun] = run
		page.SetLabels(labels)
	}
}

// prune prunes after the current run, and returns the names of the pages that are left.
func (a *archive) prune() []string {
	a.t.Helper()
	must(a.t, a.store.prune(a.t.Context(), a.day(0), a.now))
	list, err := a.client.Resource(clusterReports).List(a.t.Context(), metav1.ListOptions{})
	must(a.t, err)
	names := []string{}
	for _, page := range list.Items {
		names = append(names, page.GetName())
	}
	return slices.Sorted(slices.Values(names))
}

// Pages of the last runs stay whatever pages or statuses others have written, but not both. What
// Curfew has not written stays, too.
func TestForgedReports(t *testing.T) {
	const days = v1alpha1.KeptRuns + 2
	last := func(a *archive) (out []string) {
		for ago := range v1alpha1.KeptRuns {
			out = append(out, a.day(v1alpha1.KeptRuns-1-ago))
		}
		return out
	}
	for name, c := range map[string]struct {
		forge func(*archive)
		// pruned are the runs that lose their pages, by days ago; nil: any but the current one.
		pruned []int
	}{
		"nothing":                       {func(*archive) {}, []int{5, 6}},
		"no list, as before an upgrade": {func(a *archive) { a.store.status.Runs = nil }, []int{5, 6}},
		"pages of runs to come, with labels alone": {func(a *archive) {
			for i := range v1alpha1.KeptRuns {
				a.forge(a.day(0), func(page *unstructured.Unstructured) {
					label(fmt.Sprint("99999999-", i))(page)
					page.SetName(fmt.Sprint("forged-", i))
				})
			}
		}, []int{5, 6}},
		"pages of runs to come": {func(a *archive) {
			for i := range v1alpha1.KeptRuns {
				a.write(a.day(-1-i), v1alpha1.CleanupReportFields{})
			}
		}, []int{5, 6}},
		"no list, and pages of runs to come": {func(a *archive) {
			a.store.status.Runs = nil
			for i := range v1alpha1.KeptRuns {
				a.write(a.day(-1-i), v1alpha1.CleanupReportFields{})
			}
		}, []int{5, 6}},
		"pages of runs that never were": {func(a *archive) {
			for i := range v1alpha1.KeptRuns {
				a.write(runID(start.Add(-time.Duration(i+1)*time.Minute), a.policy.UID), v1alpha1.CleanupReportFields{})
			}
		}, []int{5, 6}},
		"pages of another policy": {func(a *archive) {
			a.forge(a.day(6), func(page *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(page.Object, "x", "policy", "uid")
			})
		}, []int{5}},
		"labels of a page":      {func(a *archive) { a.forge(a.day(0), label(a.day(6))) }, []int{6}},
		"the list, to come":     {func(a *archive) { a.store.status.Runs = []string{"99999999-0000-policy", a.day(-1)} }, []int{5, 6}},
		"the list, of old runs": {func(a *archive) { a.store.status.Runs = []string{a.day(5), a.day(6)} }, []int{}},
		"the list and pages": {func(a *archive) {
			a.store.status.Runs, a.now = nil, start.Add(time.Hour)
			for i := range v1alpha1.KeptRuns {
				a.write(runID(start.Add(time.Duration(i+1)*time.Minute), a.policy.UID), v1alpha1.CleanupReportFields{})
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(t)
			for ago := range days {
				a.write(a.day(ago), v1alpha1.CleanupReportFields{})
			}
			a.store.status.Runs = last(a)
			c.forge(a)
			left := a.prune()
			for ago := range days {
				if got := !slices.Contains(left, pageName("p", a.day(ago), 1)); got != slices.Contains(c.pruned, ago) && (c.pruned != nil || ago == 0) {
					t.Errorf("the page of %d days ago is deleted: %t; left %v", ago, got, left)
				}
			}
		})
	}
}

// A page that was created again, or written, after it was listed as old is not deleted.
func TestPruneDeletesWhatItListed(t *testing.T) {
	a, pages := newArchive(t), map[string]*unstructured.Unstructured{}
	for ago := range v1alpha1.KeptRuns + 3 {
		a.write(a.day(ago), v1alpha1.CleanupReportFields{})
	}
	listed, err := a.client.Resource(clusterReports).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range listed.Items {
		page := &listed.Items[i]
		page.SetUID(types.UID("uid-" + page.GetName()))
		page.SetResourceVersion("1")
		pages[page.GetName()] = page.DeepCopy()
	}
	again, changed, old := pageName("p", a.day(7), 1), pageName("p", a.day(6), 1), pageName("p", a.day(5), 1)
	a.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		pages[again].SetUID("another")
		pages[changed].SetResourceVersion("2")
		return true, listed, nil
	})
	a.client.PrependReactor("delete", "*", func(did clienttesting.Action) (bool, runtime.Object, error) {
		impl := did.(clienttesting.DeleteActionImpl)
		live, wants := pages[impl.Name], impl.DeleteOptions.Preconditions
		if wants != nil && (wants.UID != nil && *wants.UID != live.GetUID() || wants.ResourceVersion != nil && *wants.ResourceVersion != live.GetResourceVersion()) {
			return true, nil, apierrors.NewConflict(clusterReports.GroupResource(), impl.Name, errors.New("it was changed"))
		}
		delete(pages, impl.Name)
		return true, nil, nil
	})
	a.prune()
	if pages[again] == nil || pages[changed] == nil || pages[old] != nil || len(pages) != v1alpha1.KeptRuns+2 {
		t.Errorf("left %v, want all but %s", slices.Sorted(maps.Keys(pages)), old)
	}
}

// A user who may write the status alone costs no page anything: neither by announcing an old page
// again, nor by starting a run again.
func TestForgedStatusKeepsPages(t *testing.T) {
	for name, forge := range map[string]func(c *cluster, first, last string){
		"an old page is announced": func(c *cluster, first, _ string) {
			items := c.pages[first].Objects
			c.status.UncountedDeletions = []v1alpha1.UncountedPage{{Report: first, UIDs: []types.UID{items[0].UID, items[1].UID}, SHA256: sumItems(items)}}
		},
		"a page of the last run is announced": func(c *cluster, _, last string) {
			items := c.pages[last].Objects
			c.status.UncountedDeletions = []v1alpha1.UncountedPage{{Report: last, UIDs: []types.UID{items[0].UID}, SHA256: sumItems(items[:1])}}
		},
		"the last run is due again": func(c *cluster, _, _ string) { c.status.LastScheduleTime = new(metav1.NewTime(start)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer small(2)()
			c, p := newCluster(t), tmpPolicy(t, nothing)
			c.days(p, 0)
			for _, object := range []string{"tmp-6", "tmp-7", "tmp-8"} {
				c.objects[object] = c.objects["keep-1"].DeepCopy()
				c.objects[object].Name, c.objects[object].UID = object, types.UID("uid-"+object)
				if object == "tmp-7" {
					c.days(p, 1)
				}
			}
			deleted, before := c.status.Deleted, maps.Clone(c.pages)
			forge(c, pageName("p", runID(start, "policy"), 1), pageName("p", runID(start.AddDate(0, 0, 1), "policy"), 1))
			process, cur := c.controller(), c.cur(p, start.AddDate(0, 0, 1).Add(time.Hour))
			cur.object.SetCreationTimestamp(metav1.NewTime(start.AddDate(0, -1, 0)))
			due, _ := cur.due()
			err := process.finish(t.Context(), cur, due.IsZero())
			if err == nil && !due.IsZero() {
				err = process.start(t.Context(), cur, due)
				deleted++ // tmp-8
			}
			if err != nil || c.status.Deleted != deleted || len(c.status.UncountedDeletions) > 0 {
				t.Errorf("%v: counted %d, want %d; announced %v", err, c.status.Deleted, deleted, c.status.UncountedDeletions)
			}
			for text, page := range before {
				if !equality.Semantic.DeepEqual(page, c.pages[text]) {
					t.Errorf("%s was %+v, and is %+v", text, page, c.pages[text])
				}
			}
		})
	}
}
