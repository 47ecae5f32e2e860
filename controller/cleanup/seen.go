package cleanup

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// seen is the part of a policy that the controller keeps.
type seen struct {
	spec
	// stalled is the reason why the policy does not delete all that it should, or "".
	stalled string
}

// spec is what a run depends on. A policy is looked at again when it changes.
type spec struct {
	uid        types.UID
	generation int64
	created    time.Time
	suspended  bool
	deleting   bool
}

func see(object *unstructured.Unstructured) seen {
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	deleting := object.GetDeletionTimestamp() != nil
	out := seen{spec: spec{object.GetUID(), object.GetGeneration(), object.GetCreationTimestamp().Time, suspended, deleting}}
	if !suspended && !deleting {
		out.stalled = stalledReason(object)
	}
	return out
}

// stalledReason returns why a policy does not delete all that it should: it cannot be used, its
// account lacks a permission, or its last run was stalled. The first such condition gives the
// reason.
func stalledReason(object *unstructured.Unstructured) string {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	content, _, _ := unstructured.NestedMap(object.Object, "status")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status) != nil {
		return "" // The schema does not admit it.
	}
	for _, bad := range []struct {
		condition string
		status    metav1.ConditionStatus
	}{
		{v1alpha1.ConditionReady, metav1.ConditionFalse},
		{v1alpha1.ConditionPermissionsGranted, metav1.ConditionFalse},
		{v1alpha1.ConditionStalled, metav1.ConditionTrue},
	} {
		if c := meta.FindStatusCondition(status.Conditions, bad.condition); c != nil && c.Status == bad.status {
			if !slices.Contains(reasons, c.Reason) {
				return otherReason // Others may have written it: each would be a series.
			}
			return c.Reason
		}
	}
	return ""
}

// reasons are the reasons that Curfew gives, and otherReason stands for all others.
var reasons = []string{
	v1alpha1.ReasonInvalidField, v1alpha1.ReasonInvalidExpression, v1alpha1.ReasonForbidden, v1alpha1.ReasonTooManyMatches,
	v1alpha1.ReasonTooManyGroups, v1alpha1.ReasonWaitingForApproval, v1alpha1.ReasonPaused, v1alpha1.ReasonUnread, v1alpha1.ReasonKindNotListed,
	v1alpha1.ReasonTimeLimit, v1alpha1.ReasonRunFailed, v1alpha1.ReasonNeedsNewerVersion,
}

const otherReason = "Other"

// ages order the CleanupPolicies of each namespace by age, so that a step of one does not read all.
type ages struct {
	mu sync.Mutex
	in map[string][]spec
}

func newAges() *ages { return &ages{in: map[string][]spec{}} }

func byAge(a, b spec) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.uid, b.uid))
}

// observe follows a policy by its namespace and name; old is nil if it is new, now if it is gone.
func (a *ages) observe(key string, old, now *seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	namespace, _, _ := strings.Cut(key, "/")
	list := a.in[namespace]
	if old != nil {
		if i, ok := slices.BinarySearchFunc(list, old.spec, byAge); ok {
			list = slices.Delete(list, i, i+1)
		}
	}
	if now != nil {
		i, _ := slices.BinarySearchFunc(list, now.spec, byAge)
		list = slices.Insert(list, i, now.spec)
	}
	if a.in[namespace] = list; len(list) == 0 {
		delete(a.in, namespace)
	}
}

// older is how many policies of a namespace are older than one.
func (a *ages) older(namespace string, than spec) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	older, _ := slices.BinarySearchFunc(a.in[namespace], than, byAge)
	return older
}

type metrics struct {
	runs    *prometheus.CounterVec
	objects *prometheus.CounterVec
	stalled *prometheus.GaugeVec

	// names: stalled has a series for each policy, not only for each namespace.
	names bool
	mu    sync.Mutex
	// reasons holds, by policy name, why a policy is stalled, and counts how often each reason occurs.
	reasons map[string]string
	counts  map[[3]string]int
}

func newMetrics(registerer prometheus.Registerer, names bool) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		names: names, reasons: map[string]string{}, counts: map[[3]string]int{},
		runs: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_cleanup_runs_total",
			Help: "Runs of cleanup policies that ended, by how they ended: Completed, Stalled or Failed."}, []string{"phase"}),
		objects: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_cleanup_objects_total",
			Help: "Objects that cleanup policies were about to delete, by what became of them: " +
				"Deleted, Gone, Kept, Failed, Unknown, Lost or WouldDelete."}, []string{"result"}),
		stalled: factory.NewGaugeVec(prometheus.GaugeOpts{Name: "curfew_cleanup_stalled_policies",
			Help: "Cleanup policies that do not delete all that they should, by namespace and the reason that their conditions give; " +
				"namespace is empty for ClusterCleanupPolicies. With --metrics-policy-names also by policy."}, []string{"namespace", "policy", "reason"}),
	}
}

// observe shows whether a policy is stalled; now is nil for one that is deleted. It takes the same
// time however many policies there are.
func (m *metrics) observe(resource, name string, now *seen) {
	policy, namespace := "clustercleanuppolicy/"+name, ""
	if resource == v1alpha1.CleanupPolicies {
		policy = "cleanuppolicy/" + name
		namespace, _, _ = strings.Cut(name, "/")
	}
	reason := ""
	if now != nil {
		reason = now.stalled
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.reasons[policy]
	if before == reason {
		return
	}
	if m.add(namespace, policy, before, -1); reason == "" {
		delete(m.reasons, policy)
		return
	}
	m.reasons[policy] = reason
	m.add(namespace, policy, reason, 1)
}

// add adds to a series. The lock is held.
func (m *metrics) add(namespace, policy, reason string, n int) {
	if reason == "" {
		return
	}
	if !m.names {
		policy = ""
	}
	series := [3]string{namespace, policy, reason}
	if m.counts[series] += n; m.counts[series] > 0 {
		m.stalled.WithLabelValues(series[:]...).Set(float64(m.counts[series]))
		return
	}
	delete(m.counts, series)
	m.stalled.DeleteLabelValues(series[:]...)
}

// paused is the reason for which a status says that the run is held: Paused, Unread or none.
func paused(s *v1alpha1.CleanupPolicyStatus) string {
	stalled := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonPaused && stalled.Reason != v1alpha1.ReasonUnread {
		return ""
	}
	return stalled.Reason
}
