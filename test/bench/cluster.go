package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"curfew.dev/curfew/test/harness"
)

// controllers of the control plane's own controller manager: what a namespace and Curfew's roles
// need, and the garbage collector, which everybody's deletions pay for
// alike. The Job controller would only look at Jobs that name another controller, and the TTL
// controller is a contestant with a process of its own.
const controllers = "clusterrole-aggregation-controller,garbage-collector-controller,namespace-controller,node-lifecycle-controller,root-ca-certificate-publisher-controller,serviceaccount-controller"

// environment is what benches work with.
type environment struct {
	options
	root  string
	out   io.Writer
	state clusterState
	// config is the administrator's.
	config *rest.Config
	// curfewConfig is the path of a kubeconfig with a token of Curfew's own ServiceAccount.
	curfewConfig string
	// held is how many Jobs of the backlog are there.
	held int
}

// clusterState is the part of cluster.json that is used here; State in test/cluster/local documents
// it.
type clusterState struct {
	Server     string            `json:"server"`
	Kubeconfig string            `json:"kubeconfig"`
	CAFile     string            `json:"caFile"`
	Kubectl    string            `json:"kubectl"`
	Versions   map[string]string `json:"versions"`
	Components map[string]struct {
		Command []string `json:"command"`
		PID     int      `json:"pid"`
	} `json:"components"`
}

func (e *environment) clusterDir() string { return filepath.Join(e.dir, "cluster") }

// start builds the contestants and brings the control plane up. The returned function takes it
// down.
func (e *environment) start(ctx context.Context) (stop func() error, err error) {
	if err := os.MkdirAll(filepath.Join(e.dir, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory for results: %w", err)
	}
	if e.curfew == "" {
		e.curfew = filepath.Join(e.root, "bin", "curfew")
		if err := e.command(ctx, "go", "build", "-o", e.curfew, "./cmd/curfew"); err != nil {
			return nil, err
		}
	}
	// A cluster of an earlier run that was cut short still has its Jobs.
	if err := e.cluster(ctx, "stop"); err != nil {
		return nil, err
	}
	stop = func() error {
		if e.keep {
			fmt.Fprintf(e.out, "the control plane keeps running: %s\n", e.state.Kubeconfig)
			return nil
		}
		// Not the caller's context: it may be what ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return e.cluster(ctx, "stop")
	}
	if err := e.prepare(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func (e *environment) prepare(ctx context.Context) error {
	if err := e.cluster(ctx, "start", "--controllers", controllers); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(e.clusterDir(), "cluster.json"))
	if err != nil {
		return fmt.Errorf("read the cluster's state: %w", err)
	}
	if err := json.Unmarshal(data, &e.state); err != nil {
		return fmt.Errorf("parse the cluster's state: %w", err)
	}
	if e.config, err = clientcmd.BuildConfigFromFlags("", e.state.Kubeconfig); err != nil {
		return fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	// All that manifests/base installs but the webhooks, which would only make the preparation slower,
	// and the Deployments, whose arguments are read from there.
	for _, part := range []string{"crd", "namespace", "rbac", "flowcontrol"} {
		if err := e.command(ctx, e.state.Kubectl, "--kubeconfig", e.state.Kubeconfig, "apply", "--server-side", "-k", filepath.Join(e.root, "manifests", part)); err != nil {
			return err
		}
	}
	if err := e.command(ctx, e.state.Kubectl, "--kubeconfig", e.state.Kubeconfig, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(e.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := harness.WaitForRoles(ctx, client); err != nil {
		return fmt.Errorf("wait for the aggregated roles: %w", err)
	}
	e.curfewConfig, err = e.serviceAccountConfig(ctx, "curfew-system", "curfew-controller")
	return err
}

// renew starts the control plane again, without a single object of a bench.
func (e *environment) renew(ctx context.Context) error {
	if err := e.cluster(ctx, "stop"); err != nil {
		return err
	}
	e.held = 0
	return e.prepare(ctx)
}

func (e *environment) cluster(ctx context.Context, command string, args ...string) error {
	all := append([]string{"-C", filepath.Join("test", "cluster"), "run", "./cmd/cluster", command, "--dir", e.clusterDir()}, args...)
	return e.command(ctx, "go", all...)
}

// command runs something in the repository's folder and shows what it says.
func (e *environment) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = e.root, e.out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// serviceAccountConfig writes a kubeconfig that holds a token of the ServiceAccount, so that its
// rights are tested too.
func (e *environment) serviceAccountConfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(e.config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	seconds := int64((24 * time.Hour).Seconds())
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["local"] = &clientcmdapi.Cluster{Server: e.state.Server, CertificateAuthority: e.state.CAFile}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	c.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: name, Namespace: namespace}
	c.CurrentContext = "local"
	path := filepath.Join(e.clusterDir(), "config", name+"-bench.kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// connect makes a client of the config with a connection of its own: client-go otherwise lets all
// clients of a process with the same TLS settings share one, and one would wait for the other's
// frames. No client-side limit, and protobuf.
func connect(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// pause waits, or returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// trusting is an HTTP client that trusts the cluster's authority.
func (e *environment) trusting() (*http.Client, error) {
	client, err := rest.HTTPClientFor(e.config)
	if err != nil {
		return nil, fmt.Errorf("make an HTTP client: %w", err)
	}
	return client, nil
}
