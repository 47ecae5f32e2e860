package cleanup

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	runs    *prometheus.CounterVec
	objects *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_cleanup_runs_total",
			Help: "Runs of cleanup policies that ended, by how they ended: Completed, Stalled or Failed.",
		}, []string{"phase"}),
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_cleanup_objects_total",
			Help: "Objects that cleanup policies were about to delete, by what became of them: Deleted, Gone, Kept, Failed or WouldDelete.",
		}, []string{"result"}),
	}
	for _, collector := range []prometheus.Collector{m.runs, m.objects} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics of cleanup policies: %w", err)
		}
	}
	return m, nil
}
