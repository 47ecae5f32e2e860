package requirement

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

var update = flag.Bool("update", false, "add the fields that fields.txt does not list")

// next is the version that the next release has. Raise it after a release.
const next = "v0.1.0"

var kinds = []string{"CleanupPolicy", "ClusterCleanupPolicy", "KindProfile", "LifecyclePolicy", "PodTally"}

// paths lists the fields and values of a schema as fields.txt does.
func paths(n string, schema *apiextensionsv1.JSONSchemaProps) []string {
	out := []string{n}
	for _, value := range schema.Enum {
		out = append(out, n+"="+strings.Trim(string(value.Raw), `"`))
	}
	if schema.AdditionalProperties != nil || schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		out = append(out, n+".*")
	}
	for name, child := range schema.Properties {
		out = append(out, paths(n+"."+name, &child)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		out = append(out, paths(n+"[*]", schema.Items.Schema)...)
	}
	return out
}

// Each field and value that the schemas have is listed, with the version that brought it. -update
// adds new ones.
func TestFieldsAreListed(t *testing.T) {
	definitions, err := crd.All()
	must(t, err)
	table, err := Parse(text)
	must(t, err)
	lines := slices.Collect(strings.Lines(text))
	had := len(lines)
	for _, definition := range definitions {
		kind := definition.Spec.Names.Kind
		if !slices.Contains(kinds, kind) {
			continue
		}
		spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		all := paths("spec", &spec)
		if size := len(strings.Join(all, ", ")); size > 30_000 {
			t.Errorf("a record of all fields of a %s has %d bytes, and the API server accepts messages of 32,768", kind, size)
		}
		for _, path := range all {
			if table.since[kind][path] == nil {
				lines = append(lines, fmt.Sprintf("%s %s %s\n", kind, path, next))
			}
		}
		for path := range table.since[kind] {
			if !slices.Contains(all, path) && !strings.HasSuffix(path, "=") {
				t.Errorf("fields.txt lists %s %s, which the schema does not have", kind, path)
			}
		}
	}
	for _, missing := range lines[had:] {
		if !*update {
			t.Errorf("fields.txt does not list %q: run go test ./policy/requirement -update. If an older Curfew would drop a safeguard with it, that is what the list is for", missing)
		}
	}
	if *update {
		slices.Sort(lines)
		must(t, os.WriteFile("fields.txt", []byte(strings.Join(lines, "")), 0o644))
	}
	for kind := range table.since {
		if !slices.Contains(kinds, kind) {
			t.Errorf("fields.txt lists kind %s", kind)
		}
	}
}

// A table of two versions: the newer one brought a field, a value and a field of an item.
const two = `
CleanupPolicy spec v0.1.0
CleanupPolicy spec.schedule v0.1.0
CleanupPolicy spec.onExceed v0.1.0
CleanupPolicy spec.onExceed=Stall v0.1.0
CleanupPolicy spec.conditions v0.1.0
CleanupPolicy spec.conditions[*] v0.1.0
CleanupPolicy spec.conditions[*].name v0.1.0
CleanupPolicy spec.labels v0.1.0
CleanupPolicy spec.labels.* v0.1.0
`

const newer = `CleanupPolicy spec.onExceed=Ask v0.2.0
CleanupPolicy spec.minAge v0.2.0
CleanupPolicy spec.conditions[*].always v0.10.0
`

func tableOf(t *testing.T, text string) *Table {
	t.Helper()
	out, err := Parse(strings.TrimPrefix(text, "\n"))
	must(t, err)
	return out
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	// As the API server's answers are decoded: whole numbers are int64.
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	must(t, err)
	return out
}

const (
	plain  = "metadata: {generation: 3}\nspec: {schedule: '@daily', onExceed: Stall, conditions: [{name: one}], labels: {any: x}}\n"
	recent = "metadata: {generation: 3}\nspec: {schedule: '@daily', onExceed: Ask, minAge: 1h, conditions: [{name: one, always: true}], labels: {any: x}}\n"
	status = "status: {conditions: [{type: Ready, status: 'False'}, {type: Requires, status: 'True', observedGeneration: %d, message: %q}]}\n"
)

