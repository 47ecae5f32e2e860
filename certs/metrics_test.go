package certs

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The metric is absent while nothing is served, and follows the certificate through its renewals.
func TestExpiryMetric(t *testing.T) {
	clk := clocktesting.NewFakeClock(epoch)
	provider := newSelfSigned(t, fake.NewClientBuilder().Build(), clk)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewExpiryMetric(provider))
	scrape := func() []float64 {
		t.Helper()
		families, err := registry.Gather()
		must(t, err)
		var out []float64
		for _, family := range families {
			if got := family.GetName(); got != "curfew_certificate_expiry_timestamp_seconds" {
				t.Errorf("metric %s", got)
			}
			for _, metric := range family.GetMetric() {
				out = append(out, metric.GetGauge().GetValue())
			}
		}
		return out
	}
	if got := scrape(); len(got) != 0 {
		t.Errorf("before the first certificate: %v, want nothing", got)
	}
	for renewal := range 3 {
		if _, err := provider.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := float64(clk.Now().Add(DefaultServingLifetime).Unix())
		if got := scrape(); len(got) != 1 || got[0] != want {
			t.Errorf("after renewal %d: %v, want %v", renewal, got, want)
		}
		clk.Step(DefaultServingLifetime*2/3 + time.Hour)
	}
}
