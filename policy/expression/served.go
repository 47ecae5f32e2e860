package expression

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
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
			of := slim(mapAt(mapAt(version, "schema"), "openAPIV3Schema"), depth)
			_, status := mapAt(version, "subresources")["status"]
			of.noStatus = !status
			out.Schemas[stringAt(version, "name")] = of
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
func (d *Definition) Serves(profile *Profile) (of *Schema, ok bool) {
	if d.Kind != profile.Kind.GroupKind() || d.Resource != profile.Resource || d.ClusterScoped != profile.ClusterScoped {
		return nil, false
	}
	of, ok = d.Schemas[profile.Kind.Version]
	return of, ok
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
	if preserve, _ := from["x-kubernetes-preserve-unknown-fields"].(bool); preserve || from["additionalProperties"] != nil || left == 0 || from == nil {
		out.open = true
		return out
	}
	if items, ok := from["items"].(map[string]any); ok {
		out.items = slim(items, left)
	}
	if properties, ok := from["properties"].(map[string]any); ok {
		out.fields = make(map[string]*Schema, len(properties))
		for name, property := range properties {
			of, _ := property.(map[string]any)
			out.fields[name] = slim(of, left-1)
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

// states reads the state of an object by the expressions of its profile. Expressions that the
// profile does not have are nil; one that did not compile makes the whole state unreadable, with
// err.
type states struct {
	finished, finishTime, outcome, started, suspended *Program
	err                                               error
}

// state compiles the expressions of a profile; nil for kinds that never finish.
func (c *Compiler) state(path *field.Path, spec *v1alpha1.StateExpressions, errs *field.ErrorList) policy.StateFunc {
	if spec == nil {
		return nil
	}
	var out states
	for _, part := range []struct {
		name   string
		source *v1alpha1.Expression
		result Result
		into   **Program
	}{
		{"finished", &spec.Finished, ResultBool, &out.finished},
		{"finishTime", &spec.FinishTime, ResultTime, &out.finishTime},
		{"outcome", &spec.Outcome, ResultOutcome, &out.outcome},
		{"started", spec.Started, ResultTime, &out.started},
		{"suspended", spec.Suspended, ResultBool, &out.suspended},
	} {
		if part.source == nil {
			continue
		}
		program, err := c.Compile(string(*part.source), ScopeProfile, part.result)
		if err != nil {
			at := path.Child(part.name)
			*errs = append(*errs, invalidExpression(at, string(*part.source), err))
			out.err = errors.Join(out.err, fmt.Errorf("%s: %w", at, err))
			continue
		}
		*part.into = program
	}
	return out.read
}

// read evaluates the expressions on one object. It is a [policy.StateFunc]. The expressions share
// the cost limit of one, so that an object with a huge status delays the others of its kind by no
// more than a tenth of a second or two.
func (s *states) read(ctx context.Context, object map[string]any) (policy.State, error) {
	if s.err != nil {
		return policy.State{}, s.err
	}
	if ctx.Value(limitKey{}) == nil {
		ctx = Limited(ctx, CostLimit, "the expressions of its profile cost more than they may for one object")
	}
	variables := &Variables{Object: object}
	var state policy.State
	var err error
	fail := func(name string, err error) (policy.State, error) {
		// Half a state is none: a fault in one expression may be in the others, too.
		return policy.State{}, fmt.Errorf("spec.state.%s: %w", name, err)
	}
	if s.suspended != nil {
		if state.Suspended, err = s.suspended.Bool(ctx, variables); err != nil {
			return fail("suspended", err)
		}
	}
	if !state.Suspended {
		if state.Started, err = s.startTime(ctx, variables); err != nil {
			return fail("started", err)
		}
	}
	if state.Finished, err = s.finished.Bool(ctx, variables); err != nil {
		return fail("finished", err)
	}
	if !state.Finished {
		return state, nil
	}
	if state.Outcome, state.Errored, err = s.outcome.Outcome(ctx, variables); err != nil {
		return fail("outcome", err)
	}
	if state.FinishTime, err = s.finishTime.Time(ctx, variables); err != nil {
		return fail("finishTime", err)
	}
	return state, nil
}

// startTime is the start time by the profile, or the creation if the profile has no such
// expression.
func (s *states) startTime(ctx context.Context, variables *Variables) (time.Time, error) {
	if s.started != nil {
		return s.started.Time(ctx, variables)
	}
	metadata, _ := variables.Object["metadata"].(map[string]any)
	text, _ := metadata["creationTimestamp"].(string)
	if text == "" {
		return time.Time{}, nil // At admission of a CREATE nothing has started.
	}
	at, err := lifetime.ParseTime(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("metadata.creationTimestamp: %w", err)
	}
	return at, nil
}
