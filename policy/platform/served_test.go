package platform_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Runs refer to Recipes, which have no profile, and hold templates of Jobs.
const runs = `
metadata: {name: runs}
spec:
  kind: {group: example.com, version: v1, kind: Run, resource: runs}
  state: {finished: "false", finishTime: "null", outcome: "'Failed'"}
  fields: {ttl: spec.ttl, deadline: spec.deadline}
  templates: [{path: spec.template, kind: {group: batch, kind: Job}}]
  deadline: {enforcement: [{ifServed: spec.deadline, by: Controller}, {by: Curfew, stop: [{action: MarkFailed}]}]}
  runtime:
    reference: {name: spec.recipe, defaultKind: Recipe}
    kinds: [{group: example.com, version: v1, kind: Recipe, resource: recipes, ttl: [spec.keep, spec.old.keep], deadline: [spec.limit]}]
`

const jobs = `
metadata: {name: jobs}
spec:
  kind: {group: batch, version: v1, kind: Job, resource: jobs}
  state: {finished: "false", finishTime: "null", outcome: "'Failed'"}
  fields: {ttl: spec.ttlSecondsAfterFinished}
`

func compileAll(t *testing.T, texts ...string) []*expression.Profile {
	t.Helper()
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	var out []*expression.Profile
	for _, text := range texts {
		object := &v1alpha1.KindProfile{}
		must(t, yaml.UnmarshalStrict([]byte(text), object))
		profile, errs := compiler.Profile(object)
		must(t, errs.ToAggregate())
		out = append(out, profile)
	}
	return out
}

// TestServed: each kind that is served and has a profile, or is referred to by one that has, once,
// as its installed version is.
func TestServed(t *testing.T) {
	serve := func(kind, resource string, fields ...string) expression.Definition {
		return served("example.com", "v1", kind, resource, fields...)
	}
	profiles := compileAll(t, runs, jobs)
	for name, test := range map[string]struct {
		definitions []expression.Definition
		want        string
	}{
		"nothing":                           {},
		"without a profile":                 {definitions: []expression.Definition{serve("Other", "others")}},
		"the runtimes alone":                {definitions: []expression.Definition{serve("Recipe", "recipes", "keep")}},
		"a version with some of the fields": {definitions: []expression.Definition{serve("Run", "runs", "ttl", "template")}, want: "runs ttl=spec.ttl deadline= annotated=true templates=1 runtime=[] []"},
		"with its runtimes": {
			definitions: []expression.Definition{serve("Run", "runs", "deadline"), serve("Recipe", "recipes", "keep")},
			want:        "recipes ttl= deadline= annotated=false templates=0 runtime=[spec.keep] []; runs ttl= deadline=spec.deadline annotated=false templates=1 runtime=[] []",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, each := range platform.SnapshotOf(profiles, test.definitions).Served() {
				got = append(got, fmt.Sprintf("%s ttl=%s deadline=%s annotated=%t templates=%d runtime=%v %v",
					each.Resource, each.Profile.TTL, each.Profile.Deadline, each.AnnotatedDeadline, len(each.Templates), each.TTL, each.Deadline))
			}
			if have := strings.Join(got, "; "); have != test.want {
				t.Errorf("served:\n%s\nwant:\n%s", have, test.want)
			}
		})
	}
	if profiles[0].TTL == nil || profiles[0].Templates != nil {
		t.Error("the profiles themselves were changed")
	}
}

// served is a kind whose CustomResourceDefinition serves these fields in its spec.
func served(group, version, kind, resource string, fields ...string) expression.Definition {
	spec := map[string]any{}
	for _, field := range fields {
		spec[field] = map[string]any{"type": "integer"}
	}
	return expression.DefinitionOf(map[string]any{
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": resource},
			"versions": []any{map[string]any{"name": version, "served": true, "subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"properties": map[string]any{"spec": map[string]any{"properties": spec}},
			}}}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
}
