package cleanup

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/v1alpha1"
)

// A policy that does not delete all that it should is in the metric, with the reason that matters
// most, until it is well, suspended or deleted. A changed condition is no reason to run it.
func TestStalledPoliciesAreInTheMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	policy := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"uid": "u", "generation": int64(3)}, "status": map[string]any{"conditions": conditions},
		}}
	}
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	ready, invalid := condition("Ready", "True", "Accepted"), condition("Ready", "False", "InvalidSchedule")
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
		"unusable":        {policy(invalid, forbidden, stalled), "InvalidSchedule"},
		"suspended":       {suspended, ""},
		"being deleted":   {deleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := see(policy(ready, forbidden, done))
			m.observe(v1alpha1.CleanupPolicies, "ci/a", &before)
			now := see(c.policy)
			m.observe(v1alpha1.CleanupPolicies, "ci/a", &now)
			m.observe(v1alpha1.ClusterCleanupPolicies, "b", nil)
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
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
				want = "cleanuppolicy/ci/a " + want + " "
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
