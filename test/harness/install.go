package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	corev1 "k8s.io/api/core/v1"
)

// Namespace is Curfew's own.
const Namespace = "curfew-system"

// overlayAddress is what manifests/overlays/local writes for the webhook.
const overlayAddress = "https://127.0.0.1:9443"

// Install applies manifests/overlays/local for a webhook on a port of loopback, with the
// permissions of the HTTP API. Applying it again, for another port too, is harmless.
func (c *Cluster) Install(ctx context.Context, webhookPort int) error {
	if c.install != "" {
		if _, err := c.mustKubectl(ctx, "", "apply", "-f", c.install); err != nil {
			return err
		}
		return c.permitHTTPAPI(ctx)
	}
	rendered, err := c.mustKubectl(ctx, "", "kustomize", filepath.Join(c.root, "manifests", "overlays", "local"))
	if err != nil {
		return err
	}
	if !strings.Contains(rendered, overlayAddress) {
		return fmt.Errorf("manifests/overlays/local: found no %s to replace", overlayAddress)
	}
	rendered = strings.ReplaceAll(rendered, overlayAddress, fmt.Sprintf("https://127.0.0.1:%d", webhookPort))
	if c.Patient {
		rendered = strings.ReplaceAll(rendered, "timeoutSeconds: 5\n", "timeoutSeconds: 30\n")
	}
	if c.FailClosed {
		rendered = strings.ReplaceAll(rendered, "failurePolicy: Ignore\n", "failurePolicy: Fail\n")
	}
	if _, err = c.mustKubectl(ctx, rendered, "apply", "-f", "-"); err != nil {
		return err
	}
	if c.older {
		return nil
	}
	return c.permitHTTPAPI(ctx)
}

// permitHTTPAPI adds the permissions of the component http-api, which is off by default, and waits
// until all permissions are in effect.
func (c *Cluster) permitHTTPAPI(ctx context.Context) error {
	if _, err := c.mustKubectl(ctx, "", "apply", "-f", filepath.Join(c.root, "manifests", "components", "http-api", "rbac.yaml")); err != nil {
		return err
	}
	return WaitForRoles(ctx, c.Client)
}

// Older is the same control plane for another version of Curfew: its manifests, and the program in
// bin, are in another folder.
func (c *Cluster) Older(root string) *Cluster {
	out := *c
	out.root, out.older = root, true
	return &out
}

// accountKubeconfig writes a kubeconfig with a token of a ServiceAccount, for the API server at an
// address (the control plane's own where that is empty) and with an authority (likewise).
func (c *Cluster) accountKubeconfig(ctx context.Context, file, namespace, account, server string, authority []byte) (string, error) {
	token, err := c.mustKubectl(ctx, "", "create", "token", account, "--namespace", namespace, "--duration", "24h")
	if err != nil {
		return "", err
	}
	if server == "" {
		server, authority = c.Config.Host, c.Config.CAData
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(token)}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: account}
	config.CurrentContext = "local"
	path := filepath.Join(c.Dir, file+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return path, nil
}

// NewNamespace makes a namespace with annotations, and waits until Pods can be created in it.
func (c *Cluster) NewNamespace(ctx context.Context, name string, annotations map[string]string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return c.WaitForServiceAccount(ctx, name)
}

// WaitForServiceAccount returns when a namespace has its default ServiceAccount, without which it
// admits no Pod.
func (c *Cluster) WaitForServiceAccount(ctx context.Context, namespace string) error {
	ctx, end := Waiting(ctx, "the default ServiceAccount of namespace "+namespace)
	defer end()
	watcher, err := c.Client.CoreV1().ServiceAccounts(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		return fmt.Errorf("watch the ServiceAccounts of %s: %w", namespace, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Added {
			return nil
		}
	}
	return fmt.Errorf("namespace %s got no default ServiceAccount: %w", namespace, context.Cause(ctx))
}
