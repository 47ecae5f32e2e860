package deletion

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/test/builders"
)

var (
	jobs  = &Type{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true, Protobuf: true}
	pods  = &Type{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}
	nodes = &Type{Resource: schema.GroupVersionResource{Group: "x.dev", Version: "v1", Resource: "things"}, Kind: "Thing"}
)

func protobufOf(t *testing.T, kind string, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := m.Marshal()
	must(t, err)
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}).Marshal()
	must(t, err)
	return append([]byte("k8s\x00"), data...)
}

// serving is a client of an API server that answers so.
func serving(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	client, err := NewClient(&rest.Config{Host: srv.URL})
	must(t, err)
	return client
}

// What goes over the wire, read back with the API machinery's own types.
func TestClientSends(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		path    string
		want    metav1.DeleteOptions
	}{
		"protobuf, both preconditions": {
			Request{Type: *jobs, Namespace: "ci", Name: "build-1", UID: "u-1", ResourceVersion: "42", Propagation: metav1.DeletePropagationBackground},
			"/prefix/apis/batch/v1/namespaces/ci/jobs/build-1",
			options("u-1", "42", "Background", false),
		},
		"JSON, core group, dry run": {
			Request{Type: *pods, Namespace: "ci", Name: "p", UID: "u-2", ResourceVersion: "7", Propagation: metav1.DeletePropagationForeground, DryRun: true},
			"/prefix/api/v1/namespaces/ci/pods/p",
			options("u-2", "7", "Foreground", true),
		},
		"cluster-scoped, UID only, name to be escaped": {
			Request{Type: *nodes, Name: "system:a/b", UID: "u-3", Propagation: metav1.DeletePropagationOrphan},
			"/prefix/apis/x.dev/v1/things/system:a%2Fb",
			options("u-3", "", "Orphan", false),
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				var got metav1.DeleteOptions
				if s, ok := strings.CutPrefix(string(body), "k8s\x00"); ok {
					var u runtime.Unknown
					if err := u.Unmarshal([]byte(s)); err != nil {
						t.Error(err)
					}
					if err := got.Unmarshal(u.Raw); err != nil {
						t.Error(err)
					}
					got.APIVersion, got.Kind = u.APIVersion, u.Kind
					if ct := r.Header.Get("Content-Type"); ct != "application/vnd.kubernetes.protobuf" {
						t.Errorf("Content-Type %q of a protobuf body", ct)
					}
				} else {
					if err := json.Unmarshal(body, &got); err != nil {
						t.Error(err)
					}
					if ct := r.Header.Get("Content-Type"); ct != "application/json" {
						t.Errorf("Content-Type %q of a JSON body", ct)
					}
				}
				if r.Method != http.MethodDelete || r.URL.EscapedPath() != c.path || r.URL.RawQuery != "" {
					t.Errorf("%s %s?%s, want DELETE %s", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, c.path)
				}
				if g, w := mustJSON(t, got), mustJSON(t, c.want); g != w {
					t.Errorf("body\n%s\nwant\n%s", g, w)
				}
				if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
					t.Errorf("Accept %q asks for the whole object", r.Header.Get("Accept"))
				}
				if got := r.Header.Get("Authorization"); got != "Bearer secret" {
					t.Errorf("Authorization %q", got)
				}
				rw.WriteHeader(http.StatusOK)
			}))
			defer srv.Close()
			client, err := NewClient(&rest.Config{Host: srv.URL + "/prefix/", BearerToken: "secret"})
			must(t, err)
			if resp := client.Delete(context.Background(), c.request); resp != (Response{Code: 200}) {
				t.Errorf("response %+v, want code 200 alone", resp)
			}
		})
	}
}

