package cleanup

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A policy that does not delete all that it should is in the metric, with the reason that matters
// most, until it is well, suspended or deleted. A changed condition is no reason to run it.
func TestStalledPoliciesAreInTheMetric(t *testing.T) {
	for _, names := range []bool{false, true} {
		t.Run(fmt.Sprintf("names %t", names), func(t *testing.T) { testStalledPolicies(t, names) })
	}
}

func testStalledPolicies(t *testing.T, names bool) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, names)
	policy := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u", "generation": int64(3)}, "status": map[string]any{"conditions": conditions}}}
	}
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	ready, invalid := condition("Ready", "True", "Accepted"), condition("Ready", "False", "InvalidField")
	granted, forbidden := condition("PermissionsGranted", "True", "Granted"), condition("PermissionsGranted", "False", "Forbidden")
	done, stalled := condition("Stalled", "False", "Complete"), condition("Stalled", "True", "TooManyMatches")
	suspended := policy(ready, granted, stalled)
	suspended.Object["spec"] = map[string]any{"suspend": true}
	deleted := policy(ready, granted, stalled)
	now := metav1.Now()
	deleted.SetDeletionTimestamp(&now)
	for name, c := range map[string]struct {
		policy *unstructured.Unstructured
		want   string
	}{
		"new":             {policy(), ""},
		"well":            {policy(ready, granted, done), ""},
		"above its limit": {policy(ready, granted, stalled), "TooManyMatches"},
		"forbidden":       {policy(ready, forbidden, stalled), "Forbidden"},
		"unusable":        {policy(invalid, forbidden, stalled), "InvalidField"},
		"forged":          {policy(condition("Ready", "False", "x-1")), "Other"},
		"suspended":       {suspended, ""},
		"being deleted":   {deleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := see(policy(ready, forbidden, done))
			m.observe(v1alpha1.CleanupPolicies, "ci/a", &before)
			now := see(c.policy)
			m.observe(v1alpha1.CleanupPolicies, "ci/a", &now)
			m.observe(v1alpha1.ClusterCleanupPolicies, "b", nil)
			m.observe(v1alpha1.CleanupPolicies, "ci/a", &now) // nothing new
			families, err := registry.Gather()
			must(t, err)
			have := ""
			for _, family := range families {
				for _, series := range family.GetMetric() {
					for _, label := range series.GetLabel() {
						have += label.GetValue() + " "
					}
				}
			}
			want := c.want
			if want != "" {
				want = map[bool]string{false: "ci  ", true: "ci cleanuppolicy/ci/a "}[names] + want + " "
			}
			if have != want {
				t.Errorf("series %q, want %q", have, want)
			}
		})
	}
	if bad, well := see(policy(invalid)), see(policy(ready)); bad == well || bad.spec != well.spec {
		t.Error("a condition changes what a run depends on")
	}
}

// Without names a series counts the policies of a namespace.
func TestStalledPoliciesOfANamespace(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), false)
	for i := range 3 {
		m.observe(v1alpha1.CleanupPolicies, fmt.Sprint("ci/", i), &seen{stalled: "Forbidden"})
	}
	m.observe(v1alpha1.CleanupPolicies, "ci/1", nil)
	series := &dto.Metric{}
	if err := m.stalled.WithLabelValues("ci", "", "Forbidden").Write(series); err != nil || series.GetGauge().GetValue() != 2 {
		t.Errorf("%v policies of ci are stalled, %v", series.GetGauge().GetValue(), err)
	}
	got := (&Controller{metrics: m}).Stalled()
	if want := []string{"cleanuppolicy/ci/0 (Forbidden)", "cleanuppolicy/ci/2 (Forbidden)"}; !slices.Equal(got, want) {
		t.Errorf("stalled are %v, want %v", got, want)
	}
}

// The age of a policy is found in its own namespace, whatever is created, changed and deleted.
func TestAges(t *testing.T) {
	a := newAges()
	seenAt := func(uid string, hour int) *seen {
		return &seen{spec: spec{uid: types.UID(uid), created: start.Add(time.Duration(hour) * time.Hour)}}
	}
	for _, uid := range []string{"c", "a", "b"} {
		a.observe("ci/"+uid, nil, seenAt(uid, 1))
	}
	a.observe("ci/old", nil, seenAt("old", 0))
	a.observe("prod/old", nil, seenAt("other", 0))
	changed := seenAt("a", 1)
	changed.suspended = true
	a.observe("ci/a", seenAt("a", 1), changed)
	for uid, want := range map[string]int{"a": 1, "b": 2, "c": 3} {
		if got := a.older("ci", seenAt(uid, 1).spec); got != want {
			t.Errorf("%d policies are older than %s, want %d", got, uid, want)
		}
	}
	a.observe("ci/old", seenAt("old", 0), nil)
	a.observe("prod/old", seenAt("other", 0), nil)
	if got := a.older("ci", seenAt("c", 1).spec); got != 2 || len(a.in) != 1 {
		t.Errorf("%d are older after one was deleted; %d namespaces", got, len(a.in))
	}
}

// A run deletes nothing more once its policy was edited, suspended, deleted or created again. A
// change of its status is none.
func TestPolicyStillApplies(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*unstructured.Unstructured)
		applies bool
	}{
		"nothing": {func(o *unstructured.Unstructured) {
			o.Object["status"] = map[string]any{"observedGeneration": int64(1)}
		}, true},
		"edited":        {func(o *unstructured.Unstructured) { o.SetGeneration(2) }, false},
		"suspended":     {func(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["suspend"] = true }, false},
		"deleted":       {func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Now())) }, false},
		"created again": {func(o *unstructured.Unstructured) { o.SetUID("another") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "CleanupPolicy", "spec": map[string]any{"schedule": "0 2 * * *"}}}
				object.SetNamespace("ci")
				object.SetName("a")
				object.SetUID("u")
				object.SetGeneration(1)
				resource := v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)
				api := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "CleanupPolicyList"}, object)
				process := New(Options{Objects: api, Engine: newCluster(t), Clock: clock.RealClock{}, Log: logr.Discard(), Registerer: prometheus.NewRegistry()})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { process.namespaced.Run(ctx); close(ended) }()
				synctest.Wait()
				p, _, _ := cleanup.Read(process.compiler, object)
				if !process.unchanged(p) {
					t.Error("it does not apply at first")
				}
				c.change(object)
				_, err := api.Resource(resource).Namespace("ci").Update(ctx, object, metav1.UpdateOptions{})
				must(t, err)
				synctest.Wait()
				if got := process.unchanged(p); got != c.applies {
					t.Errorf("it still applies: %t, want %t", got, c.applies)
				}
				cancel()
				<-ended
			})
		})
	}
}
