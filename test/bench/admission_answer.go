package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// answerCommand is the first argument that turns this program into a webhook that Curfew is
// compared with.
const answerCommand = "answer"

// Kinds of such webhooks.
const (
	answerNoop  = "noop"
	answerTyped = "typed"
)

// defaultedTTL is what everybody fills in: a day, in seconds.
const defaultedTTL = 86400

const (
	mutatePath  = "/mutate"
	metricsPath = "/metrics"
)

func init() { commands[answerCommand] = runAnswer }

// runAnswer serves one of the webhooks that Curfew is compared with, in a process of its own, as
// Curfew is.
func runAnswer(ctx context.Context, args []string, _ io.Writer) error {
	fs := flag.NewFlagSet(answerCommand, flag.ContinueOnError)
	kind := fs.String("kind", answerNoop, "what answers")
	address := fs.String("addr", "127.0.0.1:0", "where")
	if err := fs.Parse(args); err != nil {
		return err
	}
	hook := &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })}
	switch *kind {
	case answerNoop:
	case answerTyped:
		hook = admission.WithDefaulter(clientgoscheme.Scheme, typedDefaulter{})
	default:
		return fmt.Errorf("--kind %q: give %s or %s", *kind, answerNoop, answerTyped)
	}
	return serveHook(ctx, *address, hook)
}

// answerCertificate is a self-signed certificate for loopback. Connections are reused, so the kind of
// key does not matter.
func answerCertificate() tls.Certificate {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return server.TLS.Certificates[0]
}

// serveHook is controller-runtime's server with a webhook of its own.
func serveHook(ctx context.Context, address string, hook http.Handler) error {
	mux, certificate := http.NewServeMux(), answerCertificate()
	mux.HandleFunc(metricsPath, mallocs)
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--addr %q: %w", address, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("--addr %q: %w", address, err)
	}
	ctrllog.SetLogger(logr.Discard())
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: port, WebhookMux: mux, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		// As an API server talks to a webhook behind a Service, whatever that offers.
		c.MinVersion, c.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	}}})
	server.Register(mutatePath, hook)
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// typedDefaulter is the simple default as one writes it with controller-runtime.
type typedDefaulter struct{}

// Default implements admission.Defaulter.
func (typedDefaulter) Default(_ context.Context, job *batchv1.Job) error {
	if job.Spec.TTLSecondsAfterFinished == nil {
		job.Spec.TTLSecondsAfterFinished = ptr.To[int32](defaultedTTL)
	}
	return nil
}

// mallocs says how many objects this process has allocated so far.
func mallocs(w http.ResponseWriter, _ *http.Request) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Fprintf(w, "go_memstats_mallocs_total %d\n", stats.Mallocs)
}
