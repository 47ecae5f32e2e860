package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// world stands for a cluster: namespace ci, a user ann who may post everywhere, and a user bob who may not.
type world struct {
	platform.Offline
	clock.PassiveClock
	err      error
	reviews  int
	hidden   map[string]string
	snapshot *platform.Snapshot // nil for what comes with Curfew
}

func (w *world) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	w.reviews++
	if w.err != nil {
		return nil, w.err
	}
	if name != "ci" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	return resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationDefaultTTL: "1d", wellknown.AnnotationMaxTTL: "7d"}, nil), nil
}

func (w *world) Runtime(_ context.Context, reference *expression.Reference) (map[string]any, error) {
	w.reviews++
	if reference.Name != "torch" {
		return nil, w.err
	}
	return map[string]any{"metadata": map[string]any{"name": "torch", "annotations": map[string]any{wellknown.AnnotationTTL: "2d"}}}, w.err
}

func (w *world) Now() time.Time { return time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC) }

// Create implements authenticationclient.TokenReviewInterface.
func (w *world) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	w.reviews++
	token := review.Spec.Token
	if token == "broken" {
		return nil, errors.New("no route to 10.0.0.1")
	}
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{User: authenticationv1.UserInfo{Username: token},
		Authenticated: token == "ann" || token == "bob" || token == "eve", Audiences: review.Spec.Audiences}}, nil
}

// Allows lets everyone read all objects except w.hidden.
func (w *world) Allows(_ context.Context, user authenticationv1.UserInfo, request authorizer.AttributesRecord) (bool, error) {
	w.reviews++
	hidden := w.hidden[request.Resource+" "+request.Namespace+"/"+request.Name]
	if user.Username == "eve" || hidden == "broken" {
		return true, errors.New("no route to 10.0.0.1")
	}
	if request.ResourceRequest {
		return request.Verb == "get" && hidden == "", nil
	}
	return user.Username == "ann" && request.Verb == "post" && strings.HasPrefix(request.Path, "/v1/"), nil
}

func newRouter(t testing.TB, w *world) chi.Router {
	return New(decisions(t, w))
}

// comesWith is what comes with Curfew, compiled once.
var comesWith = sync.OnceValues(func() (*platform.Store, error) {
	all, err := profiles.All()
	if err != nil {
		return nil, err
	}
	return platform.New(all)
})

var ownSchemas = sync.OnceValues(func() (*lint.Schemas, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	return lint.NewSchemas(definitions)
})

// decisions returns the decisions in a world without policies.
func decisions(t testing.TB, w *world) Decisions {
	t.Helper()
	store, err := comesWith()
	must(t, err)
	schemas, err := ownSchemas()
	must(t, err)
	return Decisions{Builtin: store.Snapshot(), Settings: lint.Options{Source: w, Schemas: schemas}, Clock: w, TokenReviews: w, Authorizer: w,
		Audience: "curfew.dev"}
}

// call is a request as tests write it.
type call struct {
	path, body, contentType, accept, token string
}

func (c call) do(router http.Handler) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
	for name, value := range map[string]string{"Content-Type": c.contentType, "Accept": c.accept} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, request)
	return recorder
}

