package tally

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

type metrics struct {
	counted  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	failures *prometheus.CounterVec
	edited   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_tally_pods_total",
			Help: "Pods that were counted by a PodTally, by how they finished.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "curfew_tally_request_duration_seconds",
			Help:    "Duration of the requests of PodTallies, by step: status, count, adopt or release.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 12),
		}, []string{"step"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_tally_request_failures_total",
			Help: "Requests of PodTallies that failed, and are sent again, by step.",
		}, []string{"step"}),
		edited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "curfew_tally_status_edits_total",
			Help: "Statuses of PodTallies that someone else than Curfew had changed.",
		}),
	}
	for _, collector := range []prometheus.Collector{m.counted, m.duration, m.failures, m.edited} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics of PodTallies: %w", err)
		}
	}
	return m, nil
}

// step counts one request.
func (m *metrics) step(step string, began time.Time, clock clock.PassiveClock, err error) {
	m.duration.WithLabelValues(step).Observe(clock.Since(began).Seconds())
	if err != nil {
		m.failures.WithLabelValues(step).Inc()
	}
}
