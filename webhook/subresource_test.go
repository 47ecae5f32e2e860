package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// pods is an OwnerReader over the YAML of Pods, by name.
type pods struct {
	OwnerReader
	of    map[string]string
	err   error
	reads int
}

func (p *pods) Read(_ context.Context, namespace string, pod *metav1.OwnerReference) (map[string]any, error) {
	p.reads++
	text, ok := p.of[namespace+"/"+pod.Name]
	if !ok || p.err != nil || pod.Kind != "Pod" || pod.UID != "u" {
		return nil, p.err
	}
	out := map[string]any{}
	return out, yaml.Unmarshal([]byte(text), &out)
}

// review answers a request as the endpoint does, with its subresource and resource.
func (w *world) review(t *testing.T, a ask, sub, resource string) *admissionv1.AdmissionResponse {
	t.Helper()
	asked := a.review(t)
	asked.Request.SubResource, asked.Request.Resource = sub, metav1.GroupVersionResource{Version: "v1", Resource: resource}
	body, err := json.Marshal(asked)
	must(t, err)
	_, out := w.post(t, a.path, body)
	return out.Response
}

// A write of the status keeps what it says of annotations and labels, so that it is judged as an
// update of the object is.
func TestMetadataByTheStatus(t *testing.T) {
	access := &answers{of: map[string]bool{}}
	w := newWorld(t, func(o *Options) { o.Access, o.RequireDelete, o.StrictLabels = access, true, true })
	const before = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: bounded}, status: {active: 1}}"
	job := func(metadata string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: bounded, " + metadata + "}, status: {succeeded: 1}}"
	}
	for name, test := range map[string]struct{ metadata, reason string }{
		"a TTL":               {"annotations: {curfew.dev/ttl-after-finished: 2h}", "may not"},
		"a TTL too long":      {"annotations: {curfew.dev/ttl-after-finished: 8d}", "max-ttl"},
		"a label":             {"labels: {curfew.dev/ttl: 2d}", "may not"},
		"a label in the past": {"labels: {curfew.dev/ttl: 2020-01-01}", "curfew.dev/ttl"},
		"a stamp":             {"annotations: {curfew.dev/ttl-source: namespace/ci}", "may only be written by Curfew"},
		"nothing":             {"annotations: {a: b}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask{path: PathValidate, namespace: "bounded", user: "jane", object: job(test.metadata), old: before}
			main, status := w.review(t, a, "", "jobs"), w.review(t, a, "status", "jobs")
			if status.Allowed != (test.reason == "") {
				t.Fatalf("allowed %v: %v", status.Allowed, status.Result)
			}
			if test.reason == "" {
				return
			}
			if got := status.Result.Message; !strings.Contains(got, test.reason) || got != main.Result.Message {
				t.Errorf("got %q, want the message of the main resource %q", got, main.Result.Message)
			}
			if access.last.Resource != "" && access.last.Resource != "jobs" {
				t.Errorf("asked about %q", access.last.Resource)
			}
		})
	}
	scale := ask{path: PathValidate, namespace: "bounded", object: "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a, labels: {curfew.dev/ttl: soon}}}",
		old: "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}}"}
	if got := w.review(t, scale, "scale", "deployments"); !got.Allowed || len(got.Warnings) > 0 {
		t.Errorf("a Scale: %+v", got)
	}
}

// A write of the status may leave out the spec, which the API server takes from the old object: no TTL
// is removed, and none is filled in again.
func TestStatusWithoutSpec(t *testing.T) {
	w := newWorld(t)
	job := func(spec string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, annotations: {curfew.dev/ttl-source: object}}, spec: {" + spec + "}}"
	}
	a := ask{path: PathMutate, namespace: "ci", object: job(""), old: job("ttlSecondsAfterFinished: 864000")}
	for sub, want := range map[string]bool{"": true, "status": false} {
		if got := w.review(t, a, sub, "jobs"); len(got.Patch) > 0 != want {
			t.Errorf("%q: patch %s, want one: %t", sub, got.Patch, want)
		}
	}
}

