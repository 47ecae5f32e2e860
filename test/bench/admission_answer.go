package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// As an API server talks to a webhook behind a Service, whatever that offers.
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{answerCertificate()}}
	mux := http.NewServeMux()
	mux.HandleFunc(metricsPath, mallocs)
	switch *kind {
	case answerNoop:
		mux.HandleFunc(mutatePath, allow)
		return serveBare(ctx, *address, mux, config)
	case answerTyped:
		return serveTyped(ctx, *address, mux, config)
	default:
		return fmt.Errorf("--kind %q: give %s or %s", *kind, answerNoop, answerTyped)
	}
}

// answerCertificate is a self-signed certificate for loopback. Connections are reused, so the kind of
// key does not matter.
func answerCertificate() tls.Certificate {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return server.TLS.Certificates[0]
}

// serveBare is net/http and nothing else.
func serveBare(ctx context.Context, address string, mux *http.ServeMux, config *tls.Config) error {
	server := &http.Server{Addr: address, Handler: mux, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS("", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// serveTyped is controller-runtime's server with its typed defaulter.
func serveTyped(ctx context.Context, address string, mux *http.ServeMux, config *tls.Config) error {
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
		c.MinVersion, c.NextProtos = config.MinVersion, config.NextProtos
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &config.Certificates[0], nil }
	}}})
	server.Register(mutatePath, admission.WithDefaulter(clientgoscheme.Scheme, typedDefaulter{}))
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// allow says "allowed" to whatever it is asked, and reads no more than it needs for that. It is the
// least that a webhook in Go can do with what Go comes with.
func allow(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID types.UID `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true},
	})
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
