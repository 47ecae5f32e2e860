package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// mountRetry is how often Mounted looks for a certificate that is missing or not yet trusted.
const mountRetry = time.Second

// MountedOptions configure NewMounted. Dir is required.
type MountedOptions struct {
	// Dir holds tls.crt, tls.key and ca.crt, as a Secret that is mounted.
	Dir string
	// Client reads the webhook configurations, live. Nil means that Curfew may not read them: the
	// certificate is ready as soon as it is loaded.
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
	if err != nil || m.options.Client == nil {
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
