package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// t0 is the instant that tests begin at.
var t0 = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// steppingClock moves on by a second at each reading, so that two readings in one decision show.
type steppingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *steppingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now
	c.now = now.Add(time.Second)
	return now
}

// namespaces are annotations by name. The cache has not seen the ones that are only in live.
type namespaces struct {
	cached, live map[string]map[string]string
	err          error
	panics       bool
	liveReads    int
	takes        time.Duration
}

func (n *namespaces) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	if n.panics {
		panic("a bug")
	}
	if n.takes > 0 {
		select {
		case <-time.After(n.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if annotations, ok := n.cached[name]; ok && n.err == nil {
		return resolution.ParseNamespace(name, annotations, nil), nil
	}
	return n.LiveNamespace(ctx, name)
}

func (n *namespaces) LiveNamespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	n.liveReads++
	if n.err != nil {
		return nil, n.err
	}
	annotations, ok := n.live[name]
	if !ok {
		annotations, ok = n.cached[name]
	}
	if !ok {
		return nil, errors.New("not found")
	}
	return resolution.ParseNamespace(name, annotations, nil), nil
}

// world is a webhook server on TLS, with what surrounds it.
type world struct {
	server     *httptest.Server
	mux        *http.ServeMux
	webhooks   *Webhooks
	namespaces *namespaces
	clock      *steppingClock
	registry   *prometheus.Registry
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := serving(t, change...)
	w.webhooks.load.timeout = time.Minute // The machine may be busy.
	w.server = httptest.NewTLSServer(w.mux)
	t.Cleanup(w.server.Close)
	return w
}

// serving is a world without a server.
func serving(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{
		clock:    &steppingClock{now: t0},
		registry: prometheus.NewRegistry(),
		namespaces: &namespaces{cached: map[string]map[string]string{
			"plain":   nil,
			"ci":      {"curfew.dev/default-ttl": "1d"},
			"outcome": {"curfew.dev/default-ttl-succeeded": "1h", "curfew.dev/default-ttl-failed": "7d"},
			"pods":    {"curfew.dev/default-pod-ttl": "2h"},
			"bounded": {"curfew.dev/default-ttl": "1d", "curfew.dev/min-ttl": "1h", "curfew.dev/max-ttl": "7d"},
			"dead":    {"curfew.dev/default-deadline": "2h"},
			"soft":    {"curfew.dev/default-ttl": "1d", "curfew.dev/max-ttl": "7d", "curfew.dev/mode": "warn"},
			"dry":     {"curfew.dev/default-ttl": "1d", "curfew.dev/max-ttl": "7d", "curfew.dev/mode": "dry-run"},
		}},
	}
	own, err := platform.New(nil)
	must(t, err)
	options := Options{
		Platform: own, Namespaces: w.namespaces,
		Clock: w.clock, Registerer: w.registry, Logger: logr.Discard(),
	}
	for _, f := range change {
		f(&options)
	}
	if w.webhooks, err = New(options); err != nil {
		t.Fatal(err)
	}
	w.mux = http.NewServeMux()
	w.webhooks.Register(w.mux.Handle)
	return w
}

// ask is a request in the making; object and old are YAML.
type ask struct {
	path, operation, namespace, user string
	object, old                      string
	resource                         metav1.GroupVersionResource
}

const person, robot = "kubernetes-admin", "system:serviceaccount:ci:builder"

func (a ask) review(t testing.TB) *admissionv1.AdmissionReview {
	t.Helper()
	object, old := toJSON(t, a.object), toJSON(t, a.old)
	var meta metav1.TypeMeta
	must(t, json.Unmarshal(object, &meta))
	gvk := meta.GroupVersionKind()
	operation := admissionv1.Operation(a.operation)
	if a.operation == "" {
		operation = admissionv1.Create
		if a.old != "" {
			operation = admissionv1.Update
		}
	}
	user := a.user
	if user == "" {
		user = person
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       types.UID("0d0c6f3e-4f0b-4c59-9d36-1d5a3a7d7f11"),
			Kind:      metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
			Resource:  a.resource,
			Namespace: a.namespace,
			Operation: operation,
			UserInfo:  authenticationv1.UserInfo{Username: user},
			Object:    runtime.RawExtension{Raw: object},
			OldObject: runtime.RawExtension{Raw: old},
		},
	}
}

func toJSON(t testing.TB, text string) []byte {
	t.Helper()
	if text == "" {
		return nil
	}
	out, err := yaml.YAMLToJSON([]byte(text))
	must(t, err)
	return out
}

// ask is answered without the help at the end, which it expects to name the rules that found
// something.
func (w *world) ask(t testing.TB, a ask) *admissionv1.AdmissionResponse {
	t.Helper()
	response := w.answered(t, a)
	names := response.AuditAnnotations[auditRules]
	if names == "" {
		return response
	}
	help := "see: kubectl curfew explain rule/" + strings.ReplaceAll(names, ",", " rule/")
	short, ok := strings.CutSuffix(response.Result.Message, "; "+help)
	response.Result.Message = short
	if last := len(response.Warnings) - 1; response.Allowed && strings.HasPrefix(a.review(t).Request.UserInfo.Username, "system:") {
		ok = last < 0 || !strings.Contains(response.Warnings[last], help)
	} else if response.Allowed {
		ok = last >= 0 && response.Warnings[last] == oneLine("curfew: "+help, maxWarning)
		response.Warnings = response.Warnings[:max(last, 0)]
	}
	if !ok {
		t.Errorf("the answer does not end with %q: %q, warned %q", help, response.Result.Message, response.Warnings)
	}
	return response
}

// answered sends a review, and expects it to be answered.
func (w *world) answered(t testing.TB, a ask) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(a.review(t))
	must(t, err)
	status, review := w.post(t, a.path, body)
	if status != http.StatusOK {
		t.Fatalf("HTTP status %d, want 200: %+v", status, review.Response)
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" {
		t.Errorf("answered with %s %s", review.APIVersion, review.Kind)
	}
	if review.Response.UID != "0d0c6f3e-4f0b-4c59-9d36-1d5a3a7d7f11" {
		t.Errorf("answered uid %q", review.Response.UID)
	}
	return review.Response
}

func (w *world) post(t testing.TB, path string, body []byte) (int, admissionv1.AdmissionReview) {
	t.Helper()
	response, err := w.server.Client().Post(w.server.URL+path, "application/json", bytes.NewReader(body))
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil {
		t.Fatalf("answer is no AdmissionReview: %v: %s", err, text)
	}
	if review.Response.Result == nil {
		review.Response.Result = &metav1.Status{Code: http.StatusOK} // An allowed request needs no status.
	}
	return response.StatusCode, review
}

// patchedObject applies the patch of a response as the API server does.
func patchedObject(t testing.TB, object string, response *admissionv1.AdmissionResponse) string {
	t.Helper()
	raw := toJSON(t, object)
	if len(response.Patch) == 0 {
		return string(raw)
	}
	if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("patchType is %v", response.PatchType)
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	must(t, err)
	out, err := patch.Apply(raw)
	must(t, err)
	return string(out)
}

func (w *world) count(t testing.TB, name string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func (w *world) reviews(t testing.TB, labels ...string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			// Gathered labels are sorted by name: decision, group, kind, operation, webhook.
			pairs := metric.GetLabel()
			if family.GetName() == "curfew_admission_reviews_total" && pairs[4].GetValue() == labels[0] &&
				pairs[3].GetValue() == labels[1] && pairs[2].GetValue() == labels[2] && pairs[0].GetValue() == labels[3] {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}
