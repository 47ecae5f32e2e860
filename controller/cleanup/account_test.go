package cleanup

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/permission"
)

// Every request of an account names its own service account, and no other (S10).
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
	accounts := NewAccounts(config, types.NamespacedName{Namespace: "curfew-system", Name: "curfew-cleanup"}, func(own deletion.Action) deletion.Action { return own }, clock.RealClock{})
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for range 2 { // The second time its clients are known.
		account, err := accounts.Of(types.NamespacedName{Namespace: "ci", Name: "janitor"})
		must(t, err)
		_, _ = account.Objects.Resource(resource).Namespace("ci").List(t.Context(), metav1.ListOptions{})
		_, _ = account.Metadata.Resource(resource).Namespace("ci").Get(t.Context(), "a", metav1.GetOptions{})
		_, _ = account.Lacks(t.Context(), "ci", []permission.Need{{Verb: "list", Resource: resource}})
		account.Delete.Do(t.Context(), deletion.Due{Type: deletion.Type{Resource: resource, Kind: "ConfigMap", Namespaced: true}, Namespace: "ci", Name: "a", UID: "u"})
	}
	const janitor = "system:serviceaccount:ci:janitor"
	want := []string{"GET " + janitor, "GET " + janitor, "POST " + janitor, "DELETE " + janitor}
	if want = append(want, want...); !slices.Equal(users, want) {
		t.Errorf("requests %q, want %q", users, want)
	}
	users = nil
	own, err := accounts.Of(types.NamespacedName{})
	must(t, err)
	_, _ = own.Objects.Resource(resource).List(t.Context(), metav1.ListOptions{})
	if !slices.Equal(users, []string{"GET system:serviceaccount:curfew-system:curfew-cleanup"}) || config.Impersonate.UserName != "" {
		t.Errorf("Curfew's own: %q, and its configuration impersonates %q", users, config.Impersonate.UserName)
	}
}

// A tenant pads a Role and binds it to the account of its policy many times. Curfew never asks for
// all that the account may do, and reads no answer that is much too long.
func TestPaddedRoles(t *testing.T) {
	const answer = 64 << 20
	read := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			t.Errorf("got %s %s, want only selfsubjectaccessreviews", r.Method, r.URL.Path)
		}
		_, err := fmt.Fprint(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"evaluationError":"`)
		for chunk := strings.Repeat("x", 1<<20); err == nil && read < answer; read += len(chunk) {
			_, err = fmt.Fprint(w, chunk)
		}
		_, _ = fmt.Fprint(w, `"}}`)
	}))
	accounts := NewAccounts(&rest.Config{Host: server.URL, QPS: -1}, types.NamespacedName{}, func(own deletion.Action) deletion.Action { return own }, clock.RealClock{})
	account, err := accounts.Of(types.NamespacedName{Namespace: "tenant", Name: "janitor"})
	must(t, err)
	need := permission.Need{Verb: "list", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	lacks, err := account.Lacks(t.Context(), "tenant", []permission.Need{need})
	server.Close() // Waits for the handler.
	if !apierrors.IsRequestEntityTooLargeError(err) || read >= answer {
		t.Errorf("lacks %v, %v, after %d bytes", lacks, err, read)
	}
}

// An account that was deleted has no rights, whatever binding names it. Curfew reads it with its
// own rights.
func TestAccountExists(t *testing.T) {
	deleting := metav1.Now()
	for name, c := range map[string]struct {
		account *metav1.ObjectMeta
		code    int
		want    string
	}{
		"it exists":         {account: &metav1.ObjectMeta{UID: "u"}},
		"it was deleted":    {code: http.StatusNotFound, want: "service account ci/janitor does not exist: the service account lacks a permission"},
		"it is terminating": {account: &metav1.ObjectMeta{UID: "u", DeletionTimestamp: &deleting}, want: "service account ci/janitor does not exist: the service account lacks a permission"},
		"no answer":         {code: http.StatusInternalServerError, want: "reading service account ci/janitor: Internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/namespaces/ci/serviceaccounts/janitor" || r.Header.Get("Impersonate-User") != "" {
					t.Errorf("%s as %q", r.URL.Path, r.Header.Get("Impersonate-User"))
				}
				w.Header().Set("Content-Type", "application/json")
				if c.account == nil {
					w.WriteHeader(c.code)
					reason := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusInternalServerError: metav1.StatusReasonInternalError}[c.code]
					_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(c.code), Message: "Internal error"})
					return
				}
				_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: *c.account})
			}))
			defer server.Close()
			accounts := NewAccounts(&rest.Config{Host: server.URL}, types.NamespacedName{}, func(own deletion.Action) deletion.Action { return own }, clock.RealClock{})
			account, err := accounts.Of(types.NamespacedName{Namespace: "ci", Name: "janitor"})
			must(t, err)
			uid, err := account.Exists(t.Context())
			if c.want == "" && (err != nil || uid != "u") || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("%q, %v; want %q", uid, err, c.want)
			}
		})
	}
}
