package cleanup

import (
	"fmt"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"curfew.dev/curfew/policy/v1alpha1"
)

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

func newMetrics(registerer prometheus.Registerer, names bool) (*metrics, error) {
	m := &metrics{
		names: names, reasons: map[string]string{}, counts: map[[3]string]int{},
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_cleanup_runs_total",
			Help: "Runs of cleanup policies that ended, by how they ended: Completed, Stalled or Failed.",
		}, []string{"phase"}),
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_cleanup_objects_total",
			Help: "Objects that cleanup policies were about to delete, by what became of them: Deleted, Gone, Kept, Failed, Unknown or WouldDelete.",
		}, []string{"result"}),
		stalled: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "curfew_cleanup_stalled_policies",
			Help: "Cleanup policies that do not delete all that they should, by namespace and the reason that their conditions give; namespace is empty for ClusterCleanupPolicies. With --metrics-policy-names also by policy.",
		}, []string{"namespace", "policy", "reason"}),
	}
	for _, collector := range []prometheus.Collector{m.runs, m.objects, m.stalled} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics of cleanup policies: %w", err)
		}
	}
	return m, nil
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
