package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/session"
)

// TestAuthProviders: a kubeconfig file may have an auth-provider, which client-go knows only once
// its package is linked.
func TestAuthProviders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: a, user: a}}],
  users: [{name: a, user: {auth-provider: {name: oidc, config: {client-id: a, idp-issuer-url: "https://127.0.0.1:2", id-token: a}}}}]}`
	must(t, os.WriteFile(file, []byte(text), 0o600))
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, &clientcmd.ConfigOverrides{})
	if _, err := session.Connect(config, io.Discard); err != nil {
		t.Error(err)
	}
}
