package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// runtimes are runtimes by name.
type runtimes struct {
	objects map[string]map[string]any
	err     error
}

func (r *runtimes) Runtime(_ context.Context, reference *expression.Reference) (map[string]any, error) {
	return r.objects[reference.Name], r.err
}

func builtinProfiles(t testing.TB) []*v1alpha1.KindProfile {
	t.Helper()
	out, err := profiles.All()
	must(t, err)
	return out
}

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	must(t, yaml.UnmarshalStrict([]byte(text), out))
	return out
}

// platformWorld is a world whose platform says these LifecyclePolicies.
func platformWorld(t *testing.T, policies ...string) (*world, *platform.Store, *runtimes) {
	t.Helper()
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	for _, text := range policies {
		if errs := known.SetPolicy(parsed[v1alpha1.LifecyclePolicy](t, text)); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	getter := &runtimes{objects: map[string]map[string]any{
		"torch": {"kind": "ClusterTrainingRuntime", "metadata": map[string]any{"name": "torch", "annotations": map[string]any{wellknown.AnnotationTTL: "1d"}}},
	}}
	return newWorld(t, func(o *Options) { o.Platform, o.Runtimes = known, getter }), known, getter
}

const (
	platformJob      = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain}, spec: {template: {}}}"
	platformTrainJob = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: plain, annotations: {curfew.dev/ttl-after-finished: 1h}}, spec: {runtimeRef: {name: torch}}}"
)

// A policy for some Deployments has all of them sent to admission, where a TTL label that another
// policy gives to every kind is not meant for them: it would delete the Deployments of the cluster.
func TestLabelForEveryKindIsNotForDeployments(t *testing.T) {
	w, _, _ := platformWorld(t, `{metadata: {name: everything}, spec: {priority: 5, defaults: {ttlLabel: {value: 7d}}}}`,
		`{metadata: {name: previews}, spec: {match: {kinds: [{group: apps, kind: Deployment}], matchConditions: [{name: preview, expression: "object.metadata.name.startsWith('pr-')"}]},
  defaults: {ttlLabel: {value: 14d}}}}`)
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME, namespace: plain}, spec: {template: {}}}"
	for name, want := range map[string]string{
		"shop": "", "pr-42": `[{"op":"add","path":"/metadata/labels","value":{"curfew.dev/ttl":"14d"}},{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-label-source":"policy/previews 14d"}}]`,
	} {
		response := w.ask(t, ask{path: PathMutate, namespace: "plain", object: strings.Replace(deployment, "NAME", name, 1)})
		if got := string(response.Patch); got != want {
			t.Errorf("Deployment %s: patch %s, want %s", name, got, want)
		}
	}
	if response := w.ask(t, ask{path: PathMutate, namespace: "plain", object: platformJob}); !strings.Contains(string(response.Patch), `"curfew.dev/ttl":"7d"`) {
		t.Errorf("Job: patch %s", response.Patch)
	}
}

// Whether the runtime has a TTL is not known: the failure policy decides (S8).
func TestUnreadableRuntime(t *testing.T) {
	w, _, getter := platformWorld(t)
	getter.err = errors.New("no route")
	body, err := json.Marshal(ask{path: PathMutate, namespace: "plain", object: platformTrainJob}.review(t))
	must(t, err)
	if status, _ := w.post(t, PathMutate, body); status != http.StatusInternalServerError {
		t.Errorf("HTTP status %d where the runtime cannot be read, want 500 (S8)", status)
	}
}

// A reference whose path is in no version of the installed kind would keep nothing: it is denied,
// unless it is stored already.
func TestReferencesAreInTheSchema(t *testing.T) {
	w, known, _ := platformWorld(t)
	definition := expression.DefinitionOf(map[string]any{
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "A", "plural": "as"}, "versions": []any{map[string]any{
			"name": "v1", "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"properties": map[string]any{"of": map[string]any{"type": "string"}}}},
		}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
	profile := func(path string) string {
		return `{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: a}, spec: {kind: {group: example.com, version: v1, kind: A, resource: as}, references: [{path: ` + path + `, kind: {kind: Secret}}]}}`
	}
	if response := w.ask(t, ask{path: PathValidatePolicy, object: profile("other")}); !response.Allowed {
		t.Errorf("refused before its kind is known: %+v", response.Result)
	}
	known.SetDefinition("as.example.com", &definition)
	if response := w.ask(t, ask{path: PathValidatePolicy, object: profile("of")}); !response.Allowed {
		t.Errorf("refused: %+v", response.Result)
	}
	want := "spec.references[0].path: is no field of A.example.com in version v1: correct the path, with [*] after each list, or remove the reference"
	if response := w.ask(t, ask{path: PathValidatePolicy, object: profile("other")}); response.Allowed || response.Result.Message != want {
		t.Errorf("answered %+v", response.Result)
	}
	if response := w.ask(t, ask{path: PathValidatePolicy, old: profile("other"), object: profile("other")}); !response.Allowed {
		t.Errorf("refused what the request does not change: %+v", response.Result)
	}
}
