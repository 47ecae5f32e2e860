package registry

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// served is what is read off one CustomResourceDefinition.
type served struct {
	kind     schema.GroupKind
	resource string
	cluster  bool
	// schemas of the versions that are served, slimmed to the names of fields.
	schemas map[string]map[string]any
	// generation of the CustomResourceDefinition: its schema changes with it.
	uid        string
	generation int64
}

// readCRD keeps the names of fields alone: a cluster holds many CustomResourceDefinitions, and large ones.
func readCRD(object *unstructured.Unstructured) served {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, fields...)
		return value
	}
	out := served{
		kind:     schema.GroupKind{Group: text("spec", "group"), Kind: text("spec", "names", "kind")},
		resource: text("spec", "names", "plural"),
		cluster:  text("spec", "scope") == "Cluster",
		schemas:  map[string]map[string]any{}, uid: string(object.GetUID()), generation: object.GetGeneration(),
	}
	if !established(object) || object.GetDeletionTimestamp() != nil {
		return out
	}
	versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		name, _ := version["name"].(string)
		if on, _ := version["served"].(bool); !on || name == "" {
			continue
		}
		fields, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		out.schemas[name] = slim(fields)
	}
	return out
}

func established(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, _ := item.(map[string]any); condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

// preserves marks a part of a schema in which any field is kept.
const preserves = "x-kubernetes-preserve-unknown-fields"

// depth is how deep a schema is kept. Native fields lie at the top of a spec; pod templates, which make schemas large, deep.
const depth = 6

// slim keeps the names of fields. A part that lies too deep counts as one that has any field: that keeps what is there.
func slim(fields map[string]any) map[string]any { return slimTo(fields, depth) }

func slimTo(fields map[string]any, left int) map[string]any {
	if keep, _ := fields[preserves].(bool); keep || fields["additionalProperties"] != nil || left == 0 || fields == nil {
		return map[string]any{preserves: true}
	}
	out := map[string]any{}
	if items, ok := fields["items"].(map[string]any); ok {
		out["items"] = slimTo(items, left)
	}
	if properties, ok := fields["properties"].(map[string]any); ok {
		slimmed := make(map[string]any, len(properties))
		for name, property := range properties {
			of, _ := property.(map[string]any)
			slimmed[name] = slimTo(of, left-1)
		}
		out["properties"] = slimmed
	}
	return out
}

// hasField reports whether objects of a schema can have a field.
func hasField(fields map[string]any, path policy.FieldPath) bool {
	for _, part := range path {
		if keep, _ := fields[preserves].(bool); keep {
			return true
		}
		var next map[string]any
		if part == "*" {
			next, _ = fields["items"].(map[string]any)
		} else {
			properties, _ := fields["properties"].(map[string]any)
			next, _ = properties[part].(map[string]any)
		}
		if next == nil {
			return false
		}
		fields = next
	}
	return true
}
