package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// caseFile and caseRequest are a file of cases and a case, merged into its base, as far as they matter
// here (webhook/golden_test.go).
type caseFile struct {
	Base  json.RawMessage            `json:"base"`
	Bases map[string]json.RawMessage `json:"bases"`
	Cases map[string]json.RawMessage `json:"cases"`
}

type caseRequest struct {
	Base     string `json:"base"`
	User     string `json:"user"`
	Settings struct {
		KyvernoLabel bool     `json:"kyvernoLabel"`
		MayNotDelete []string `json:"mayNotDelete"`
	} `json:"settings"`
	Object     map[string]any               `json:"object"`
	Was        json.RawMessage              `json:"was"`
	OldObject  map[string]any               `json:"-"`
	Namespaces map[string]metav1.ObjectMeta `json:"namespaces"`
	Policies   map[string]map[string]any    `json:"policies"`
	Want       struct {
		Patch []json.RawMessage `json:"patch"`
		Audit struct {
			// Validate is the audit annotations, or "none".
			Validate any `json:"validate"`
		} `json:"audit"`
	} `json:"want"`
}

func (c *caseRequest) rules() string {
	audit, _ := c.Want.Audit.Validate.(map[string]any)
	rules, _ := audit["rules"].(string)
	return rules
}

func readCases(t *testing.T) map[string]*caseRequest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cases, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	out := map[string]*caseRequest{}
	for _, name := range files {
		var file caseFile
		text, err := os.ReadFile(name)
		if err == nil {
			err = yaml.Unmarshal(text, &file)
		}
		must(t, err)
		for name, patch := range file.Cases {
			var raw, merged caseRequest
			unmarshal(t, patch, &raw)
			base := file.Base
			if raw.Base != "" {
				base = mergedCase(t, base, file.Bases[raw.Base])
			}
			unmarshal(t, mergedCase(t, base, patch), &merged)
			if raw.Was != nil {
				object, err := json.Marshal(merged.Object)
				must(t, err)
				unmarshal(t, mergedCase(t, object, raw.Was), &merged.OldObject)
			}
			out[name] = &merged
		}
	}
	return out
}

func unmarshal(t *testing.T, raw []byte, into any) {
	t.Helper()
	must(t, json.Unmarshal(raw, into))
}

func mergedCase(t *testing.T, base, patch json.RawMessage) json.RawMessage {
	t.Helper()
	out, err := jsonpatch.MergePatch(base, patch)
	must(t, err)
	return out
}

// TestWhatRulesSayIsSent: the webhooks' cases have some for each rule. A rule about a field
// that no match condition sends would pass there, and have no effect in a cluster.
func TestWhatRulesSayIsSent(t *testing.T) {
	compiled := map[string]celplugin.ConditionEvaluator{}
	planned := map[string][]webhook{}
	for name, one := range readCases(t) {
		t.Run(name, func(t *testing.T) {
			says := one.rules()
			mutated := len(one.Want.Patch) > 0
			if mutated && regexp.MustCompile(`^\[?\{.*"curfew.dev/(ttl|deadline)-source"\s*:\s*"object".*\}$`).Match(one.Want.Patch[0]) {
				mutated = false // The author's, stamp or no stamp.
			}
			if !mutated && says == "" {
				return
			}
			entries := caseEntries(t, planned, one)
			namespace := labels.Set{"kubernetes.io/metadata.name": "ci"}
			in := one.Namespaces[(&unstructured.Unstructured{Object: one.Object}).GetNamespace()]
			stamp := resolution.StampNamespace(in.Annotations, false, metav1.Now().Time)
			for key, value := range map[string]string{wellknown.LabelInUse: stamp.InUse, wellknown.LabelPodsInUse: stamp.PodsInUse} {
				if value != "" {
					namespace[key] = value
				}
			}
			maps.Copy(namespace, in.Labels)
			if mutated && !calledFor(t, entries, compiled, "mutating", one, namespace) {
				t.Error("what the mutating webhook changes is not sent to it")
			}
			one.Object = patchedCase(t, one.Object, one.Want.Patch)
			if says != "" && !calledFor(t, entries, compiled, "validating", one, namespace) {
				t.Errorf("what %s says something about is not sent to the validating webhook", says)
			}
		})
	}
}

// caseEntries are the webhooks in the cluster of a case. Most cases have the same.
func caseEntries(t *testing.T, planned map[string][]webhook, one *caseRequest) []webhook {
	t.Helper()
	var policies []string
	for _, name := range slices.Sorted(maps.Keys(one.Policies)) {
		text, err := yaml.Marshal(map[string]any{"apiVersion": "curfew.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": map[string]any{"name": name}, "spec": one.Policies[name]})
		must(t, err)
		policies = append(policies, string(text))
	}
	key := fmt.Sprint(one.Settings.KyvernoLabel, policies)
	if planned[key] == nil {
		planned[key] = coveredWith(t, &coverage.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller",
			Protect: []string{"curfew-system", "kube-system"}, Alias: one.Settings.KyvernoLabel,
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
	must(t, err)
	list, err := json.Marshal(operations)
	must(t, err)
	patch, err := jsonpatch.DecodePatch(list)
	must(t, err)
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	must(t, json.Unmarshal(raw, &out))
	return out
}

// calledFor reports whether a webhook is called for a request.
func calledFor(t *testing.T, entries []webhook, compiled map[string]celplugin.ConditionEvaluator, config string, request *caseRequest, namespace labels.Set) bool {
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
		must(t, err)
		if compiled[string(text)] == nil {
			compiled[string(text)] = compile(t, w, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}
		return w.matches(t, attributes, compiled[string(text)], mayNot)
	})
}
