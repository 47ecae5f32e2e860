// Package collectors registers the metrics of the controller's parts.
package collectors

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter makes a counter with labels.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge makes a gauge with labels.
func Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Histogram makes a histogram with labels.
func Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Register registers collectors. Without a registerer nothing shows them.
func Register(registerer prometheus.Registerer, what string, collectors ...prometheus.Collector) error {
	if registerer == nil {
		return nil
	}
	for _, collector := range collectors {
		if err := registerer.Register(collector); err != nil {
			return fmt.Errorf("registering %s: %w", what, err)
		}
	}
	return nil
}
