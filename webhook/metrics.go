package webhook

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of admission. No label is a namespace or a name.
type metrics struct {
	reviews     *prometheus.CounterVec
	dropped     prometheus.Counter
	unevaluated prometheus.Counter
	latency     *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_admission_reviews_total",
			Help: "Admission requests by webhook, operation, kind and decision (allowed, defaulted, denied, throttled, invalid, error).",
		}, []string{"webhook", "operation", "group", "kind", "decision"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "curfew_admission_patch_dropped_total",
			Help: "Patches that did not apply to the object they were made for and were not sent.",
		}),
		unevaluated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "curfew_admission_policy_errors_total",
			Help: "Expressions of LifecyclePolicies that could not be evaluated for an object; it is kept, and not refused.",
		}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "curfew_admission_duration_seconds",
			Help:    "Time from a decoded request to its answer.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"webhook"}),
	}
	var errs []error
	for _, collector := range []prometheus.Collector{m.reviews, m.dropped, m.unevaluated, m.latency} {
		errs = append(errs, registerer.Register(collector))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the webhooks' metrics: %w", err)
	}
	return m, nil
}