const (
	jobYAML = "# builds\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: build # it\n  namespace: ci\n"
	jobJSON = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"build","namespace":"ci"},"spec":{"ttlSecondsAfterFinished":864000}}`
	nsYAML  = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ci\n  annotations:\n    curfew.dev/default-ttl: 2d\n---\n"
)

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		call        call
		contentType string
		want        string
	}{
		"validate, YAML in, JSON out": {
			call: call{path: "/v1/validate", body: jobYAML, contentType: "application/yaml", token: "ann"},
			want: `{"allowed":true,"objects":1,"defaults":[{"object":{"document":1,"apiVersion":"batch/v1","kind":"Job","namespace":"ci","name":"build"},` +
				`"field":"ttlSecondsAfterFinished","value":"86400 (1d)","source":"namespace/ci","line":2}],"findings":[]}`,
		},
		"validate, JSON in, with a finding": {
			call: call{path: "/v1/validate", body: jobJSON, contentType: "application/json; charset=utf-8", accept: "*/*", token: "ann"},
			want: `{"allowed":false,"objects":1,"defaults":[],"findings":[{"object":{"document":1,"apiVersion":"batch/v1","kind":"Job","namespace":"ci","name":"build"},` +
				`"rule":"bounds","field":"spec.ttlSecondsAfterFinished","severity":"error","message":"864000 (10d) is above curfew.dev/max-ttl 7d of namespace \"ci\": use 7d or less","line":1}]}`,
		},
		"validate, YAML out": {
			call:        call{path: "/v1/validate?offline=true", body: jobYAML, accept: "text/html;q=0.5, application/yaml"},
			contentType: "application/yaml",
			want:        "allowed: true\ndefaults: []\nfindings: []\nobjects: 1",
		},
		"default, JSON out": {
			call: call{path: "/v1/default?offline=true", body: nsYAML + "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: ci}\n"},
			want: `{"allowed":true,"objects":2,"defaults":[{"object":{"document":2,"apiVersion":"batch/v1","kind":"Job","namespace":"ci","name":"a"},` +
				`"field":"ttlSecondsAfterFinished","value":"172800 (2d)","source":"namespace/ci","line":8}],"findings":[],"manifests":[` +
				`{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"curfew.dev/default-ttl":"2d"},"name":"ci"}},` +
				`{"apiVersion":"batch/v1","kind":"Job","metadata":{"annotations":{"curfew.dev/ttl-source":"namespace/ci"},"name":"a","namespace":"ci"},"spec":{"ttlSecondsAfterFinished":172800}}]}`,
		},
		"default, YAML out": {
			call:        call{path: "/v1/default", body: jobYAML + "---\nkind: CronJob\napiVersion: batch/v1\nmetadata:\n  namespace: ci\n  annotations: {curfew.dev/ttl-after-finished: 5m}\n", accept: "application/yaml", token: "ann"},
			contentType: "application/yaml",
			want: "---\n# curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace \"ci\"\n# builds\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: build # it\n  namespace: ci\n  annotations:\n    curfew.dev/ttl-source: namespace/ci\nspec:\n  ttlSecondsAfterFinished: 86400\n" +
				"---\n# curfew: warning: metadata.annotations[curfew.dev/ttl-after-finished]: has no effect on a CronJob, which never finishes: remove it (no-effect)\nkind: CronJob\napiVersion: batch/v1\nmetadata:\n  namespace: ci\n  annotations: {curfew.dev/ttl-after-finished: 5m}",
		},
		"an array, and a namespace from the query": {
			call: call{path: "/v1/validate?namespace=ci", body: `[{"apiVersion":"batch/v1","kind":"Job"},{"apiVersion":"v1","kind":"List","items":[]}]`, contentType: "application/json", token: "ann"},
			want: `{"allowed":true,"objects":1,"defaults":[{"object":{"document":1,"apiVersion":"batch/v1","kind":"Job","namespace":"ci"},` +
				`"field":"ttlSecondsAfterFinished","value":"86400 (1d)","source":"namespace/ci","line":1}],"findings":[]}`,
		},
		"offline the cluster does not speak": {
			call: call{path: "/v1/validate?offline=true", body: jobJSON, contentType: "application/json", token: "bob"},
			want: `{"allowed":true,"objects":1,"defaults":[],"findings":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			recorder := test.call.do(newRouter(t, w))
			if test.contentType == "" {
				test.contentType = "application/json"
			}
			if have := recorder.Header().Get("Content-Type"); recorder.Code != http.StatusOK || have != test.contentType {
				t.Fatalf("status %d, Content-Type %q: %s", recorder.Code, have, recorder.Body)
			}
			if have := strings.TrimSuffix(recorder.Body.String(), "\n"); have != test.want {
				t.Errorf("have\n%s\nwant\n%s", have, test.want)
			}
			if strings.Contains(test.call.path, "offline") && w.reviews > 0 {
				t.Errorf("the cluster was asked %d times", w.reviews)
			}
			if test.contentType == "application/json" {
				described(t, recorder, strings.SplitN(test.call.path, "?", 2)[0])
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		call   call
		world  world
		status int
		detail string
		errors []string
		header map[string]string
	}{
		"no token": {
			call: call{path: "/v1/validate", body: jobYAML}, status: 401,
			detail: "no token: send the header Authorization: Bearer TOKEN, or ask with ?offline=true",
			header: map[string]string{"WWW-Authenticate": `Bearer realm="curfew"`},
		},
		"an unknown token": {
			call: call{path: "/v1/default", body: jobYAML, token: "mallory"}, status: 401,
			detail: `the cluster does not know the token, or it has another audience: send one for audience "curfew.dev", as kubectl create token SERVICEACCOUNT --audience=curfew.dev makes`,
		},
		"a user who may not": {
			call: call{path: "/v1/default", body: jobYAML, token: "bob"}, status: 403,
			detail: `user "bob" may not post /v1/default: have a ClusterRole with nonResourceURLs /v1/default and verbs post bound to you, or ask with ?offline=true`,
		},
		"offline=false is not offline": {call: call{path: "/v1/validate?offline=false", body: jobYAML}, status: 401, detail: "no token: send the header Authorization: Bearer TOKEN, or ask with ?offline=true"},
		"users cannot be told":         {call: call{path: "/v1/default", body: jobYAML, token: "broken"}, status: 503, detail: "the cluster could not be asked who you are: try again later"},
		"access cannot be told":        {call: call{path: "/v1/default", body: jobYAML, token: "eve"}, status: 503, detail: "the cluster could not be asked what you may do: try again later"},
		"namespaces cannot be read": {
			call: call{path: "/v1/default", body: jobYAML, token: "ann"}, world: world{err: errors.New("no route to 10.0.0.1")}, status: 503,
			detail: "the manifests could not be judged in time, or the cluster could not be asked: send fewer, or try again later",
		},
		"parameters": {
			call: call{path: "/v1/validate?offline=yes&namespace=A&ofline=true&namespace=b", body: jobYAML}, status: 400,
			detail: "the query cannot be used",
			errors: []string{`"ofline" is not a parameter: use namespace or offline`, "namespace is there 2 times: give it once", `offline="yes": give true or false`},
		},
		"a namespace that cannot be one": {
			call: call{path: "/v1/validate?offline=true&namespace=", body: jobYAML}, status: 400, detail: "the query cannot be used",
			errors: []string{`namespace="": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		},
		"a query that is none": {
			call: call{path: "/v1/validate?offline=%zz", body: jobYAML}, status: 400, detail: "the query cannot be used",
			errors: []string{`not readable as a query: invalid URL escape "%zz"`},
		},
		"a form": {
			call: call{path: "/v1/validate?offline=true", body: jobYAML, contentType: "application/x-www-form-urlencoded"}, status: 415,
			detail: `Content-Type "application/x-www-form-urlencoded" is not understood: use application/yaml or application/json`,
			header: map[string]string{"Accept-Post": "application/json, application/yaml, application/x-yaml, text/yaml, text/x-yaml"},
		},
		"another charset": {
			call: call{path: "/v1/validate?offline=true", body: jobYAML, contentType: "application/yaml; charset=utf-16"}, status: 415,
			detail: `charset "utf-16" is not understood: send UTF-8`,
		},
		"an answer that cannot be written": {
			call: call{path: "/v1/validate?offline=true", body: jobYAML, accept: "text/html"}, status: 406,
			detail: `Accept "text/html" is not understood: use application/yaml or application/json`,
		},
		"nothing": {call: call{path: "/v1/validate?offline=true", body: "---\n# nothing\n"}, status: 400, detail: "the body has no manifest: send at least one"},
		"unreadable documents": {
			call: call{path: "/v1/default?offline=true", body: "kind: Job\n---\n" + jobYAML + "---\n[1]\n"}, status: 400,
			detail: "2 documents cannot be read",
			errors: []string{"document 1 (line 1): apiVersion is absent: give one, such as batch/v1", "document 3 (line 10): 1 is not an object: write apiVersion, kind and metadata"},
		},
		"YAML that calls itself JSON": {
			call: call{path: "/v1/default?offline=true", body: jobYAML, contentType: "application/json"}, status: 400,
			detail: "1 document cannot be read",
			errors: []string{"document 1 (line 1): not readable as JSON: invalid character '#' looking for beginning of value"},
		},
		"too many bytes": {call: call{path: "/v1/default?offline=true", body: strings.Repeat(" ", maxManifestBytes+1)}, status: 413, detail: "the body is too long: send 3145728 bytes or less"},
		"too many objects": {
			call: call{path: "/v1/default?offline=true", body: strings.Repeat("---\nkind: A\napiVersion: b\n", maxManifests+1)}, status: 413,
			detail: "2001 documents are too many: split it, 2000 is the most",
		},
		"too many nodes": {call: call{path: "/v1/default?offline=true", body: strings.Repeat("[", maxNodes+1)}, status: 413, detail: "150001 nodes are too many: split it, 150000 is the most"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := test.call.do(newRouter(t, &test.world))
			var problem Problem
			if err := json.Unmarshal(recorder.Body.Bytes(), &problem); err != nil {
				t.Fatalf("the body is no Problem: %v\n%s", err, recorder.Body)
			}
			if recorder.Code != test.status || problem.Status != test.status || problem.Detail != test.detail ||
				recorder.Header().Get("Content-Type") != ProblemContentType || fmt.Sprint(problem.Errors) != fmt.Sprint(test.errors) {
				t.Errorf("status %d: %s\nwant %d %s %q", recorder.Code, recorder.Body, test.status, test.detail, test.errors)
			}
			for name, want := range test.header {
				if have := recorder.Header().Get(name); have != want {
					t.Errorf("%s: %q, want %q", name, have, want)
				}
			}
			described(t, recorder, strings.SplitN(test.call.path, "?", 2)[0])
		})
	}
}

func TestAccessIsAskedForTheCaller(t *testing.T) {
	w := &world{}
	asked := 0
	asking := decisions(t, w)
	asking.Settings.Rules = rules.Options{RequireDelete: true}
	asking.Access = func(_ context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error) {
		asked++
		if user.Username != "ann" || review.Facts.Name != "build" {
			t.Errorf("asked about %q and %q", user.Username, review.Facts.Name)
		}
		return rules.Access{User: rules.No}, nil
	}
	router := New(asking)
	job := strings.ReplaceAll(jobJSON, "864000", "8640")
	recorder := call{path: "/v1/validate", body: job, token: "ann"}.do(router)
	if asked != 1 || !strings.Contains(recorder.Body.String(), `"allowed":false`) || !strings.Contains(recorder.Body.String(), "but you may not delete it yourself") {
		t.Errorf("asked %d times: %s", asked, recorder.Body)
	}
	if recorder = (call{path: "/v1/validate?offline=true", body: job}).do(router); asked != 1 || !strings.Contains(recorder.Body.String(), `"allowed":true`) {
		t.Errorf("offline: asked %d times: %s", asked, recorder.Body)
	}
}

// FuzzValidate holds that both endpoints answer whatever they are sent as they are described: never with an error of their own.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(nsYAML+jobYAML), false, false)
	f.Add([]byte(jobJSON), true, true)
	f.Add([]byte("[1, {kind: Pod, apiVersion: v1, metadata: {annotations: {curfew.dev/ttl-after-finished: \"\\u2028\"}}}]"), false, true)
	f.Add([]byte("a: &a [*a]"), false, false)
	f.Add([]byte(policyYAML+jobYAML), false, true)
	f.Add([]byte("{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {kind: {group: batch, version: v1, kind: Job, resource: jobs}, state: {finished: object.spec.x, finishTime: 'null', outcome: '1'}, fields: {ttl: spec.a.b}}}\n---\n"+jobYAML), false, false)
	router := newRouter(f, &world{})
	f.Fuzz(func(t *testing.T, body []byte, asJSON, wantYAML bool) {
		request := call{body: string(body), contentType: "application/yaml", token: "ann"}
		if asJSON {
			request.contentType = "application/json"
		}
		if wantYAML {
			request.accept = "application/yaml"
		}
		var statuses []int
		for _, path := range []string{PathValidate, PathDefault, PathValidate + "?offline=true", PathDefault + "?offline=true"} {
			request.path = path
			recorder := request.do(router)
			statuses = append(statuses, recorder.Code)
			switch recorder.Code {
			case http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			default:
				t.Fatalf("%s: status %d: %s", path, recorder.Code, recorder.Body)
			}
			if recorder.Header().Get("Content-Type") != "application/yaml" {
				described(t, recorder, strings.SplitN(path, "?", 2)[0])
			} else if strings.HasPrefix(path, PathDefault) {
				if _, errs := lint.Read(lint.Input{Data: recorder.Body.Bytes()}, lint.Limits{}); len(errs) > 0 {
					t.Fatalf("%s: the answer cannot be read: %v\n%s", path, errs, recorder.Body)
				}
			}
		}
		for _, status := range statuses {
			if status != statuses[0] {
				t.Fatalf("the endpoints do not agree on what can be read: %v", statuses)
			}
		}
	})
}
