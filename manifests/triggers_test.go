package manifests

import (
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/judging"
)

// TestTriggersInSchemas: the schema of DeletionPauses and the chart's schema of values have the
// names of the list of triggers.
func TestTriggersInSchemas(t *testing.T) {
	pausable := judging.PausableTriggers()
	pause := read(t, "crd/curfew.dev_deletionpauses.yaml")
	versions, _, _ := unstructured.NestedSlice(pause, "spec", "versions")
	for _, version := range versions {
		triggers, _, err := unstructured.NestedMap(version.(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "triggers")
		must(t, err)
		if have, _, _ := unstructured.NestedStringSlice(triggers, "items", "enum"); !slices.Equal(have, pausable) {
			t.Errorf("a DeletionPause can name %v, want %v: see PauseTrigger in package v1alpha1", have, pausable)
		}
		if have, want := triggers["maxItems"], int64(len(pausable)); have != want {
			t.Errorf("a DeletionPause can name %v triggers, want %d", have, want)
		}
	}
	if len(versions) == 0 {
		t.Error("the CustomResourceDefinition of DeletionPauses has no version")
	}

	var all []string
	for _, info := range judging.Triggers() {
		all = append(all, string(info.Name))
	}
	values := read(t, "chart/values.schema.json")
	if have, _, _ := unstructured.NestedStringSlice(values, "properties", "triggers", "items", "enum"); !slices.Equal(have, all) {
		t.Errorf("the chart's triggers can be %v, want %v", have, all)
	}
}

// read reads a YAML or JSON file into the types of an unstructured object.
func read(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	data, err = yaml.YAMLToJSON(data)
	must(t, err)
	var out map[string]any
	must(t, json.Unmarshal(data, &out))
	return out
}
