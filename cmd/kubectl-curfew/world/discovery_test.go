package world

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/cleanup"
)

// answering is an API server that answers each path with a text, else with a status.
func answering(t *testing.T, answers map[string]string) Discovery {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !ok:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
		case strings.HasPrefix(r.URL.Path, "/api") && r.Header.Get("Accept") != aggregated:
			t.Errorf("%s is asked for as %s", r.URL.Path, r.Header.Get("Accept"))
		default:
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(server.Close)
	clients, err := NewClients(&rest.Config{Host: server.URL})
	must(t, err)
	return clients.Discovery
}

const coreGroup = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[
	{"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced","singularResource":"pod","verbs":["delete","list","watch"],"shortNames":["po"],
		"subresources":[{"subresource":"log","responseKind":{"group":"","version":"v1","kind":"Pod"},"verbs":["get"]}]},
	{"resource":"odd","scope":"Namespaced","singularResource":"","verbs":["get"]}]}]}]}`

const otherGroups = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
	{"metadata":{"name":"batch"},"versions":[
		{"version":"v1","resources":[{"resource":"jobs","responseKind":{"group":"batch","version":"v1","kind":"Job"},"scope":"Namespaced","singularResource":"job","verbs":["delete","list","watch"]}]},
		{"version":"v1beta1","resources":[{"resource":"jobs","responseKind":{"group":"batch","version":"v1beta1","kind":"Job"},"scope":"Namespaced","singularResource":"job","verbs":["delete","list","watch"]}]}]},
	{"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","freshness":"Stale","resources":[]}]},
	{"metadata":{"name":"storage.k8s.io"},"versions":[
		{"version":"v1","resources":[{"resource":"volumes","responseKind":{"group":"storage.k8s.io","version":"v1","kind":"Volume"},"scope":"Cluster","singularResource":"volume","verbs":["delete","list","watch"]}]}]}]}`

// TestDiscovery: a group that does not answer is named and hides no other, and the first version is
// preferred.
func TestDiscovery(t *testing.T) {
	discovery := answering(t, map[string]string{"/api": coreGroup, "/apis": otherGroups, "/version": `{"gitVersion":"v1.37.1"}`})
	found, lists, err := discovery.ServerGroupsAndResources()
	if want := "no answer from metrics.k8s.io/v1beta1"; err == nil || err.Error() != want {
		t.Errorf("error of a group without an answer is %v, want %s", err, want)
	}
	var preferred, served []string
	for _, group := range found {
		preferred = append(preferred, group.Name+"="+group.PreferredVersion.GroupVersion)
	}
	for _, list := range lists {
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			served = append(served, fmt.Sprint(list.GroupVersion, " ", resource.Name, " ", resource.Kind, " ", resource.Namespaced, " ", resource.ShortNames, " ", len(resource.Verbs)))
		}
	}
	if have := strings.Join(preferred, " "); have != "=v1 batch=batch/v1 metrics.k8s.io= storage.k8s.io=storage.k8s.io/v1" {
		t.Errorf("groups and preferred versions are %s, want core, batch, metrics.k8s.io without one, and storage.k8s.io", have)
	}
	want := "v1 pods Pod true [po] 3\nbatch/v1 jobs Job true [] 3\nbatch/v1beta1 jobs Job true [] 3\nstorage.k8s.io/v1 volumes Volume false [] 3"
	if have := strings.Join(served, "\n"); have != want {
		t.Errorf("served resources are\n%s\nwant\n%s", have, want)
	}
	if version, err := discovery.ServerVersion(); err != nil || version.GitVersion != "v1.37.1" {
		t.Errorf("version of the server is %v, error %v; want v1.37.1", version, err)
	}
	if _, _, err := answering(t, nil).ServerGroupsAndResources(); !apierrors.IsUnauthorized(err) {
		t.Errorf("error %v, want the API server's own", err)
	}
	if _, _, err := answering(t, map[string]string{"/api": "<html>"}).ServerGroupsAndResources(); err == nil || !strings.HasPrefix(err.Error(), "/api: ") {
		t.Errorf("error %v", err)
	}
}

func TestRank(t *testing.T) {
	jobs := &metav1.APIResource{Name: "jobs", SingularName: "job", Kind: "Job", ShortNames: []string{"j"}}
	for text, want := range map[string]int{
		"jobs": byPlural, "jobs.batch": byPlural, "jobs.v1.batch": byPlural, "JOBS.bat": byPlural, "job": bySingular, "Job.batch": bySingular, "Job.v1.batch": bySingular,
		"j": byShortName, "j.batch": byShortName,
		"jobs.": 0, "jobs.v2.batch": 0, "jobs.other": 0, "jobsets": 0, "": 0, ".batch": 0,
	} {
		if have := rank(text, schema.GroupVersion{Group: "batch", Version: "v1"}, jobs); have != want {
			t.Errorf("%q: %d, want %d", text, have, want)
		}
	}
}

// TestResourcesAreNotAll: a preview learns which groups discovery did not show, as a run does.
func TestResourcesAreNotAll(t *testing.T) {
	w := &cluster{clients: Clients{Discovery: answering(t, map[string]string{"/api": coreGroup, "/apis": otherGroups})}}
	w.discover = w.askDiscovery
	_, err := w.Resources(t.Context())
	silent := cleanup.SilentGroups(nil)
	if !errors.As(err, &silent) || !slices.Equal(silent, []string{"metrics.k8s.io"}) {
		t.Errorf("error is %v, want that metrics.k8s.io does not answer", err)
	}
}
