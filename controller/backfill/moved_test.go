package backfill

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/wellknown"
)

// An object that changes between its judgement and the patch is judged once more in its newest
// state, in the same round. What its author did meanwhile counts.
func TestObjectThatChanges(t *testing.T) {
	const given = "a=30d by policy/p 30d backfill"
	annotate := func(key, value string) func(*unstructured.Unstructured) {
		return func(object *unstructured.Unstructured) { object.SetAnnotations(map[string]string{key: value}) }
	}
	for name, c := range map[string]struct {
		moves int
		move  func(*unstructured.Unstructured)
		want  []string
		log   string
		later []string // in the next round
	}{
		"another field": {1, annotate("a", "b"), []string{given}, `"given"=1 "moved"=0`, nil},
		"it is labelled": {1, func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{wellknown.LabelTTL: "1h"}) },
			nil, "", nil},
		"it is protected":        {1, annotate(wellknown.AnnotationProtect, "true"), nil, "", nil},
		"its label was removed":  {1, annotate(wellknown.AnnotationLabelSource, "object"), nil, "", nil},
		"its content":            {1, func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"tier": "no"} }, nil, "", nil},
		"it is deleted":          {1, nil, nil, `"moved"=1`, nil},
		"it changes twice":       {2, annotate("a", "b"), nil, `"given"=0 "moved"=1`, []string{given}},
		"it changes three times": {3, annotate("a", "b"), nil, `"given"=0 "moved"=1`, []string{given}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.policy("p", `{match: {kinds: [{kind: ConfigMap}], matchConditions: [{name: a, expression: "object.data.tier != 'no'"}]}, defaults: {ttlLabel: {value: 30d}}}`)
				w.add("ci", "a", time.Minute, "")
				w.moves, w.move = c.moves, c.move
				w.begin()
				w.expect(c.want...)
				if !strings.Contains(w.log.String(), c.log) || c.log == "" && w.log.Len() > 0 {
					t.Errorf("logged:\n%s\nwant %s", w.log.String(), c.log)
				}
				w.untilTheNextRound()
				w.expect(c.later...)
			})
		})
	}
}

// What names another controller gets no label. Kinds that cannot name one are not read whole.
func TestManagedObjects(t *testing.T) {
	fields := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": map[string]any{"managedBy": map[string]any{"type": "string"}}}}}
	definition := func(schema map[string]any) []expression.Definition {
		return []expression.Definition{expression.DefinitionOf(map[string]any{
			"spec": map[string]any{"group": "", "scope": "Namespaced", "names": map[string]any{"kind": "ConfigMap", "plural": "configmaps"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "schema": map[string]any{"openAPIV3Schema": schema}}}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
		})}
	}
	const other, own = "other=30d by policy/p 30d backfill", "own=30d by policy/p 30d backfill"
	for name, c := range map[string]struct {
		definitions []expression.Definition
		aggregated  bool
		want        []string
		reads       int
	}{
		"a custom kind with the field":     {definition(fields), false, []string{own}, 2},
		"a custom kind without a schema":   {definition(nil), false, []string{own}, 2},
		"a custom kind without the field":  {definition(map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object"}}}), false, []string{other, own}, 0},
		"another API server's":             {nil, true, []string{own}, 2},
		"a built-in kind, without a field": {nil, false, []string{other, own}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.policy("p", "{"+namesConfigMaps+"}")
				w.definitions = c.definitions
				kind := configMaps
				kind.Aggregated = c.aggregated
				w.options.Places = func() ([]discovery.Place, bool) {
					return []discovery.Place{{Kind: kind, Namespaces: []string{metav1.NamespaceAll}}}, true
				}
				w.add("ci", "other", time.Minute, "")
				w.add("ci", "own", time.Minute, "")
				w.objects[0].Object["spec"] = map[string]any{"managedBy": "example.com/another"}
				w.begin()
				w.expect(c.want...)
				if len(w.reads) != c.reads {
					t.Errorf("read %q whole, want %d", w.reads, c.reads)
				}
			})
		})
	}
}
