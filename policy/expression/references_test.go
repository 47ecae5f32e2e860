package expression_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A reference that cannot be used is an error with the field, the value and the fix: one whose path
// leads nowhere would be found missing only when the object that it should keep is deleted.
func TestReferencesOfProfiles(t *testing.T) {
	definition := expression.DefinitionOf(map[string]any{
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "A", "plural": "as"}, "versions": []any{map[string]any{
			"name": "v1", "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": map[string]any{
					"of": map[string]any{"type": "string"},
					"refs": map[string]any{"type": "array", "items": map[string]any{"type": "object", "properties": map[string]any{
						"name": map[string]any{"type": "string"}, "namespace": map[string]any{"type": "string"},
					}}},
				}},
			}}}},
		}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
	const where = "spec.references[0]."
	const fix = "is no field of A.example.com in version v1: correct the path, with [*] after each list, or remove the reference"
	for name, c := range map[string]struct{ reference, want string }{
		"a field":                   {"{path: spec.of, kind: {kind: Secret}}", ""},
		"items of a list":           {"{path: 'spec.refs[*].name', namespacePath: 'spec.refs[*].namespace', kind: {kind: Secret}}", ""},
		"one namespace for a list":  {"{path: 'spec.refs[*].name', namespacePath: spec.of, kind: {kind: Secret}}", ""},
		"no such field":             {"{path: spec.off, kind: {kind: Secret}}", where + `path: Invalid value: "spec.off": ` + fix},
		"a list without [*]":        {"{path: spec.refs.name, kind: {kind: Secret}}", where + `path: Invalid value: "spec.refs.name": ` + fix},
		"no such namespace":         {"{path: spec.of, namespacePath: spec.in, kind: {kind: Secret}}", where + `namespacePath: Invalid value: "spec.in": ` + fix},
		"namespaces of a list":      {"{path: spec.of, namespacePath: 'spec.refs[*].namespace', kind: {kind: Secret}}", where + `namespacePath: Invalid value: "spec.refs[*].namespace": goes through spec.refs[*], and path does not: name a field beside the one that path leads to`},
		"any kind":                  {"{path: spec.of, kind: {kind: '*'}}", where + `kind: Invalid value: "*": name one group and one kind`},
		"no path":                   {"{path: 'spec..of', kind: {kind: Secret}}", where + `path: Invalid value: "spec..of": "spec..of" is not a field path: "" is neither a name nor a name followed by [*]`},
		"another version is served": {"{path: spec.off, kind: {kind: Secret}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			version := "v1"
			if strings.HasPrefix(name, "another") {
				version = "v2"
			}
			object := &v1alpha1.KindProfile{}
			text := "{metadata: {name: a}, spec: {kind: {group: example.com, version: " + version + ", kind: A, resource: as}, references: [" + c.reference + "]}}"
			must(t, yaml.Unmarshal([]byte(text), object))
			compiled, errs := expression.NewCompiler(expression.DefaultCacheSize).UserProfile(object)
			if unknown := compiled.Missing(nil); len(unknown) > 0 {
				t.Errorf("without a definition: %v", unknown)
			}
			errs = append(errs, compiled.Missing(&definition)...)
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if usable := len(compiled.References) == 1; usable != (c.want == "" || strings.Contains(c.want, "is no field of")) {
				t.Errorf("usable: %v", usable)
			}
		})
	}
}
