package expression

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Definition is the part of a CustomResourceDefinition that Curfew keeps: the kind it serves, and
// the fields of each version.
type Definition struct {
	Kind          schema.GroupKind
	Resource      string
	ClusterScoped bool
	// Schemas of the versions that are served, slimmed to the names and shapes of fields.
	Schemas map[string]*Schema
	// Storage is the version in which objects are stored.
	Storage string
	// UID and Generation of the CustomResourceDefinition: its schemas change with them.
	UID        string
	Generation int64
}

// DefinitionOf reads a CustomResourceDefinition in its JSON form. One that is not established, or
// is being deleted, serves no version.
func DefinitionOf(object map[string]any) Definition {
	metadata, spec := mapAt(object, "metadata"), mapAt(object, "spec")
	names := mapAt(spec, "names")
	out := Definition{
		Kind:     schema.GroupKind{Group: stringAt(spec, "group"), Kind: stringAt(names, "kind")},
		Resource: stringAt(names, "plural"), ClusterScoped: stringAt(spec, "scope") == "Cluster",
		Schemas: map[string]*Schema{}, UID: stringAt(metadata, "uid"), Generation: wholeOf(metadata, "generation"),
	}
	if !established(object) || metadata["deletionTimestamp"] != nil {
		return out
	}
	versions, _ := spec["versions"].([]any)
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if stored, _ := version["storage"].(bool); stored {
			out.Storage = stringAt(version, "name")
		}
		if on, _ := version["served"].(bool); on && stringAt(version, "name") != "" {
			slimmed := slim(mapAt(mapAt(version, "schema"), "openAPIV3Schema"), depth)
			_, status := mapAt(version, "subresources")["status"]
			slimmed.noStatus = !status
			out.Schemas[stringAt(version, "name")] = slimmed
		}
	}
	return out
}

