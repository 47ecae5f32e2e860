package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Neither what is asked once nor a watch asks for an answer that is packed.
func TestAnswersAreNotPacked(t *testing.T) {
	asked := map[string][]string{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.RawQuery] = r.Header.Values("Accept-Encoding")
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "clusters: [{name: one, cluster: {insecure-skip-tls-verify: true, server: '" + server.URL + "'}}]\ncontexts: [{name: one, context: {cluster: one}}]\ncurrent-context: one\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := restConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	_, _ = client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	for _, query := range []string{"", "watch=true"} {
		got, found := asked[query]
		if !found || len(got) > 0 {
			t.Errorf("request %q asked: %v, Accept-Encoding %v, want none", query, found, got)
		}
	}
}
