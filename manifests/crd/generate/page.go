package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/wellknown"
)

const preamble = `# Fields of Curfew's kinds

<!-- Made by manifests/crd/generate from policy/v1alpha1: make generate -->

Every field of every kind, with its type, default and limits. ` + "`kubectl explain`" + ` shows the same text. In a path,
` + "`[]`" + ` is an item of a list, and ` + "`{}`" + ` the value of a key. A duration is a string such as ` + "`\"12h\"`" + `:
[values](reference-annotations.md#values). The other pages of the [reference](reference.md) explain how the fields work together.

`

// pagePath is the page, seen from the folder of the definitions.
const pagePath = "../../docs/reference-fields.md"

// page is the reference of the fields of all kinds that a folder defines.
func page(folder string) (string, error) {
	definitions, err := definitions(folder)
	if err != nil {
		return "", err
	}
	examples, err := examples(filepath.Join(folder, "../samples"), filepath.Join(folder, "../profiles"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(preamble)
	for _, definition := range definitions {
		kind := definition.Spec.Names.Kind
		fmt.Fprintf(&out, "- [%s](#%s)\n", kind, strings.ToLower(kind))
	}
	kinds := map[string][]row{}
	for _, definition := range definitions {
		kind, schema := definition.Spec.Names.Kind, definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		scope := map[apiextensionsv1.ResourceScope]string{"Cluster": "Cluster-scoped", "Namespaced": "Namespaced"}[definition.Spec.Scope]
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n%s, short name `%s`.\n", kind, schema.Description, scope, definition.Spec.Names.ShortNames[0])
		if example := examples[kind]; example != "" {
			fmt.Fprintf(&out, "\n```yaml\n%s\n```\n", example)
		}
		all := rows("", schema)
		kinds[kind] = all
		if name, ok := strings.CutPrefix(kind, "Cluster"); ok {
			fmt.Fprintf(&out, "\nIt has the fields of [%s](#%s)", name, strings.ToLower(name))
			all = slices.DeleteFunc(slices.Clone(all), func(r row) bool { return slices.Contains(kinds[name], r) })
			if len(all) == 0 {
				out.WriteString(".\n")
				continue
			}
			out.WriteString(", except these:\n")
		}
		table(&out, all)
	}
	return out.String(), nil
}

// definitions reads a folder in the order of its names. Package crd embeds the files as they were
// before this command wrote them.
func definitions(folder string) (out []*apiextensionsv1.CustomResourceDefinition, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "curfew.dev_*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the definitions: %w", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the definitions: %w", err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, definition)
	}
	return out, nil
}

func table(out *strings.Builder, all []row) {
	out.WriteString("\n| field | type | default | limits | meaning |\n|---|---|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s |\n", r.path, r.kind, r.def, r.limits, r.text)
	}
}

// row is one field.
type row struct{ path, kind, def, limits, text string }

const kubernetes = "https://kubernetes.io/docs/"

// known are types of Kubernetes, whose own fields are left out.
var known = map[string]sets.Set[string]{
	"[label selector](" + kubernetes + "concepts/overview/working-with-objects/labels/#label-selectors)": sets.New(
		"matchLabels", "matchExpressions"),
	"[condition](" + kubernetes + "reference/kubernetes-api/common-definitions/condition-v1/)": sets.New(
		"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"),
}

const duration = `[0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+`

