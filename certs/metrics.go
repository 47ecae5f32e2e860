package certs

import (
	"github.com/prometheus/client_golang/prometheus"
)

// expiry tells when the certificate that a Provider serves ends.
type expiry struct {
	provider Provider
	desc     *prometheus.Desc
}

// NewExpiryMetric is a collector of curfew_certificate_expiry_timestamp_seconds: the end of the
// serving certificate that the next handshake gets. While there is none the metric is absent.
func NewExpiryMetric(provider Provider) prometheus.Collector {
	return &expiry{provider: provider, desc: prometheus.NewDesc("curfew_certificate_expiry_timestamp_seconds",
		"When the certificate that the webhooks are served with ends, in seconds since 1970.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (e *expiry) Describe(ch chan<- *prometheus.Desc) { ch <- e.desc }

// Collect implements prometheus.Collector.
func (e *expiry) Collect(ch chan<- prometheus.Metric) {
	certificate, err := e.provider.GetCertificate(nil)
	if err != nil {
		return
	}
	end, err := notAfter(certificate)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(end.Unix()))
}
