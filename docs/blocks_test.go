package docs_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var (
	anyYAML = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")
	divided = regexp.MustCompile(`(?m)^---\n`)
)

// yamlBlocks are the YAML blocks of a page, without their indent.
func yamlBlocks(text string) (out []string) {
	for _, match := range anyYAML.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.TrimPrefix(strings.ReplaceAll("\n"+match[2], "\n"+match[1], "\n"), "\n"))
	}
	return out
}

// TestYAMLBlocks: each document of each page has the fields that its kind has, as far as Kubernetes
// or kustomize define it. Patches apply to the manifests.
// TestPoliciesAndProfilesOfPages does the same for Curfew's kinds.
func TestYAMLBlocks(t *testing.T) {
	checked := map[string]int{}
	for name, text := range pages(t) {
		for _, block := range yamlBlocks(text) {
			for _, document := range divided.Split(block, -1) {
				kind, err := checkYAML(document)
				if err != nil {
					t.Errorf("%s: %v:\n%s", name, err, document)
				}
				checked[kind]++
			}
		}
	}
	if checked["Kubernetes"] < 10 || checked["kustomize"] < 3 || checked["other"] < 20 {
		t.Errorf("only so many were found: %v", checked)
	}
	for fault, bad := range map[string]string{
		`unknown field "spec.ttl"`: "apiVersion: batch/v1\nkind: Job\nspec:\n  ttl: 1\n",
		`unknown field "imagez"`:   "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nimagez: []\n",
		"already set":              "a: 1\na: 2\n",
		"no resource matches":      "patches: [{target: {kind: Deployment, name: webhook}, patch: '[{op: remove, path: /spec}]'}]\n",
	} {
		if _, err := checkYAML(bad); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("want %q, got %v of\n%s", fault, err, bad)
		}
	}
}

// TestTrainJobOfTheSDK: the page on training shows what the SDK sends, as the end-to-end tests send
// it, with values of its own that the Python code has as well.
func TestTrainJobOfTheSDK(t *testing.T) {
	page := pages(t)["docs/training.md"]
	recorded, err := os.ReadFile(root + "/test/e2e/testdata/sdk-trainjob.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := yaml.Unmarshal(recorded, &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(yamlBlocks(page)[0]), &got); err != nil {
		t.Fatal(err)
	}
	spec := want["spec"].(map[string]any)
	spec["runtimeRef"].(map[string]any)["name"] = "torch-curfew"
	spec["trainer"].(map[string]any)["image"] = "registry.example.com/ml/fine-tune:v1"
	want["metadata"].(map[string]any)["annotations"] = map[string]any{"curfew.dev/active-deadline": "4h"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("docs/training.md shows\n%v\nwant what the SDK sends:\n%v", got, want)
	}
	for _, call := range []string{`runtime="torch-curfew"`, `image="registry.example.com/ml/fine-tune:v1", num_nodes=2`, `Annotations({"curfew.dev/active-deadline": "4h"})`} {
		if !strings.Contains(page, call) {
			t.Errorf("docs/training.md has no %s", call)
		}
	}
}

// checkYAML returns who defines a document, and its first fault.
func checkYAML(document string) (kind string, err error) {
	var header struct {
		APIVersion, Kind string
		Patches          []types.Patch
	}
	if _, err := yaml.YAMLToJSONStrict([]byte(document)); err != nil {
		return "other", err
	}
	if err := yaml.Unmarshal([]byte(document), &header); err != nil {
		return "other", err
	}
	version, err := schema.ParseGroupVersion(header.APIVersion)
	switch {
	case err != nil:
		return "other", err
	case len(header.Patches) > 0 || version.Group == types.KustomizationVersion[:strings.Index(types.KustomizationVersion, "/")]:
		if err := yaml.UnmarshalStrict([]byte(document), &types.Kustomization{}); err != nil {
			return "kustomize", err
		}
		_, err := applyPatches(header.Patches)
		return "kustomize", err
	case header.Kind != "" && scheme.Scheme.Recognizes(version.WithKind(header.Kind)):
		decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
		_, err := runtime.Decode(decoder, []byte(document))
		return "Kubernetes", err
	}
	return "other", nil
}

// applyPatches fails where a patch does not apply, or has no target in the manifests. It returns the
// manifests with the patches.
func applyPatches(patches []types.Patch) (resmap.ResMap, error) {
	built, err := kustomized(filesys.MakeFsOnDisk(), root+"/manifests/base")
	if err != nil {
		return nil, err
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	for _, patch := range patches {
		found := false
		for _, resource := range built.Resources() {
			found = found || patch.Target != nil && resource.GetKind() == patch.Target.Kind && resource.GetName() == patch.Target.Name
		}
		if !found {
			return nil, fmt.Errorf("no resource matches %v", patch.Target)
		}
	}
	file, err := yaml.Marshal(map[string]any{"resources": []string{"base.yaml"}, "patches": patches})
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	for name, content := range map[string][]byte{"/base.yaml": text, "/kustomization.yaml": file} {
		if err := files.WriteFile(name, content); err != nil {
			return nil, err
		}
	}
	return kustomized(files, "/")
}

func kustomized(files filesys.FileSystem, folder string) (resmap.ResMap, error) {
	return krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
}