func established(object map[string]any) bool {
	conditions, _ := mapAt(object, "status")["conditions"].([]any)
	for _, item := range conditions {
		if condition, _ := item.(map[string]any); condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

// Preferred is the version to read objects in if any will do, such as for their metadata: the
// storage version, which needs no conversion webhook, else the newest served one; "" if there is
// none.
func (d *Definition) Preferred() string {
	if _, ok := d.Schemas[d.Storage]; ok {
		return d.Storage
	}
	best := ""
	for name := range d.Schemas {
		if best == "" || version.CompareKubeAwareVersionStrings(name, best) > 0 {
			best = name
		}
	}
	return best
}

// Serves returns the schema of the version that a profile is written for; ok is false if the kind
// is not served in that version, or not as the profile describes it.
func (d *Definition) Serves(profile *Profile) (found *Schema, ok bool) {
	if d.Kind != profile.Kind.GroupKind() || d.Resource != profile.Resource || d.ClusterScoped != profile.ClusterScoped {
		return nil, false
	}
	found, ok = d.Schemas[profile.Kind.Version]
	return found, ok
}

// Shape is the kind of value that a field holds, as far as the schema tells.
type Shape uint8

// The shapes. ShapeAny is the zero value: the schema does not say.
const (
	ShapeAny Shape = iota
	ShapeObject
	ShapeList
	ShapeScalar
)

// Schema is the part of a version's schema that Curfew keeps: the names of fields and the shapes of
// their values. A nil schema is unknown and may have any field.
type Schema struct {
	shape Shape
	// open parts may have any field.
	open   bool
	fields map[string]*Schema
	items  *Schema
	// noStatus means that the version has no status subresource. It is set on the schema of a whole
	// object alone.
	noStatus bool
}

// depth is how deep a schema is kept. Native fields are at the top of a spec; pod templates, which
// make schemas large, are deep.
const depth = 6

// slim keeps the names of fields. A part that is too deep counts as open, so that no field is taken
// for missing.
func slim(from map[string]any, left int) *Schema {
	out := &Schema{shape: shapeOf(from)}
	preserve, _ := from["x-kubernetes-preserve-unknown-fields"].(bool)
	if preserve || from["additionalProperties"] != nil || left == 0 || from == nil {
		out.open = true
		return out
	}
	if items, ok := from["items"].(map[string]any); ok {
		out.items = slim(items, left)
	}
	if properties, ok := from["properties"].(map[string]any); ok {
		out.fields = make(map[string]*Schema, len(properties))
		for name, property := range properties {
			propertyFields, _ := property.(map[string]any)
			out.fields[name] = slim(propertyFields, left-1)
		}
	}
	return out
}

// shapeOf is ShapeAny for a field that may be null.
func shapeOf(from map[string]any) Shape {
	if null, _ := from["nullable"].(bool); null {
		return ShapeAny
	}
	switch from["type"] {
	case "object":
		return ShapeObject
	case "array":
		return ShapeList
	case "string", "integer", "number", "boolean":
		return ShapeScalar
	default:
		return ShapeAny
	}
}

// HasStatus reports whether the version has a status subresource, as far as is known.
func (s *Schema) HasStatus() bool { return s == nil || !s.noStatus }

// Has reports whether objects of the schema can have a field.
func (s *Schema) Has(path fieldpath.FieldPath) bool {
	for _, part := range path {
		if s == nil || s.open {
			return true
		}
		if s = s.child(part); s == nil {
			return false
		}
	}
	return true
}

// At is the part of the schema below a name, or below the items of a list with "*"; nil where it is
// unknown.
func (s *Schema) At(part string) *Schema {
	if s == nil {
		return nil
	}
	return s.child(part)
}

// Shape is that of the value itself.
func (s *Schema) Shape() Shape {
	if s == nil {
		return ShapeAny
	}
	return s.shape
}

func (s *Schema) child(part string) *Schema {
	if part == "*" {
		return s.items
	}
	return s.fields[part]
}

func mapAt(object map[string]any, name string) map[string]any {
	value, _ := object[name].(map[string]any)
	return value
}

func stringAt(object map[string]any, name string) string {
	text, _ := object[name].(string)
	return text
}

func wholeOf(object map[string]any, name string) int64 {
	switch number := object[name].(type) {
	case int64:
		return number
	case float64:
		return int64(number)
	default:
		return 0
	}
}

// Missing has an error for each reference whose field is not in the installed version of the kind.
// A definition of nil is not known, and may have any field.
func (p *Profile) Missing(definition *Definition) (errs field.ErrorList) {
	if p == nil || definition == nil {
		return nil
	}
	fields, ok := definition.Serves(p)
	for i := 0; ok && i < len(p.spec.References); i++ {
		namedObject, path := &p.spec.References[i], field.NewPath("spec", "references").Index(i)
		missing := func(where *field.Path, text v1alpha1.FieldPath) {
			if path, err := fieldpath.ParseFieldPath(string(text)); err == nil && !fields.Has(path) {
				errs = append(errs, field.Invalid(where, string(text), fmt.Sprintf("is no field of %s in version %s: "+
					"correct the path, with [*] after each list, or remove the reference", p.Kind.GroupKind(), p.Kind.Version)))
			}
		}
		missing(path.Child("path"), namedObject.Path)
		if namedObject.NamespacePath != nil {
			missing(path.Child("namespacePath"), *namedObject.NamespacePath)
		}
	}
	return errs
}

// LacksTemplates reports whether the installed kind lacks the spec of one of the pod templates, or
// is not served as the profile says. A definition of nil is not known, and may have any field.
func (p *Profile) LacksTemplates(definition *Definition) bool {
	if p == nil || definition == nil {
		return false
	}
	fields, ok := definition.Serves(p)
	return !ok || slices.ContainsFunc(p.PodTemplates, func(path fieldpath.FieldPath) bool { return !fields.Has(path.Child("spec")) })
}
