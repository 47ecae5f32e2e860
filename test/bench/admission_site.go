package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
	"curfew.dev/curfew/test/harness"
)

// overlayAddress is what manifests/overlays/local writes for the webhook.
const overlayAddress = "https://127.0.0.1:9443"

// site is Curfew's admission installed in the control plane, and beside it the webhooks that it is
// compared with.
type site struct {
	env    *environment
	client kubernetes.Interface
	// rendered is what was installed, and is taken away again.
	rendered string
	// Those who answer; nil where one takes no part.
	curfew, noop, typed *server
}

// server is a process that answers reviews.
type server struct {
	*process
	name, address string
	client        *http.Client
	metrics       string // the URL
}

// sitePolicies is how many LifecyclePolicies there are.
const sitePolicies = 10

// open installs Curfew's admission, with policies, and makes the namespaces of the benches. The site
// is to be closed whatever the error says.
func (s *site) open(ctx context.Context) (err error) {
	ctrllog.SetLogger(logr.Discard())
	// As kubectl and most build systems write.
	config := connect(s.env.config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.WarningHandler = rest.NoWarnings{}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, name := range append([]string{"probe"}, createField...) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: createNamespace(name), Labels: map[string]string{"example.org/tier": "ci"}}}
		if name == theCurfew {
			// A default TTL of its own, as the other contestants fill in a constant.
			namespace.Labels[builders.LabelTeam], namespace.Labels["curfew.dev/in-use"] = builders.TeamPayments, "true"
			namespace.Annotations = map[string]string{"curfew.dev/default-ttl": strconv.Itoa(defaultedTTL)}
		}
		_, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
	}
	if s.curfew, err = s.startCurfew(ctx); err != nil {
		return err
	}
	return s.createPolicies(ctx)
}

// createPolicies returns when Curfew judges by the last of them, which selects a Job with its label.
func (s *site) createPolicies(ctx context.Context) error {
	policies, err := s.policies()
	if err != nil {
		return err
	}
	for _, policy := range builders.LifecyclePolicies(sitePolicies) {
		if err := policies.Create(ctx, policy); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("create policy %s: %w", policy.Name, err)
		}
	}
	job := buildJob(createNamespace("probe"), "probe")
	job.Labels = map[string]string{builders.LabelProbe: strconv.Itoa(sitePolicies)}
	body, err := reviewOf(job)
	if err != nil {
		return err
	}
	return s.curfew.poll(ctx, 30*time.Second, 20*time.Millisecond, func(ctx context.Context) error {
		response, _, err := s.curfew.review(ctx, body)
		if err == nil && !bytes.Contains(response.Patch, []byte("ttlSecondsAfterFinished")) {
			err = errors.New("Curfew does not judge by the policies")
		}
		return err
	})
}

func (s *site) policies() (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("know Curfew's kinds: %w", err)
	}
	return client.New(s.env.config, client.Options{Scheme: scheme})
}

// close ends all processes and removes policies and webhook configurations: the next bench is not to
// notice.
func (s *site) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	policies, err := s.policies()
	if err == nil {
		err = policies.DeleteAllOf(ctx, &v1alpha1.LifecyclePolicy{})
	}
	if s.rendered != "" {
		// Before the webhooks end, so that no request waits for one that is gone.
		err = errors.Join(err, s.kubectl(ctx, "", "delete", "--ignore-not-found", "-k", filepath.Join(s.env.root, "manifests", "webhook")))
	}
	for _, server := range []*server{s.curfew, s.noop, s.typed} {
		if server != nil && server.process != nil {
			server.stop()
		}
	}
	return err
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
	out := &server{name: theCurfew, address: serving, metrics: "http://" + metrics + "/metrics"}
	// Not as in the manifests: it runs beside the control plane, and no Service has to notice its end.
	args, err := harness.ShippedArgs(s.env.root, "webhook", "--kubeconfig", config, "--host", host, "--port", port,
		"--health-addr", health, "--metrics-addr", metrics, "--drain-delay=0s")
	if err != nil {
		return nil, err
	}
	out.process, err = launch(log, s.env.curfew, args...)
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
	var authority []byte
	err := (*process)(nil).poll(ctx, 30*time.Second, 50*time.Millisecond, func(ctx context.Context) error {
		configuration, err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "curfew", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if authority = configuration.Webhooks[0].ClientConfig.CABundle; len(authority) == 0 {
			return errors.New("it has no authority")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read Curfew's webhook configuration: %w", err)
	}
	return authority, nil
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
	out := &server{name: kind, address: addresses[0], metrics: "https://" + addresses[0] + metricsPath}
	if out.client, err = likeAPIServer(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: answerCertificate().Certificate[0]})); err != nil {
		return nil, err
	}
	log := s.env.logPath("answer-" + kind)
	out.process, err = launch(log, self, answerCommand, "--kind", kind, "--addr", out.address)
	if err != nil {
		return nil, err
	}
	if err := out.awaitHealthy(ctx, out.client, out.metrics); err != nil {
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
