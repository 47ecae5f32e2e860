package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/test/harness"
)

// overlayAddress is what manifests/overlays/local writes for the webhook.
const overlayAddress = "https://127.0.0.1:9443"

// site is Curfew's admission installed in the control plane, and beside it the webhooks that it is
// compared with.
type site struct {
	env    *environment
	client kubernetes.Interface
	// authority signs for the webhooks that are no part of Curfew; cert and key are files.
	authority []byte
	cert, key string
	// rendered is what was installed, and is taken away again.
	rendered string
	// Those who answer.
	curfew, noop, typed *server
}

// server is a process that answers reviews.
type server struct {
	*process
	name    string
	address string
	client  *http.Client
	// mallocs is where it says how many objects it has allocated so far.
	mallocs func(ctx context.Context) (float64, error)
}

// openSite installs Curfew's admission and starts all contestants. What it returned is to be closed
// whatever the error says.
func openSite(ctx context.Context, e *environment) (*site, error) {
	s := &site{env: e}
	var err error
	if s.client, err = kubernetes.NewForConfig(connect(e.config)); err != nil {
		return s, fmt.Errorf("make a client: %w", err)
	}
	if err := s.certificate(); err != nil {
		return s, err
	}
	for _, other := range []struct {
		to   **server
		kind string
	}{{&s.noop, answerNoop}, {&s.typed, answerTyped}} {
		if *other.to, err = s.startAnswer(ctx, other.kind); err != nil {
			return s, err
		}
	}
	s.curfew, err = s.startCurfew(ctx)
	return s, err
}

// close ends all processes and removes the webhook configurations: the next bench is not to notice.
func (s *site) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	if s.rendered != "" {
		// Before the webhooks end, so that no request waits for one that is gone.
		errs = append(errs, s.kubectl(ctx, "", "delete", "--ignore-not-found", "-k", filepath.Join(s.env.root, "manifests", "webhook")))
	}
	for _, server := range []*server{s.curfew, s.noop, s.typed} {
		if server != nil && server.process != nil {
			server.stop()
		}
	}
	return errors.Join(errs...)
}

func (s *site) kubectl(ctx context.Context, input string, args ...string) error {
	cmd := exec.CommandContext(ctx, s.env.state.Kubectl, append([]string{"--kubeconfig", s.env.state.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// startCurfew installs the manifests for a free port and starts the webhook as an installation
// would, with a token of its ServiceAccount. It returns when the webhook configurations have its
// authority.
func (s *site) startCurfew(ctx context.Context) (*server, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	serving, health, metrics := addresses[0], addresses[1], addresses[2]
	rendered, err := exec.CommandContext(ctx, s.env.state.Kubectl, "kustomize", filepath.Join(s.env.root, "manifests", "overlays", "local")).Output()
	if err != nil {
		return nil, fmt.Errorf("render manifests/overlays/local: %w", err)
	}
	s.rendered = strings.ReplaceAll(string(rendered), overlayAddress, "https://"+serving)
	if s.rendered == string(rendered) {
		return nil, fmt.Errorf("manifests/overlays/local: found no %s to replace", overlayAddress)
	}
	if err := s.kubectl(ctx, s.rendered, "apply", "-f", "-"); err != nil {
		return nil, err
	}
	config, err := s.env.serviceAccountConfig(ctx, "curfew-system", "curfew-webhook")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(serving)
	log := s.env.logPath("curfew-webhook")
	out := &server{name: theCurfew, address: serving}
	out.mallocs = func(ctx context.Context) (float64, error) { return scrapeMallocs(ctx, "http://"+metrics+"/metrics") }
	// Not as in the manifests: it runs beside the control plane, and no Service has to notice its end.
	args, err := harness.ShippedArgs(s.env.root, "webhook", "--kubeconfig", config, "--host", host, "--port", port,
		"--health-addr", health, "--metrics-addr", metrics, "--drain-delay=0s")
	if err != nil {
		return nil, err
	}
	out.process, err = launch(ctx, log, nil, s.env.curfew, args...)
	if err != nil {
		return nil, err
	}
	if err := out.awaitHealthy(ctx, http.DefaultClient, "http://"+health+"/readyz"); err != nil {
		return out, fmt.Errorf("start Curfew: %w; its log is %s", err, log)
	}
	authority, err := s.curfewAuthority(ctx)
	if err != nil {
		return out, err
	}
	out.client, err = likeAPIServer(authority)
	return out, err
}

// curfewAuthority is what Curfew tells the API server to trust.
func (s *site) curfewAuthority(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		configuration, err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "curfew", metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read Curfew's webhook configuration: %w", err)
		}
		if authority := configuration.Webhooks[0].ClientConfig.CABundle; len(authority) > 0 {
			return authority, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("no authority in Curfew's webhook configuration: %w", err)
		}
	}
}

// startAnswer starts this program as a webhook.
func (s *site) startAnswer(ctx context.Context, kind string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	address := addresses[0]
	out := &server{name: kind, address: address}
	if out.client, err = likeAPIServer(s.authority); err != nil {
		return nil, err
	}
	log := s.env.logPath("answer-" + kind)
	out.process, err = launch(ctx, log, nil, self, answerCommand, "--kind", kind, "--addr", address, "--cert", s.cert, "--key", s.key)
	if err != nil {
		return nil, err
	}
	url := "https://" + address + mallocsPath
	out.mallocs = func(ctx context.Context) (float64, error) {
		text, err := fetch(ctx, out.client, url)
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(text, 64)
	}
	if err := out.awaitHealthy(ctx, out.client, url); err != nil {
		return out, fmt.Errorf("start the webhook %s: %w; its log is %s", kind, err, log)
	}
	return out, nil
}

// likeAPIServer is an HTTP client as an API server makes it for a webhook behind a Service:
// client-go's transport, HTTP/1.1 whatever the webhook offers (apiserver,
// pkg/util/webhook/client.go).
func likeAPIServer(authority []byte) (*http.Client, error) {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: authority, NextProtos: []string{"http/1.1"}}}
	// A dialer of its own keeps client-go from sharing the transport.
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make an HTTP client: %w", err)
	}
	return client, nil
}

// scrapeMallocs reads how many objects a process has allocated off its metrics.
func scrapeMallocs(ctx context.Context, url string) (float64, error) {
	text, err := fetch(ctx, http.DefaultClient, url)
	if err != nil {
		return 0, err
	}
	const name = "\ngo_memstats_mallocs_total "
	_, rest, ok := strings.Cut(text, name)
	if !ok {
		return 0, fmt.Errorf("%s has no %s", url, strings.TrimSpace(name))
	}
	value, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(strings.TrimSpace(value), 64)
}

func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask %s: it answers %s, %w", url, resp.Status, err)
	}
	return string(body), nil
}

// certificate makes an authority and a serving certificate for loopback, with keys of the kind that
// Curfew makes.
func (s *site) certificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	s.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.cert, s.key = filepath.Join(s.env.clusterDir(), "bench.crt"), filepath.Join(s.env.clusterDir(), "bench.key")
	for path, data := range map[string][]byte{s.cert: s.authority, s.key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("write a certificate: %w", err)
		}
	}
	return nil
}
