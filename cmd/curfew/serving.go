package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/coverage"
	"curfew.dev/curfew/webhook/api"
)

// servingOptions are the webhook's flags for its TLS server.
type servingOptions struct {
	certificates, certificateDir string
	caSettle                     time.Duration
	tlsMinVersion                string
	clientCAFile                 string
	clientNames                  []string
	drainDelay                   time.Duration
}

const (
	selfManaged = "self-managed"
	certManager = "cert-manager"
)

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func defaultServing() servingOptions {
	return servingOptions{
		certificates: selfManaged, certificateDir: "/etc/curfew/tls", caSettle: certs.DefaultSettle, tlsMinVersion: "1.3",
		drainDelay: 5 * time.Second,
	}
}

func (o *servingOptions) addServing(flags *pflag.FlagSet) {
	flags.StringVar(&o.certificates, "certificates", o.certificates, "self-managed: Curfew makes its certificates and tells the API server whom to trust; cert-manager: something else does both, and the certificate is in --certificate-dir")
	flags.StringVar(&o.certificateDir, "certificate-dir", o.certificateDir,
		"folder with tls.crt, tls.key and ca.crt, read again when they change; with --certificates=cert-manager")
	flags.DurationVar(&o.caSettle, "ca-settle", o.caSettle,
		"how long every webhook configuration must have had a new CA before it signs; with --certificates=self-managed")
	flags.StringVar(&o.tlsMinVersion, "tls-min-version", o.tlsMinVersion, "lowest version of TLS that is served: 1.2 or 1.3")
	flags.StringVar(&o.clientCAFile, "client-ca-file", o.clientCAFile,
		"CAs of the client certificate that callers of the webhooks must have; empty means that none is asked for")
	flags.StringSliceVar(&o.clientNames, "client-names", o.clientNames,
		"common names that the client certificate may have; empty means any; with --client-ca-file")
	flags.DurationVar(&o.drainDelay, "drain-delay", o.drainDelay,
		"how long a webhook serves on after it was told to stop, until no more requests are sent to it")
}

func (o *servingOptions) validateServing() error {
	var errs []error
	bad := func(flag string, value any, fix string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", flag, value, fix))
	}
	if o.certificates != selfManaged && o.certificates != certManager {
		bad("certificates", o.certificates, "give self-managed or cert-manager")
	}
	if o.certificates == certManager && o.certificateDir == "" {
		bad("certificate-dir", o.certificateDir, "name the folder where the Secret is mounted")
	}
	if o.caSettle < time.Second || o.caSettle > 24*time.Hour {
		bad("ca-settle", o.caSettle, "give 1s to 24h")
	}
	if tlsVersions[o.tlsMinVersion] == 0 {
		bad("tls-min-version", o.tlsMinVersion, "give 1.2 or 1.3")
	}
	if len(o.clientNames) > 0 && o.clientCAFile == "" {
		bad("client-names", o.clientNames, "set --client-ca-file, too: without it no certificate is asked for")
	}
	if o.drainDelay < 0 || o.drainDelay > 5*time.Minute {
		bad("drain-delay", o.drainDelay, "give 0s to 5m")
	}
	return errors.Join(errs...)
}

func (a *admission) addCertificates(context.Context) (err error) {
	if a.options.only() { // The administrator who installed the webhook configurations makes them trust the certificate.
		if a.certificates, err = certs.NewMounted(certs.MountedOptions{Dir: a.options.certificateDir}); err != nil {
			return err
		}
		return a.serveCertificate()
	}
	// A live client: a cached one would have to list the Secrets of the whole cluster.
	live, err := client.NewWithWatch(a.config, client.Options{})
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	configurations := []string{certs.DefaultConfiguration, coverage.Name}
	if a.options.certificates == certManager {
		a.certificates, err = certs.NewMounted(certs.MountedOptions{Dir: a.options.certificateDir, Client: live, Configurations: configurations})
	} else {
		a.certificates, err = certs.NewSelfSigned(certs.Options{
			Client: live, Namespace: a.options.namespace, Configurations: configurations,
			DNSNames:   append(certs.ServiceDNSNames(serviceName, a.options.namespace), "localhost"),
			IPs:        []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			Settle:     a.options.caSettle,
			ServerTime: a.serverTime,
		})
	}
	if err != nil {
		return err
	}
	return a.serveCertificate()
}

func (a *admission) serveCertificate() error {
	if err := metrics.Registry.Register(certs.NewExpiryMetric(a.certificates)); err != nil {
		return fmt.Errorf("registering metrics of the certificate: %w", err)
	}
	a.certificate = &tls.Config{MinVersion: tlsVersions[a.options.tlsMinVersion], GetCertificate: a.certificates.GetCertificate}
	return a.mgr.Add(a.certificates)
}

func (a *admission) addServer(ctx context.Context) error {
	mux := http.NewServeMux()
	a.handlers.Register(mux)
	config := a.certificate.Clone()
	// API servers use HTTP/1.1 with a webhook behind a Service, whatever that offers (kubernetes
	// issue 75791).
	config.NextProtos = []string{"http/1.1"}
	if file := a.options.clientCAFile; file != "" {
		var err error
		if config, err = certs.RequireClients(config, file, slices.Clone(a.options.clientNames)); err != nil {
			return fmt.Errorf("--client-ca-file=%s: %w", file, err)
		}
	}
	server, err := api.ListenTLS(ctx, net.JoinHostPort(a.options.host, fmt.Sprint(a.options.port)), a.drain.closing(mux), config)
	if err != nil {
		return err
	}
	return a.mgr.Add(server)
}

// drain stops a webhook without failing a request: it serves until its callers have noticed that it
// is no longer ready, and meanwhile closes each connection after its response. Idle connections
// close at the end of that time.
type drain struct{ begun atomic.Bool }

// follow returns a context that ends the delay after ctx does.
func (d *drain) follow(ctx context.Context, after func(time.Duration) <-chan time.Time, delay time.Duration) context.Context {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.begun.Store(true)
		if delay > 0 {
			<-after(delay)
		}
		cancel()
	})
	return later
}

// closing has each connection close after the response that is under way.
func (d *drain) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// check fails once the process has been told to stop.
func (d *drain) check() api.Check {
	return api.Check{Name: "stopping", Probe: func(context.Context) error {
		if d.begun.Load() {
			return errors.New("the process has been told to stop")
		}
		return nil
	}}
}

// serviceName is the Service in front of the webhooks, as manifests/deploy names it.
const serviceName = "curfew-webhook"
