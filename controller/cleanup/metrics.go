package cleanup

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"curfew.dev/curfew/policy/v1alpha1"
)

type metrics struct {
	runs    *prometheus.CounterVec
	objects *prometheus.CounterVec
	stalled *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
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
			Help: "1 for each cleanup policy that does not delete all that it should, by the reason that its conditions give.",
		}, []string{"policy", "reason"}),
	}
	for _, collector := range []prometheus.Collector{m.runs, m.objects, m.stalled} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics of cleanup policies: %w", err)
		}
	}
	return m, nil
}

// observe shows whether a policy is stalled; now is nil for one that is deleted.
func (m *metrics) observe(resource, name string, now *seen) {
	policy := "clustercleanuppolicy/" + name
	if resource == v1alpha1.CleanupPolicies {
		policy = "cleanuppolicy/" + name
	}
	m.stalled.DeletePartialMatch(prometheus.Labels{"policy": policy})
	if now != nil && now.stalled != "" {
		m.stalled.WithLabelValues(policy, now.stalled).Set(1)
	}
}