func TestUnmet(t *testing.T) {
	recorded := func(text string, generation int, message string) string {
		return text + fmt.Sprintf(status, generation, message)
	}
	for name, c := range map[string]struct {
		table, object string
		want          []string
	}{
		"old object":                     {two, plain, nil},
		"old object, newer version":      {two + newer, plain, nil},
		"new object, newer version":      {two + newer, recent, nil},
		"new object, older version":      {two, recent, []string{"spec.conditions[*].always", "spec.minAge", "spec.onExceed=Ask"}},
		"the older CRD has dropped it":   {two, recorded(plain, 3, "v0.2.0: spec.minAge, spec.onExceed=Ask"), []string{"spec.minAge", "spec.onExceed=Ask"}},
		"both":                           {two, recorded(recent, 3, "v0.2.0: spec.minAge"), []string{"spec.conditions[*].always", "spec.minAge", "spec.onExceed=Ask"}},
		"dropped, and upgraded again":    {two + newer, recorded(plain, 3, "v0.2.0: spec.minAge"), []string{"spec.minAge"}},
		"it is there":                    {two + newer, recorded(recent, 3, "v0.10.0: spec.minAge, spec.onExceed=Ask"), nil},
		"another meaning of a field":     {two, recorded(plain, 3, "v0.2.0: spec.schedule"), []string{"spec.schedule"}},
		"the spec was changed since":     {two + newer, recorded(plain, 2, "v0.2.0: spec.minAge"), nil},
		"changed under an older version": {two, recorded(plain, 2, "v0.2.0: spec.minAge"), []string{"spec.minAge"}},
		"many fields":                    {two + newer, recorded(recent, 3, "v0.10.0: spec.minAge"+strings.Repeat(", spec.minAge", 100)), nil},
		"an unreadable record":           {two + newer, recorded(plain, 3, "soon"), []string{"status.conditions"}},
		"an unreadable version":          {two + newer, recorded(plain, 3, "soon: spec.minAge"), []string{"status.conditions"}},
		"an empty record":                {two + newer, recorded(plain, 3, ""), []string{"status.conditions"}},
		"a record of no fields":          {two + newer, recorded(plain, 3, "v0.2.0: "), []string{"status.conditions"}},
		"a table that could not be read": {"", plain, []string{"spec"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := tableOf(t, c.table).Unmet("CleanupPolicy", object(t, c.object))
			var got []string
			for _, err := range errs {
				got = append(got, err.Field)
				if err.Origin != Origin || !strings.Contains(err.Detail, "upgrade Curfew") && !strings.Contains(err.Detail, "apply the object again") {
					t.Errorf("%+v does not name the fix", err)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The record names what an older version lacks, is written once, and says when it applies no more.
// An older version does not touch it.
func TestRecord(t *testing.T) {
	table := tableOf(t, two+newer)
	if got := table.Record("CleanupPolicy", object(t, plain)); got != nil {
		t.Errorf("an object that every version knows: %+v", got)
	}
	wrote := table.Record("CleanupPolicy", object(t, recent))
	const message = "v0.10.0: spec.conditions[*].always, spec.minAge, spec.onExceed=Ask"
	if wrote == nil || wrote.Status != metav1.ConditionTrue || wrote.Message != message || wrote.ObservedGeneration != 3 {
		t.Fatalf("%+v", wrote)
	}
	same := object(t, recent+fmt.Sprintf(status, 3, message))
	if got := table.Record("CleanupPolicy", same); got != nil {
		t.Errorf("written again: %+v", got)
	}
	if got := tableOf(t, two).Record("CleanupPolicy", object(t, plain+fmt.Sprintf(status, 3, message))); got != nil {
		t.Errorf("an older version wrote %+v", got)
	}
	edited := object(t, plain+fmt.Sprintf(status, 2, message))
	if got := tableOf(t, two).Record("CleanupPolicy", edited); got == nil || got.Message != message || got.ObservedGeneration != 3 {
		t.Errorf("after an edit an older version wrote %+v, so that the newer one would not notice the loss", got)
	}
	if got := table.Record("CleanupPolicy", edited); got == nil || got.Status != metav1.ConditionFalse {
		t.Errorf("the spec has no such field any more: %+v", got)
	}
	// The record that is written can be read.
	status := v1alpha1.CleanupPolicyStatus{}
	meta.SetStatusCondition((*[]metav1.Condition)(&status.Conditions), *wrote)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.CleanupPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: status})
	must(t, err)
	content["spec"] = object(t, plain)["spec"]
	if errs := table.Unmet("CleanupPolicy", content); len(errs) != 3 {
		t.Errorf("three fields are lost: %v", errs)
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"CleanupPolicy spec\n", "CleanupPolicy spec soon\n", "\n"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

var must = builders.Must