func options(uid, rv string, p metav1.DeletionPropagation, dry bool) metav1.DeleteOptions {
	o := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     metav1.NewUIDPreconditions(uid),
		PropagationPolicy: &p,
	}
	if rv != "" {
		o.Preconditions.ResourceVersion = &rv
	}
	if dry {
		o.DryRun = []string{"All"}
	}
	return o
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func TestClientReads(t *testing.T) {
	notFound := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 404,
		Reason: metav1.StatusReasonNotFound, Message: `jobs.batch "j" not found`, Details: &metav1.StatusDetails{Name: "j", Kind: "jobs"},
	}
	noResource := notFound
	noResource.Message, noResource.Details = "the server could not find the requested resource", &metav1.StatusDetails{}
	conflict := notFound
	conflict.Code, conflict.Reason, conflict.Message = 409, metav1.StatusReasonConflict, "precondition"
	tooMany := notFound
	tooMany.Code, tooMany.Reason, tooMany.Details = 429, metav1.StatusReasonTooManyRequests, &metav1.StatusDetails{RetryAfterSeconds: 3}

	// As the API server writes them: k8s.io/apiserver, pkg/admission/plugin.
	denied := webhookerrors.ToStatusErr("deny.example.com", &metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict, Message: "busy"}).ErrStatus
	deniedMissing := webhookerrors.ToStatusErr("deny.example.com", &metav1.Status{
		Code: 404, Reason: metav1.StatusReasonNotFound, Message: notFound.Message, Details: notFound.Details}).ErrStatus
	failing := apierrors.NewInternalError(errors.New(`failed calling webhook "deny.example.com": failed to call webhook: connection refused`)).ErrStatus
	policy := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "j",
		errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no")).ErrStatus
	policy.Code, policy.Reason = 401, metav1.StatusReasonUnauthorized
	token := apierrors.NewUnauthorized("Unauthorized").ErrStatus
	for _, s := range []*metav1.Status{&denied, &deniedMissing, &failing, &policy, &token} {
		s.Kind, s.APIVersion = "Status", "v1"
	}

	for name, c := range map[string]struct {
		code   int
		header http.Header
		body   []byte
		want   Response
	}{
		"accepted":              {200, nil, []byte(`{"kind":"Status","status":"Success"}`), Response{Code: 200}},
		"still there":           {202, nil, []byte(strings.Repeat("x", 100_000)), Response{Code: 202}},
		"gone":                  {404, nil, []byte(mustJSON(t, notFound)), Response{Code: 404, Reason: "NotFound", Message: notFound.Message, ObjectMissing: true}},
		"gone, protobuf":        {404, nil, protobufOf(t, "Status", &notFound), Response{Code: 404, Reason: "NotFound", Message: notFound.Message, ObjectMissing: true}},
		"no such resource":      {404, nil, []byte(mustJSON(t, noResource)), Response{Code: 404, Reason: "NotFound", Message: noResource.Message}},
		"no such path":          {404, nil, []byte("404 page not found\n"), Response{Code: 404, Message: "404 page not found", Origin: FromServer}},
		"conflict":              {409, nil, []byte(mustJSON(t, conflict)), Response{Code: 409, Reason: "Conflict", Message: "precondition"}},
		"too many, header":      {429, http.Header{"Retry-After": {"2"}}, []byte(mustJSON(t, tooMany)), Response{Code: 429, Reason: "TooManyRequests", Message: tooMany.Message, RetryAfter: 2 * time.Second}},
		"too many, body":        {429, nil, []byte(mustJSON(t, tooMany)), Response{Code: 429, Reason: "TooManyRequests", Message: tooMany.Message, RetryAfter: 3 * time.Second}},
		"a proxy's error page":  {502, nil, []byte("<html>bad gateway</html>"), Response{Code: 502, Message: "<html>bad gateway</html>", Origin: FromServer}},
		"broken protobuf":       {500, nil, []byte("k8s\x00\xff\xff"), Response{Code: 500, Message: "k8s\x00\xff\xff", Origin: FromServer}},
		"some other JSON in it": {403, nil, []byte(`{"kind":"Table"}`), Response{Code: 403, Message: `{"kind":"Table"}`, Origin: FromServer}},
		"overloaded":            {429, http.Header{"Retry-After": {"1"}}, []byte("Too many requests, please try again later.\n"), Response{Code: 429, Message: "Too many requests, please try again later.", RetryAfter: time.Second, Origin: FromServer}},
		"denied, code chosen":   {409, nil, []byte(mustJSON(t, denied)), Response{Code: 409, Reason: "Conflict", Message: denied.Message, Origin: FromAdmission}},
		"denied, no object":     {404, nil, protobufOf(t, "Status", &deniedMissing), Response{Code: 404, Reason: "NotFound", Message: deniedMissing.Message, ObjectMissing: true, Origin: FromAdmission}},
		"webhook fails":         {500, nil, []byte(mustJSON(t, failing)), Response{Code: 500, Reason: "InternalError", Message: failing.Message, Origin: FromAdmission}},
		"policy denies":         {401, nil, []byte(mustJSON(t, policy)), Response{Code: 401, Reason: "Unauthorized", Message: policy.Message, Origin: FromAdmission}},
		"token is refused":      {401, nil, []byte(mustJSON(t, token)), Response{Code: 401, Reason: "Unauthorized", Message: "Unauthorized"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := serving(t, func(rw http.ResponseWriter, r *http.Request) {
				for k, v := range c.header {
					rw.Header()[k] = v
				}
				rw.WriteHeader(c.code)
				_, _ = rw.Write(c.body)
			})
			if got := client.Delete(context.Background(), Request{Type: *jobs, Namespace: "ci", Name: "j", UID: "u"}); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestClientNoAnswer(t *testing.T) {
	client := serving(t, func(rw http.ResponseWriter, _ *http.Request) {
		c, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
	})
	if got := client.Delete(context.Background(), Request{Type: *jobs, Namespace: "ci", Name: "j", UID: "u"}); got.Code != 0 || got.Err == nil {
		t.Errorf("%+v, want an error without a code", got)
	}
	if err := client.Ping(context.Background()); err == nil {
		t.Error("Ping answers nil though the connection breaks")
	}
}

// A redirect is an answer that deleted nothing, and no other address is asked.
func TestClientFollowsNoRedirect(t *testing.T) {
	requests := 0
	client := serving(t, func(rw http.ResponseWriter, r *http.Request) {
		requests++
		if r.URL.Path == "/login" {
			return // 200
		}
		http.Redirect(rw, r, "/login", http.StatusFound)
	})
	got := client.Delete(context.Background(), Request{Type: *jobs, Namespace: "ci", Name: "j", UID: "u"})
	if got.Code != http.StatusFound || requests != 1 {
		t.Errorf("code %d after %d requests, want %d after one", got.Code, requests, http.StatusFound)
	}
}

// Connections are used again: bodies are read to the end.
func TestClientKeepsConnections(t *testing.T) {
	remote := map[string]bool{}
	client := serving(t, func(rw http.ResponseWriter, r *http.Request) {
		remote[r.RemoteAddr] = true
		rw.WriteHeader(http.StatusConflict)
		_, _ = rw.Write([]byte(strings.Repeat("x", 300_000)))
	})
	for range 20 {
		client.Delete(context.Background(), Request{Type: *jobs, Namespace: "ci", Name: "j", UID: "u"})
	}
	if len(remote) != 1 {
		t.Errorf("%d connections for 20 requests one after another", len(remote))
	}
}

var must = builders.Must