// patterns have names where their expression is long.
var patterns = map[string]string{
	"^(" + duration + ")$":                                         "a duration",
	"^(never|" + duration + ")$":                                   "a duration or `never`",
	"^(" + duration + `|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{6}Z)?)$`: "a duration, date or time",
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`:                              "lower case letters, digits and dashes",
	`^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$`:                        "a name in lower case, or `*`",
	`^\.?[^\s.\[\]*]+(\[\*\])?(\.[^\s.\[\]*]+(\[\*\])?)*$`:         "a path such as `spec.jobs[*].template`",
}

// rows are the fields below an object, in the order of their paths; spec before status.
func rows(path string, schema *apiextensionsv1.JSONSchemaProps) (out []row) {
	required := sets.New(schema.Required...)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field, label := schema.Properties[name], name
		if path != "" {
			label = path + "." + name
		} else if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue
		}
		r := row{path: label, kind: typeOf(&field), limits: cell(strings.Join(limits(&field), ". ")), text: cell(field.Description)}
		switch {
		case field.Default != nil:
			r.def = "`" + cell(string(field.Default.Raw)) + "`"
		case required.Has(name):
			r.def = "required"
		}
		out = append(out, r)
		below, label := items(&field, label)
		if name := standard(below); name == "" {
			out = append(out, rows(label, below)...)
		}
	}
	return out
}

// items follows lists and maps down to the schema of one item, and to its path.
func items(field *apiextensionsv1.JSONSchemaProps, label string) (*apiextensionsv1.JSONSchemaProps, string) {
	switch {
	case field.Items != nil:
		return items(field.Items.Schema, label+"[]")
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return items(field.AdditionalProperties.Schema, label+"{}")
	}
	return field, label
}

// standard is the name of a type of Kubernetes, or empty.
func standard(schema *apiextensionsv1.JSONSchemaProps) string {
	for name, fields := range known {
		if sets.KeySet(schema.Properties).Equal(fields) {
			return name
		}
	}
	return ""
}

func typeOf(field *apiextensionsv1.JSONSchemaProps) string {
	name := field.Type
	switch {
	case len(field.Enum) > 0:
		var values []string
		for _, value := range field.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		return strings.Join(values, ", ")
	case field.Items != nil:
		return "list of " + typeOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(field.AdditionalProperties.Schema)
	case standard(field) != "":
		return standard(field)
	case field.XIntOrString:
		return "string"
	case field.Format == "date-time":
		return "time"
	case name == "":
		return "any"
	}
	return name
}

// limits are the validations of a field, in words.
func limits(field *apiextensionsv1.JSONSchemaProps) (out []string) {
	between := func(low, high *int64, unit string) {
		switch {
		case low != nil && high != nil && *low != 0:
			out = append(out, fmt.Sprintf("%d to %d%s", *low, *high, unit))
		case high != nil:
			out = append(out, fmt.Sprintf("at most %d%s", *high, unit))
		case low != nil:
			out = append(out, fmt.Sprintf("at least %d%s", *low, unit))
		}
	}
	if field.Minimum != nil && field.Maximum != nil {
		out = append(out, fmt.Sprintf("%.0f to %.0f", *field.Minimum, *field.Maximum))
	} else if field.Minimum != nil {
		out = append(out, fmt.Sprintf("at least %.0f", *field.Minimum))
	}
	between(field.MinLength, field.MaxLength, " characters")
	between(field.MinItems, field.MaxItems, " items")
	between(field.MinProperties, field.MaxProperties, " of its fields")
	if name := patterns[field.Pattern]; name != "" {
		out = append(out, name)
	} else if field.Pattern != "" {
		out = append(out, "`"+field.Pattern+"`")
	}
	for _, rule := range field.XValidations {
		if rule.Message != "" {
			out = append(out, rule.Message)
		} else if rule.MessageExpression != "" && !field.XIntOrString {
			out = append(out, "`"+strings.Join(strings.Fields(rule.Rule), " ")+"`")
		}
	}
	if field.Items != nil {
		for _, limit := range limits(field.Items.Schema) {
			out = append(out, "Each: "+limit)
		}
	}
	return out
}

// cell is text on one line of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// examples are the last manifest of each kind in some folders, without the comments above it.
func examples(folders ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("listing the examples: %w", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("reading the examples: %w", err)
			}
			for _, document := range strings.Split(string(text), "\n---") {
				_, document, ours := strings.Cut("\n"+document, "\napiVersion: "+wellknown.Group+"/")
				_, kind, _ := strings.Cut(document, "\nkind: ")
				kind, _, _ = strings.Cut(kind, "\n")
				if ours {
					out[kind] = "apiVersion: " + wellknown.Group + "/" + strings.TrimSpace(document)
				}
			}
		}
	}
	return out, nil
}
