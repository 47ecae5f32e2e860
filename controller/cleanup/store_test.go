package cleanup

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

// A user edits the policy all the time. The status is written a few times, with pauses, and no more
// once the context ends.
func TestStatusConflictsBackOff(t *testing.T) {
	for name, c := range map[string]struct{ ends, least, most time.Duration }{
		"the run goes on": {ends: time.Hour, least: 3 * time.Second, most: 6 * time.Second},
		"the run ends":    {ends: time.Second, most: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, writes := newServer(t), 0
				l := &leader{server: s, send: func(effect func() error) error { s.written(); return effect() }}
				l.observe = func(*request) func(error) { writes++; return func(error) {} }
				store := newStore(clock.RealClock{}, l.controller().options.Objects, tmpPolicy(t, nothing), s.policy.GetResourceVersion(), s.status())
				ctx, cancel := context.WithTimeout(t.Context(), c.ends)
				defer cancel()
				began := time.Now()
				err := (&ledger{store: store}).change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { s.Deleted = 1 })
				took := time.Since(began)
				if ended := ctx.Err() != nil; err == nil || apierrors.IsConflict(err) == ended || writes > 6 || took < c.least || took > c.most {
					t.Errorf("%d writes in %s: %v", writes, took, err)
				}
			})
		})
	}
}

// A user edits the policy during a run: the status, whose times the API server stores in whole
// seconds, is written all the same.
func TestPolicyIsEditedInMidRun(t *testing.T) {
	s := newServer(t)
	l := &leader{server: s, send: func(effect func() error) error { return effect() }}
	entry := &ledger{store: newStore(clock.RealClock{}, l.controller().options.Objects, tmpPolicy(t, nothing), s.policy.GetResourceVersion(), s.status())}
	for range 3 {
		must(t, entry.begin(t.Context(), &v1alpha1.CleanupRun{ID: "run", StartTime: metav1.NewTime(start.Add(time.Second / 3))}, nil))
		s.written()
	}
}

// The pages of a run say how much it has deleted, and which page is the last one. Pages of other
// runs and policies, names that are not Curfew's, and pages from before the run say nothing, and no
// page takes anything back.
func TestPagesCount(t *testing.T) {
	a := newArchive(t)
	other := *a.policy
	other.UID = "another"
	own, others := a.store, newStore(clock.RealClock{}, a.client, &other, "1", v1alpha1.CleanupPolicyStatus{})
	write := func(to *store, name, text string, fields v1alpha1.CleanupReportFields) {
		t.Helper()
		fields.Policy, fields.Run = v1alpha1.PolicyReference{Name: "p", UID: a.policy.UID}, text
		must(t, to.writePage(t.Context(), &page{name: name, fields: fields}))
	}
	run, created := a.day(0), start
	a.client.PrependReactor("create", "*", func(did clienttesting.Action) (bool, runtime.Object, error) {
		did.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).SetCreationTimestamp(metav1.NewTime(created))
		return false, nil, nil
	})
	items := []v1alpha1.CleanupItem{{UID: "1", Result: v1alpha1.ItemDeleted}}
	write(own, pageName("p", run, 1), run, v1alpha1.CleanupReportFields{Page: 1, Deleted: 2, Objects: items})
	write(own, pageName("p", run, 2), run, v1alpha1.CleanupReportFields{Page: 2, Deleted: 3, Truncated: true})
	write(own, pageName("p", run, 3), run, v1alpha1.CleanupReportFields{Page: 3, Objects: []v1alpha1.CleanupItem{{UID: "2"}}})
	write(own, pageName("p", run, 4), run, v1alpha1.CleanupReportFields{Page: 4, DryRun: true, Objects: items})
	write(own, pageName("p", run, 5), run, v1alpha1.CleanupReportFields{Page: 5, Deleted: -100})
	write(own, pageName("p", "20261201-0300-policy", 6), "20261201-0300-policy", v1alpha1.CleanupReportFields{Page: 6, Deleted: 7, Objects: items})
	created = start.Add(-2 * maxClockSkew)
	write(own, pageName("p", run, 7), run, v1alpha1.CleanupReportFields{Page: 7, Deleted: 9, Objects: items})
	created = start
	write(own, "a-copy", run, v1alpha1.CleanupReportFields{Page: 1, Deleted: 2, Objects: items})
	write(others, "others", run, v1alpha1.CleanupReportFields{Page: 1, Deleted: 9, Objects: items})
	if deleted, last, gone, err := own.counted(t.Context(), run); deleted != 5 || last != 2 || !maps.Equal(gone, map[types.UID]bool{"1": true, "2": false}) || err != nil {
		t.Errorf("deleted %d, last page %d, gone %v, %v", deleted, last, gone, err)
	}
	if page, _, err := others.readPage(t.Context(), pageName("p", run, 1)); page != nil || err != nil {
		t.Errorf("another policy reads %+v, %v", page, err)
	}
}

// process runs ClusterCleanupPolicies with these schedules, by the start of their names, on real
// time. Their reviews of permissions call review.
func (c *cluster) process(schedules map[string]string, review func(context.Context) error) *Controller {
	c.t.Helper()
	out, clock := c.controller(), clock.RealClock{}
	out.compiler, out.queue = expression.NewCompiler(10), loop.NewRetryQueue(clock, recheck)
	out.turns, out.reviews = newTurns(clock, runsAtOnce, runsAtOnce), newTurns(clock, runsAtOnce, runsAtOnce)
	out.options.Clock = clock
	out.options.ServerTime = func(context.Context) (time.Time, error) { return time.Now(), nil }
	account, err := out.options.Account(types.NamespacedName{})
	must(c.t, err)
	account.Lacks = func(ctx context.Context, _ string, _ []permission.Need) ([]permission.Need, error) {
		return nil, review(ctx)
	}
	created, policies := time.Now(), map[string]*unstructured.Unstructured{}
	reports := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupReports)
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{reports: "ClusterCleanupReportList"})
	client.PrependReactor("get", v1alpha1.ClusterCleanupPolicies, func(did clienttesting.Action) (bool, runtime.Object, error) {
		name := did.(clienttesting.GetAction).GetName()
		if policies[name] == nil {
			live := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(created)}}
			live.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}}}
			live.Spec.Schedule = schedules[strings.TrimRight(name, "-0123456789")]
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
			if err != nil {
				return true, nil, err
			}
			policies[name] = &unstructured.Unstructured{Object: content}
		}
		return true, policies[name].DeepCopy(), nil
	})
	client.PrependReactor("patch", v1alpha1.ClusterCleanupPolicies, func(did clienttesting.Action) (bool, runtime.Object, error) {
		name := did.(clienttesting.PatchAction).GetName()
		object, err := patched(did.(clienttesting.PatchAction).GetPatch())
		if err != nil {
			return true, nil, err
		}
		policies[name].Object["status"] = object.Object["status"]
		return true, policies[name].DeepCopy(), nil
	})
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.UnstructuredList{}, nil
	})
	out.options.Objects = client
	return out
}

var must = builders.Must
