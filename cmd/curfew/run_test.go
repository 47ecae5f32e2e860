package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/controller/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

// kubeconfigOf names a server.
func kubeconfigOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "clusters: [{name: one, cluster: {insecure-skip-tls-verify: true, server: '" + server.URL + "'}}]\ncontexts: [{name: one, context: {cluster: one}}]\ncurrent-context: one\n"
	must(t, os.WriteFile(kubeconfig, []byte(content), 0o600))
	return kubeconfig
}

// Neither a single request nor a watch asks for a compressed answer.
func TestAnswersAreNotPacked(t *testing.T) {
	asked := map[string][]string{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.RawQuery] = r.Header.Values("Accept-Encoding")
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer server.Close()
	config, err := restConfig(kubeconfigOf(t, server))
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, _ = client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	_, _ = client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	for _, query := range []string{"", "watch=true"} {
		got, found := asked[query]
		if !found || len(got) > 0 {
			t.Errorf("request %q asked: %v, Accept-Encoding %v, want none", query, found, got)
		}
	}
}

// discoveryOfNamespaces is what a server answers that knows Namespaces alone.
var discoveryOfNamespaces = map[string]string{
	"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","namespaced":false,"kind":"Namespace","verbs":["list"]}]}`,
}

// A process that is stopped while the API server does not answer ends at once. The kubelet would
// otherwise wait for its whole grace period.
func TestStopBeforeNamespacesAreKnown(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, ok := discoveryOfNamespaces[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
			return
		}
		if r.URL.Path == "/api/v1/namespaces" {
			stop()
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	o := defaultOptions()
	o.kubeconfig, o.metricsAddr, o.gracePeriod = kubeconfigOf(t, server), "0", 0
	p, err := newProcess(ctx, o, parts{})
	must(t, err)
	must(t, p.addPlatform(ctx))
	must(t, p.mgr.Start(ctx))
}

// A tenant may fill each PodTally with more than a megabyte: they are read a few at a time, and what
// does not concern the counts is not kept.
func TestLargeTalliesAreListed(t *testing.T) {
	const total = 30
	var limits []int
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if body, ok := discoveryOfNamespaces[r.URL.Path]; ok {
			_, _ = io.WriteString(w, body)
			return
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		limits = append(limits, limit)
		page := &v1alpha1.PodTallyList{}
		page.APIVersion, page.Kind, page.ResourceVersion = v1alpha1.GroupVersion.String(), "PodTallyList", "7"
		for i := from; i < min(total, from+limit); i++ {
			page.Items = append(page.Items, v1alpha1.PodTally{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: fmt.Sprint("t", i), Annotations: map[string]string{"large": strings.Repeat("x", 1_400_000)}}})
		}
		if from+limit < total {
			page.Continue = strconv.Itoa(from + limit)
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	p, err := newProcess(t.Context(), &options{kubeconfig: kubeconfigOf(t, server), metricsAddr: "0"}, parts{})
	must(t, err)
	all, err := (&tally.Client{Objects: p.dynamic}).Tallies(t.Context(), "ci")
	if err != nil || len(all) != total {
		t.Fatalf("%d PodTallies, %v", len(all), err)
	}
	for _, storedTally := range all {
		if len(storedTally.Annotations) > 0 {
			t.Fatalf("the annotations of PodTally %s are kept", storedTally.Name)
		}
	}
	if last := limits[len(limits)-1]; last > 3 {
		t.Errorf("pages of %d: want few PodTallies in each", limits)
	}
}
