package expression

import (
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
)

const definitionText = `
metadata: {name: renders.example.com, uid: u, generation: 3}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Render, plural: renders}
  versions:
    - {name: v1alpha1, served: false, schema: {openAPIV3Schema: {type: object}}}
    - name: v1
      served: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                ttl: {type: integer}
                maybe: {type: object, nullable: true, properties: {a: {type: string}}}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true}
                labels: {type: object, additionalProperties: {type: string}}
                stages: {type: array, items: {type: object, properties: {name: {type: string}}}}
                deep: {type: object, properties: {a: {type: object, properties: {b: {type: object, properties: {c: {type: object, properties: {d: {type: object, properties: {e: {type: object}}}}}}}}}}}
status: {conditions: [{type: Established, status: "True"}]}
`

func readDefinition(t *testing.T, text string, change func(map[string]any)) Definition {
	t.Helper()
	object := map[string]any{}
	must(t, yaml.Unmarshal([]byte(text), &object))
	if change != nil {
		change(object)
	}
	return DefinitionOf(object)
}

func TestSchemaKnowsFields(t *testing.T) {
	definition := readDefinition(t, definitionText, nil)
	if definition.Kind.String() != "Render.example.com" || definition.Resource != "renders" || definition.UID != "u" || definition.Generation != 3 {
		t.Errorf("read as %+v", definition)
	}
	schema := definition.Schemas["v1"]
	if len(definition.Schemas) != 1 || schema == nil {
		t.Fatalf("versions %v, want v1 alone: the other is not served", definition.Schemas)
	}
	for path, want := range map[string]bool{
		"spec": true, "spec.ttl": true, "spec.other": false, "status": false, "spec.ttl.below": false, "spec.stages.name": false,
		"spec.stages[*].name": true, "spec.stages[*].other": false, "spec.free.any.thing": true, "spec.labels.any": true,
		"spec.maybe.a": true, "spec.maybe.b": false, "spec.deep.a.b.c.d": true, "spec.deep.a.b.c.d.whatever": true, "spec.deep.a.x": false,
		"spec.ttl[*]": false,
	} {
		if got := schema.Has(fieldpath.MustFieldPath(path)); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
	shapes := map[Shape][]*Schema{
		ShapeObject: {schema, schema.At("spec"), schema.At("spec").At("free"), schema.At("spec").At("stages").At("*")},
		ShapeList:   {schema.At("spec").At("stages")},
		ShapeScalar: {schema.At("spec").At("ttl")},
		ShapeAny:    {nil, schema.At("spec").At("maybe"), schema.At("spec").At("free").At("x"), schema.At("spec").At("none").At("below")},
	}
	for want, schemas := range shapes {
		for i, schema := range schemas {
			if got := schema.Shape(); got != want {
				t.Errorf("schema %d of shape %d has shape %d", i, want, got)
			}
		}
	}
}

func TestDefinitionServes(t *testing.T) {
	profile := &Profile{Profile: &policy.Profile{Resource: "renders"}}
	profile.Kind.Group, profile.Kind.Version, profile.Kind.Kind = "example.com", "v1", "Render"
	for name, test := range map[string]struct {
		object  func(map[string]any)
		profile func(*policy.Profile)
		want    bool
	}{
		"as it is":        {want: true},
		"not established": {object: func(object map[string]any) { object["status"] = nil }},
		"being deleted": {object: func(object map[string]any) {
			object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}},
		"other version": {profile: func(p *policy.Profile) { p.Kind.Version = "v1alpha1" }},
		"other plural":  {profile: func(p *policy.Profile) { p.Resource = "render" }},
		"other scope":   {profile: func(p *policy.Profile) { p.ClusterScoped = true }},
		"other kind":    {profile: func(p *policy.Profile) { p.Kind.Kind = "Frame" }},
	} {
		t.Run(name, func(t *testing.T) {
			definition, inner := readDefinition(t, definitionText, test.object), *profile.Profile
			if test.profile != nil {
				test.profile(&inner)
			}
			if _, got := definition.Serves(&Profile{Profile: &inner}); got != test.want {
				t.Errorf("served: %t, want %t", got, test.want)
			}
		})
	}
}
