package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/cleanup"
)

// TestServedIsNotAll: what discovery does not show is named, beside the resources that it shows.
func TestServedIsNotAll(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		items := `{"metadata":{"name":""},"versions":[{"version":"v1","resources":[
			{"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced","singularResource":"pod","verbs":["delete","get","list"]}]}]}`
		if r.URL.Path == "/apis" {
			items = `{"metadata":{"name":"apps.openshift.io"},"versions":[{"version":"v1","freshness":"Stale","resources":[]}]}`
		}
		fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[%s]}`, items)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must(t, err)
	found, err := (&controller{process: &process{typed: client}}).served(t.Context())
	silent := cleanup.SilentGroups(nil)
	if !errors.As(err, &silent) || !slices.Equal(silent, []string{"apps.openshift.io"}) {
		t.Errorf("error %v, want that apps.openshift.io does not answer", err)
	}
	if len(found) != 1 || found[0].Resource != "pods" {
		t.Errorf("served are %v, want pods", found)
	}
}
