package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/coverage"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

const cases = "../webhook/testdata/cases"

// caseRequest and caseResponse are request.yaml and response.yaml, as far as they matter here
// (webhook/golden_test.go).
type caseRequest struct {
	User     string `json:"user"`
	Settings struct {
		KyvernoLabel bool     `json:"kyvernoLabel"`
		DryRun       bool     `json:"dryRun"`
		MayNotDelete []string `json:"mayNotDelete"`
	} `json:"settings"`
	Object    map[string]any `json:"object"`
	OldObject map[string]any `json:"oldObject"`
}

type caseResponse struct {
	Mutate struct {
		Patch []json.RawMessage `json:"patch"`
	} `json:"mutate"`
	Validate struct {
		Audit map[string]string `json:"audit"`
	} `json:"validate"`
}

func readCase(t *testing.T, file string, into any) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// TestWhatRulesSayIsSent: the webhooks' cases have some for each rule. A rule about a field
// that no match condition sends would pass there, and have no effect in a cluster.
func TestWhatRulesSayIsSent(t *testing.T) {
	folders, err := os.ReadDir(cases)
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]celplugin.ConditionEvaluator{}
	planned := map[string][]webhook{}
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			at := filepath.Join(cases, folder.Name())
			var request caseRequest
			var response caseResponse
			readCase(t, filepath.Join(at, "request.yaml"), &request)
			readCase(t, filepath.Join(at, "response.yaml"), &response)
			says := response.Validate.Audit["rules"]
			mutated := len(response.Mutate.Patch) > 0
			if mutated && regexp.MustCompile(`^\[?\{.*"curfew.dev/(ttl|deadline)-source"\s*:\s*"object".*\}$`).Match(response.Mutate.Patch[0]) {
				mutated = false // The author's, stamp or no stamp.
			}
			if !mutated && says == "" {
				return
			}
			entries := caseEntries(t, planned, at, &request)
			namespace := labels.Set{"kubernetes.io/metadata.name": "ci"}
			var object metav1.PartialObjectMetadata
			if readCase(t, filepath.Join(at, "namespace.yaml"), &object) {
				stamp := resolution.StampNamespace(object.Annotations, false, metav1.Now().Time)
				for key, value := range map[string]string{wellknown.LabelInUse: stamp.InUse, wellknown.LabelPodsInUse: stamp.PodsInUse} {
					if value != "" {
						namespace[key] = value
					}
				}
				for key, value := range object.Labels {
					namespace[key] = value
				}
			}
			if mutated && !called(t, entries, compiled, "mutating", &request, namespace) {
				t.Error("what the mutating webhook changes is not sent to it")
			}
			request.Object = patchedCase(t, request.Object, response.Mutate.Patch)
			if says != "" && !called(t, entries, compiled, "validating", &request, namespace) {
				t.Errorf("what %s says something about is not sent to the validating webhook", says)
			}
		})
	}
}

// caseEntries are the webhooks in the cluster of a case. Most cases have the same.
func caseEntries(t *testing.T, planned map[string][]webhook, at string, request *caseRequest) []webhook {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(at, "policies.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	key := fmt.Sprint(request.Settings.DryRun, request.Settings.KyvernoLabel, string(text))
	if planned[key] == nil {
		var policies []string
		if len(text) > 0 {
			policies = strings.Split(string(text), "\n---\n")
		}
		planned[key] = coveredWith(t, &coverage.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller",
			Protect: []string{"curfew-system", "kube-system"}, DryRun: request.Settings.DryRun, Alias: request.Settings.KyvernoLabel,
			Labelled: []discovery.Kind{{GroupVersionKind: kinds["configmaps"], Resource: "configmaps"}}}, policies...)
	}
	return planned[key]
}

func patchedCase(t *testing.T, object map[string]any, operations []json.RawMessage) map[string]any {
	t.Helper()
	if len(operations) == 0 {
		return object
	}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(list)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// called reports whether a webhook is called for a request.
func called(t *testing.T, entries []webhook, compiled map[string]celplugin.ConditionEvaluator, config string, request *caseRequest, namespace labels.Set) bool {
	t.Helper()
	object := &unstructured.Unstructured{Object: request.Object}
	kind := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind})
	if kind.Kind == "Sandbox" { // The guess is sandboxs.
		plural.Resource = "sandboxes"
	}
	operation, in := admission.Create, object.GetNamespace()
	var old runtime.Object
	if request.OldObject != nil {
		was := &unstructured.Unstructured{Object: request.OldObject}
		operation, old = admission.Update, was
		if kind.Group == wellknown.Group { // Where the spec differs the API server has raised the generation.
			was.SetGeneration(1)
			object.SetGeneration(2)
		}
	}
	if kind.Kind == "Namespace" {
		in = object.GetName()
	}
	name, mayNot := request.User, ""
	if name == "" {
		name = "kubernetes-admin"
	}
	switch {
	case slices.Contains(request.Settings.MayNotDelete, "user"):
		mayNot = name
	case slices.Contains(request.Settings.MayNotDelete, "controller"):
		mayNot = controllerSA
	}
	attributes := &admission.VersionedAttributes{
		Attributes:    admission.NewAttributesRecord(object, old, kind, in, object.GetName(), plural, "", operation, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: name}),
		VersionedKind: kind, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old),
	}
	return slices.ContainsFunc(entries, func(w webhook) bool {
		if w.config != config || !w.selects(t, attributes, namespace) {
			return false
		}
		text, err := json.Marshal(w.conditions)
		if err != nil {
			t.Fatal(err)
		}
		if compiled[string(text)] == nil {
			compiled[string(text)] = compile(t, w, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}
		return w.matches(t, attributes, compiled[string(text)], mayNot)
	})
}
