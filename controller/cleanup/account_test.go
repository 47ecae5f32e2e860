package cleanup

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/permission"
)

// Every request of an account names the service account, and those of another one do not (S10).
func TestAccountsImpersonate(t *testing.T) {
	var mu sync.Mutex
	var users []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		users = append(users, r.Method+" "+r.Header.Get("Impersonate-User"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}})
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	accounts := NewAccounts(config, types.NamespacedName{Namespace: "curfew-system", Name: "curfew-cleanup"}, func(own action.Action) action.Action { return own }, clock.RealClock{})
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for range 2 { // The second time its clients are known, and what it may do.
		account, err := accounts.Of(types.NamespacedName{Namespace: "ci", Name: "janitor"})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = account.Objects.Resource(resource).Namespace("ci").List(t.Context(), metav1.ListOptions{})
		_, _ = account.Metadata.Resource(resource).Namespace("ci").Get(t.Context(), "a", metav1.GetOptions{})
		_, _ = account.Lacks(t.Context(), "ci", []permission.Need{{Verb: "list", Resource: resource}})
		account.Delete.Do(t.Context(), action.Due{Type: action.Type{Resource: resource, Kind: "ConfigMap", Namespaced: true}, Namespace: "ci", Name: "a", UID: "u"})
	}
	const janitor = "system:serviceaccount:ci:janitor"
	want := []string{"GET " + janitor, "GET " + janitor, "POST " + janitor, "DELETE " + janitor}
	if want = append(slices.Insert(slices.Clone(want), 2, want[2]), want...); !slices.Equal(users, want) {
		t.Errorf("requests %q, want %q", users, want)
	}
	users = nil
	own, err := accounts.Of(types.NamespacedName{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = own.Objects.Resource(resource).List(t.Context(), metav1.ListOptions{})
	if !slices.Equal(users, []string{"GET system:serviceaccount:curfew-system:curfew-cleanup"}) || config.Impersonate.UserName != "" {
		t.Errorf("Curfew's own: %q, and its configuration impersonates %q", users, config.Impersonate.UserName)
	}
}