// Curfew's own keys on a Namespace are kept in step when its status or finalizers are written, too.
func TestNamespaceByTheStatus(t *testing.T) {
	w := newWorld(t)
	before := "{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/default-ttl: 1d, curfew.dev/default-since: '2026-07-01T00:00:00Z/" +
		"x'}, labels: {curfew.dev/in-use: 'true'}}}"
	for _, sub := range []string{"", "status", "finalize"} {
		object := "{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/default-ttl: 1d, curfew.dev/default-since: '2020-01-01T00:00:00Z/x'}}}"
		got := w.review(t, ask{path: PathMutateNamespace, namespace: "ci", object: object, old: before}, sub, "namespaces")
		if patch := string(got.Patch); !strings.Contains(patch, "in-use") || !strings.Contains(patch, "default-since") {
			t.Errorf("%q: patch %s", sub, patch)
		}
		bad := strings.Replace(object, "default-ttl: 1d", "max-ttl: soon", 1)
		if got := w.review(t, ask{path: PathValidateNamespace, namespace: "ci", object: bad, old: before}, sub, "namespaces"); got.Allowed {
			t.Errorf("%q: a bound that cannot be read was allowed", sub)
		}
	}
}

// The API server copies the annotations and labels of a Binding to the Pod.
func TestBindingsChangePods(t *testing.T) {
	access := &answers{of: map[string]bool{}}
	known := &pods{of: map[string]string{
		"plain/a":      "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: plain, uid: u}, spec: {restartPolicy: Never}}",
		"plain/always": "{apiVersion: v1, kind: Pod, metadata: {name: always, namespace: plain, uid: u}, spec: {restartPolicy: Always}}",
		"plain/marked": "{apiVersion: v1, kind: Pod, metadata: {name: marked, namespace: plain, uid: u, annotations: {curfew.dev/ttl-after-finished: 1h}}, spec: {restartPolicy: Never}}",
	}}
	w := newWorld(t, func(o *Options) { o.Access, o.RequireDelete, o.Owners = access, true, known })
	const absent = "metadata.uid: is absent, and the Binding changes Curfew's keys of its Pod: set it to the UID of the Pod and use subresource pods/binding"
	for name, test := range map[string]struct{ pod, metadata, reason string }{
		"a TTL":                      {"a", "uid: u, annotations: {curfew.dev/ttl-after-finished: 1h}", "may not"},
		"no UID":                     {"a", "annotations: {curfew.dev/ttl-after-finished: 1h}", absent},
		"no UID, what the Pod has":   {"marked", "annotations: {curfew.dev/ttl-after-finished: 1h}", absent},
		"no UID, no such Pod":        {"gone", "labels: {curfew.dev/ttl: 2d}", absent},
		"no UID and no key":          {"a", "annotations: {a: b}", ""},
		"the UID of another Pod":     {"always", "uid: v, annotations: {curfew.dev/ttl-after-finished: 1h}", ""},
		"a label":                    {"a", "uid: u, labels: {curfew.dev/ttl: 2d}", "may not"},
		"a TTL that cannot be read":  {"a", "uid: u, annotations: {curfew.dev/ttl-after-finished: soon}", "soon"},
		"a Pod that always restarts": {"always", "uid: u, annotations: {curfew.dev/ttl-after-finished: 1h}", "restartPolicy"},
		"what the Pod has":           {"marked", "uid: u, annotations: {curfew.dev/ttl-after-finished: 1h}", ""},
		"a shorter TTL":              {"marked", "uid: u, annotations: {curfew.dev/ttl-after-finished: 1m}", "may not"},
		"a stamp":                    {"marked", "uid: u, annotations: {curfew.dev/ttl-source: namespace/ci}", "may only be written by Curfew"},
		"nothing":                    {"a", "uid: u, annotations: {a: b}", ""},
		"a Pod that is not there":    {"gone", "uid: u, annotations: {curfew.dev/ttl-after-finished: 1h}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for sub, resource := range map[string]string{"binding": "pods", "": "bindings"} {
				a := ask{path: PathValidate, namespace: "plain", user: "system:serviceaccount:ci:scheduler",
					object: "{apiVersion: v1, kind: Binding, metadata: {name: " + test.pod + ", " + test.metadata + "}, target: {name: n}}"}
				known.reads = 0
				got := w.review(t, a, sub, resource)
				if (test.reason == absent || strings.HasSuffix(test.metadata, "{a: b}")) && known.reads > 0 {
					t.Error("the Pod was read")
				}
				if test.reason == "" && len(got.Warnings) > 0 {
					t.Errorf("warnings %q", got.Warnings)
				}
				if got.Allowed != (test.reason == "") {
					t.Fatalf("allowed %v: %v", got.Allowed, got.Result)
				}
				if test.reason != "" && !strings.Contains(got.Result.Message, test.reason) {
					t.Errorf("got %q, want something about %q", got.Result.Message, test.reason)
				}
				if access.last.Resource != "" && access.last.Resource != "pods" {
					t.Errorf("asked whether %q may be deleted", access.last.Resource)
				}
			}
		})
	}
	// The failure policy decides where the Pod cannot be read; not where its author makes it too large.
	for code, err := range map[int32]error{
		http.StatusInternalServerError: errors.New("no answer"), http.StatusRequestEntityTooLarge: apierrors.NewRequestEntityTooLargeError("3 MB"),
	} {
		known.err = err
		broken := w.review(t, ask{path: PathValidate, namespace: "plain", operation: string(admissionv1.Create),
			object: "{apiVersion: v1, kind: Binding, metadata: {name: a, uid: u, annotations: {curfew.dev/ttl-after-finished: 1h}}}"}, "binding", "pods")
		if broken.Result.Code != code {
			t.Errorf("%v: status %d, want %d", err, broken.Result.Code, code)
		}
	}
}

