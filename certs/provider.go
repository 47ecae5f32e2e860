package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNoCertificate = errors.New("the webhook has no serving certificate yet")

// Provider supplies the webhook server with its serving certificate. It has the shape of a
// controller-runtime Runnable.
type Provider interface {
	// Start keeps the certificate valid until ctx ends, and then returns nil. It does not give up on
	// errors.
	Start(ctx context.Context) error
	// NeedLeaderElection is false: every replica serves, so every replica needs the certificate.
	NeedLeaderElection() bool
	// Ready reports whether a handshake would succeed now, and the webhook configurations trust the
	// CA.
	Ready() bool
	// GetCertificate is for tls.Config.GetCertificate. It fails until the first certificate is loaded.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// CABundle returns the PEM certificates that clients have to trust, or nil before the first is
	// loaded.
	CABundle() []byte
}

var _ Provider = (*SelfSigned)(nil)

const (
	// DefaultSecretName is the Secret, in Curfew's own namespace, that holds the CA, or the serving
	// certificate that cert-manager issues.
	DefaultSecretName = "curfew-webhook-tls"
	// DefaultConfiguration is the name of the static webhook configurations in manifests/webhook, of
	// both kinds.
	DefaultConfiguration = "curfew"

	// DefaultCALifetime is how long a self-made CA is valid. It is replaced after two thirds of it.
	DefaultCALifetime = 2 * 365 * 24 * time.Hour
	// DefaultServingLifetime is how long a serving certificate is valid. It is replaced after two
	// thirds of it.
	DefaultServingLifetime = 90 * 24 * time.Hour
	// DefaultSettle is how long every webhook configuration has a new CA before it signs: time for
	// every API server's watch to see it.
	DefaultSettle = time.Minute
)

// Options configure NewSelfSigned. Client, Namespace and at least one of DNSNames and IPs are
// required.
type Options struct {
	// Client must read live, not from a cache: a cached client would need to list the Secrets of the
	// whole cluster. (A manager's own client does not implement WithWatch; client.NewWithWatch makes
	// one that does.)
	Client client.WithWatch

	Namespace  string
	SecretName string // default DefaultSecretName

	// DNSNames and IPs are the addresses that the API server dials; see ServiceDNSNames.
	DNSNames []string
	IPs      []net.IP

	// Configurations names the MutatingWebhookConfigurations and ValidatingWebhookConfigurations that
	// get the CA bundle; default DefaultConfiguration. SelfSigned waits for missing ones, so that a
	// configuration which is created later can be named from the start. They are named, not selected
	// by label, because RBAC can limit patches only to names.
	Configurations []string

	CALifetime      time.Duration // default DefaultCALifetime
	ServingLifetime time.Duration // default DefaultServingLifetime; cut short where the CA ends earlier
	Settle          time.Duration // default DefaultSettle

	Clock clock.Clock // default the real one

	// ServerTime is the API server's time, which decides whether a certificate is valid: the API
	// server verifies it, and replicas whose clocks differ would keep replacing each other's. If
	// ServerTime is nil, or fails before its first answer, the clock decides.
	ServerTime func(context.Context) (time.Time, error)
}

// ServiceDNSNames returns the names under which a Service is reached inside the cluster. The API
// server uses the last.
func ServiceDNSNames(service, namespace string) []string {
	return []string{service, service + "." + namespace, service + "." + namespace + ".svc"}
}

func (o Options) withDefaults() Options {
	o.SecretName = cmp.Or(o.SecretName, DefaultSecretName)
	if len(o.Configurations) == 0 {
		o.Configurations = []string{DefaultConfiguration}
	}
	o.CALifetime = cmp.Or(o.CALifetime, DefaultCALifetime)
	o.ServingLifetime = cmp.Or(o.ServingLifetime, DefaultServingLifetime)
	o.Settle = cmp.Or(o.Settle, DefaultSettle)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.Client == nil {
		errs = append(errs, errors.New("Client is required"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("Namespace is required: set it to the namespace Curfew runs in"))
	}
	if len(o.DNSNames) == 0 && len(o.IPs) == 0 {
		errs = append(errs, errors.New("DNSNames or IPs is required: set what the API server dials, for example ServiceDNSNames"))
	}
	// Below this a new CA could not settle before the certificates of the old one end.
	if least := 3 * (backdate + o.Settle); o.CALifetime < least || o.ServingLifetime < least {
		errs = append(errs, fmt.Errorf("CALifetime %s and ServingLifetime %s must each be at least %s", o.CALifetime, o.ServingLifetime, least))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("certs options: %w", err)
	}
	return nil
}

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
