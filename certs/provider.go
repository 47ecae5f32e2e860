package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
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

// mountRetry is how often Mounted looks for a certificate that is missing or not yet trusted.
const mountRetry = time.Second

// MountedOptions configure NewMounted. Dir and Client are required.
type MountedOptions struct {
	// Dir holds tls.crt, tls.key and ca.crt, as a Secret that is mounted.
	Dir string
	// Client reads the webhook configurations, live.
	Client client.Client
	// Configurations are the webhook configurations that exist have to trust the certificate before
	// it is ready; default DefaultConfiguration.
	Configurations []string
	Clock          clock.WithTicker // default the real one
}

// Mounted is the Provider that serves a certificate of another issuer, such as cert-manager, which
// renews it and makes the webhook configurations trust it.
type Mounted struct {
	options  MountedOptions
	injector injector
	watcher  atomic.Pointer[certwatcher.CertWatcher]
	trusted  atomic.Bool // once is enough: later bundles follow the certificate
}

var _ Provider = (*Mounted)(nil)

// NewMounted validates the options. Nothing is read before Start.
func NewMounted(options MountedOptions) (*Mounted, error) {
	if options.Dir == "" {
		return nil, errors.New("certs options: Dir is required")
	}
	if len(options.Configurations) == 0 {
		options.Configurations = []string{DefaultConfiguration}
	}
	options.Clock = cmp.Or[clock.WithTicker](options.Clock, clock.RealClock{})
	return &Mounted{options: options, injector: injector{client: options.Client, names: options.Configurations}}, nil
}

// Start loads the certificate as soon as there is one, and again whenever it changes.
func (m *Mounted) Start(ctx context.Context) error {
	var watcher *certwatcher.CertWatcher
	m.until(ctx, func() (err error) {
		watcher, err = certwatcher.New(m.file("tls.crt"), m.file("tls.key"))
		return err
	}, func(reason string) {
		log.FromContext(ctx).Info("Waiting for the serving certificate", "dir", m.options.Dir, "reason", reason)
	})
	if ctx.Err() != nil {
		return nil
	}
	m.watcher.Store(watcher)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		m.until(ctx, func() error { return m.check(ctx) }, func(reason string) {
			log.FromContext(ctx).Info("Waiting for webhook configurations to trust the serving certificate", "dir", m.options.Dir, "reason", reason)
		})
		m.trusted.Store(ctx.Err() == nil)
	})
	if err := watcher.Start(ctx); err != nil {
		return fmt.Errorf("watching %s: %w", m.options.Dir, err)
	}
	return nil
}

// until tries until it succeeds or ctx ends, and reports each reason to wait once.
func (m *Mounted) until(ctx context.Context, try func() error, waiting func(reason string)) {
	ticker := m.options.Clock.NewTicker(mountRetry)
	defer ticker.Stop()
	last := ""
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return
		}
		if last != err.Error() {
			last = err.Error()
			waiting(last)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// check fails while some webhook has no bundle that the certificate verifies against.
func (m *Mounted) check(ctx context.Context) error {
	certificate, err := m.GetCertificate(nil)
	if err != nil {
		return err
	}
	chain := make([]*x509.Certificate, len(certificate.Certificate))
	for i, raw := range certificate.Certificate {
		if chain[i], err = x509.ParseCertificate(raw); err != nil {
			return fmt.Errorf("parsing the serving certificate: %w", err)
		}
	}
	configurations, err := m.injector.read(ctx)
	if err != nil {
		return err
	}
	for _, obj := range configurations {
		for _, w := range webhooksOf(obj) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(w.config.CABundle)
			_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: pool(chain[1:]), CurrentTime: m.options.Clock.Now()})
			if err != nil {
				return fmt.Errorf("webhook %s of %s: %w", w.name, obj.GetName(), err)
			}
		}
	}
	return nil
}

func (m *Mounted) file(name string) string { return filepath.Join(m.options.Dir, name) }

// NeedLeaderElection is false: every replica serves.
func (m *Mounted) NeedLeaderElection() bool { return false }

// Ready reports whether there is a valid certificate, and the webhook configurations trust it.
func (m *Mounted) Ready() bool {
	certificate, err := m.GetCertificate(nil)
	if err != nil || !m.trusted.Load() {
		return false
	}
	end, err := notAfter(certificate)
	return err == nil && m.options.Clock.Now().Before(end)
}

// GetCertificate returns the newest certificate of the folder, for tls.Config.GetCertificate.
func (m *Mounted) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := m.watcher.Load()
	if watcher == nil {
		return nil, errNoCertificate
	}
	return watcher.GetCertificate(hello)
}

// CABundle returns ca.crt of the folder, or nil if it cannot be read.
func (m *Mounted) CABundle() []byte {
	bundle, err := os.ReadFile(m.file("ca.crt"))
	if err != nil {
		return nil
	}
	return bundle
}

// notAfter is when a certificate ends.
func notAfter(certificate *tls.Certificate) (time.Time, error) {
	if certificate.Leaf != nil {
		return certificate.Leaf.NotAfter, nil
	}
	if len(certificate.Certificate) == 0 {
		return time.Time{}, errNoCertificate
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return time.Time{}, fmt.Errorf("parsing the serving certificate: %w", err)
	}
	return leaf.NotAfter, nil
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}