// With --kyverno-label, Kyverno's label is reviewed in a Binding, too.
func TestBindingsLabelPodsForKyverno(t *testing.T) {
	known := &pods{of: map[string]string{"plain/a": "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: plain, uid: u}, spec: {restartPolicy: Never}}"}}
	for alias, wants := range map[bool]map[string]string{
		true: {"uid: u, ": "may not", "": "metadata.uid: is absent"}, false: {"uid: u, ": "", "": ""},
	} {
		w := newWorld(t, func(o *Options) {
			o.Access, o.RequireDelete, o.Owners, o.KyvernoLabel = &answers{of: map[string]bool{}}, true, known, alias
		})
		for uid, want := range wants {
			got := w.review(t, ask{path: PathValidate, namespace: "plain", user: "system:serviceaccount:ci:scheduler",
				object: "{apiVersion: v1, kind: Binding, metadata: {name: a, " + uid + "labels: {cleanup.kyverno.io/ttl: 2d}}, target: {name: n}}"}, "binding", "pods")
			if got.Allowed != (want == "") || want != "" && !strings.Contains(got.Result.Message, want) {
				t.Errorf("--kyverno-label=%t, %q: allowed %t, %v; want %q", alias, uid, got.Allowed, got.Result, want)
			}
		}
	}
}

// A default that is changed by a write of the status is no default any more.
func TestDefaultIsChangedByTheStatus(t *testing.T) {
	w := newWorld(t)
	pod := func(ttl string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: pods, annotations: {curfew.dev/ttl-after-finished: " + ttl +
			", curfew.dev/ttl-source: namespace/pods}}, spec: {restartPolicy: Never}}"
	}
	got := w.review(t, ask{path: PathMutate, namespace: "pods", object: pod("never"), old: pod("2h")}, "status", "pods")
	if patch := string(got.Patch); !strings.Contains(patch, `"value":"object"`) {
		t.Errorf("patch %s", patch)
	}
}
