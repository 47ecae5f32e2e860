package references

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
)

// A field that a KindProfile names counts where the search for names finds nothing: in a label of a
// built-in kind, and for a role whose name has characters that are in no other name. It counts for
// its kind alone, in the namespace that is beside it.
func TestFieldsOfProfiles(t *testing.T) {
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	object := func(labels string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: d, labels: {" + labels + "}}}"
	}
	reference := func(kind schema.GroupKind, path, namespace string) policy.Reference {
		return policy.Reference{Kind: kind, Path: fieldpath.MustFieldPath(path), Namespace: fieldpath.MustFieldPath(namespace)}
	}
	secret, role := schema.GroupKind{Kind: "Secret"}, schema.GroupKind{Group: rbac, Kind: "Role"}
	custom := schema.GroupKind{Group: "example.com", Kind: "Any"}
	list := "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {roles: [{name: 'Team:a', in: dev}, {name: 'Team:b'}, {name: 3}, Team]}}"
	for name, c := range map[string]struct {
		field        policy.Reference
		kind         schema.GroupKind
		object, want string
	}{
		"no field":                        {policy.Reference{}, custom, object("of: settings"), ""},
		"a label":                         {reference(secret, "metadata.labels.of", ""), deployment, object("of: settings"), "ci Secret settings"},
		"of another kind of object":       {reference(secret, "metadata.labels.of", ""), custom, object("of: settings"), ""},
		"another label":                   {reference(secret, "metadata.labels.of", ""), deployment, object("other: settings"), ""},
		"another name":                    {reference(secret, "metadata.labels.of", ""), deployment, object("of: setting"), ""},
		"a namespace beside it":           {reference(secret, "metadata.labels.of", "metadata.labels.in"), deployment, object("of: settings, in: dev"), "dev Secret settings"},
		"no namespace beside it":          {reference(secret, "metadata.labels.of", "metadata.labels.in"), deployment, object("of: settings"), "ci Secret settings"},
		"a namespace and a name":          {reference(secret, "metadata.labels.of", ""), deployment, object("of: dev/settings"), "dev Secret settings"},
		"a list with namespaces":          {reference(role, "spec.roles[*].name", "spec.roles[*].in"), custom, list, "ci Role Team:b, dev Role Team:a"},
		"a list in the object's own":      {reference(role, "spec.roles[*].name", ""), custom, list, "ci Role Team:a, ci Role Team:b"},
		"a cluster-scoped object":         {reference(role, "spec.roles[*].name", ""), custom, strings.Replace(list, "namespace: ci, ", "", 1), "ci Role Team:a, ci Role Team:b, dev Role Team:a, dev Role Team:b"},
		"a path that is not in an object": {reference(role, "spec.roles.name", ""), custom, list, ""},
	} {
		t.Run(name, func(t *testing.T) {
			candidates := NewCandidates()
			candidates.Fields = map[schema.GroupKind][]policy.Reference{c.kind: {c.field}}
			var all []target
			for _, text := range []string{"ci", "dev"} {
				all = append(all, target{secret, text, "settings"}, target{schema.GroupKind{Kind: "ConfigMap"}, text, "settings"}, target{role, text, "Team:a"}, target{role, text, "Team:b"})
			}
			for _, target := range all {
				must(t, candidates.Add(target.kind, target.namespace, target.name, nil))
			}
			candidates.Scan(read(t, c.object))
			var got []string
			for _, target := range all {
				if used, _ := candidates.Referenced(target.kind, target.namespace, target.name, nil); used {
					got = append(got, target.namespace+" "+target.kind.Kind+" "+target.name)
				}
			}
			slices.Sort(got)
			if strings.Join(got, ", ") != c.want {
				t.Errorf("uses %q, want %q", got, c.want)
			}
		})
	}
}

// runner refers to other objects by the fields of its KindProfile.
const runner = "{apiVersion: example.com/v1, kind: Runner, metadata: {namespace: ci, name: r}, spec: {%s}}"

// runnerFields are references of the KindProfile.
func runnerFields() map[schema.GroupKind][]policy.Reference {
	reference := func(kind schema.GroupKind, path, namespace string) policy.Reference {
		return policy.Reference{Kind: kind, Path: fieldpath.MustFieldPath(path), Namespace: fieldpath.MustFieldPath(namespace)}
	}
	secret, class := schema.GroupKind{Kind: "Secret"}, schema.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"}
	return map[schema.GroupKind][]policy.Reference{{Group: "example.com", Kind: "Runner"}: {reference(secret, "spec.secrets[*].name", "spec.secrets[*].in"), reference(secret, "spec.key", ""), reference(class, "spec.class", "")}}
}

// An object dangles if one of the fields of its KindProfile names nothing: an object of another
// kind, namespace or name does not count. A text that is no name, a kind that was not listed, and
// more references than an object may have are unknown.
func TestDanglingByProfile(t *testing.T) {
	many := func(n int) string { return "secrets: [" + strings.Repeat("{name: a}, ", n) + "]" }
	for spec, want := range map[string]string{
		"key: a":                 "false",
		"key: ''":                "false",
		"key: 3":                 "false",
		"other: nothing":         "false",
		"key: nothing":           "true",
		"key: b":                 "true", // a ConfigMap
		"key: c":                 "true", // in another namespace
		"key: dev/c":             "false",
		"key: dev/a":             "true",
		"class: gvisor":          "false", // cluster-scoped
		"class: a":               "true",  // a Secret
		"key: a, class: nothing": "true",
		"secrets: [{name: a}, {name: c, in: dev}]":    "false",
		"secrets: [{name: a}, {name: c}]":             "true",
		"secrets: [{name: a}, {name: a, in: dev}]":    "true",
		"secrets: [{name: a}, {name: c, in: {x: y}}]": "false", // in any namespace
		"secrets: {name: nothing}":                    "false",
		"key: '{{workflow.name}}-data'":               "unknown",
		"key: dev/a/b":                                "unknown",
		"key: " + strings.Repeat("a", 600):            "unknown",
		"key: nothing, secrets: [{name: '$(NAME)'}]":  "unknown",
		many(maxTargets):                              "false",
		many(maxTargets + 1):                          "unknown",
		"key: nothing, " + many(10_000):               "unknown",
	} {
		kind, values := read(t, strings.ReplaceAll(runner, "%s", spec))
		_, everywhere := read(t, strings.ReplaceAll(strings.Replace(runner, "namespace: ci, ", "", 1), "%s", spec))
		for listed, known := range map[string]bool{"Secret": true, "ConfigMap": false} {
			c := NewCandidates()
			c.Fields = runnerFields()
			for _, m := range []map[string]any{values, everywhere} {
				must(t, c.AddReferring(kind, m))
			}
			if n := len(c.targets.exists); n > 4*maxTargets {
				t.Fatalf("%.40s: holds %d targets", spec, n)
			}
			for _, name := range []string{"Secret, metadata: {namespace: ci, name: a}", "ConfigMap, metadata: {namespace: ci, name: b}", "Secret, metadata: {namespace: dev, name: c}"} {
				c.Scan(read(t, "{apiVersion: v1, kind: "+name+"}"))
			}
			c.Scan(read(t, "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}}"))
			c.Listed(schema.GroupKind{Kind: listed})
			c.Listed(schema.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"})
			got := answer(c.Dangling(kind, values))
			if refers := strings.Contains(spec, "key: ") || strings.Contains(spec, "secrets: ["); !known && refers && spec != "key: ''" && spec != "key: 3" {
				if got != "unknown" {
					t.Errorf("%.40s: Secrets are not listed, and it dangles: %s", spec, got)
				}
			} else if got != want {
				t.Errorf("%.40s: %s, want %s", spec, got, want)
			}
			// A cluster-scoped object may mean any namespace.
			inAny := map[string]string{"key: c": "false", "secrets: [{name: a}, {name: c}]": "false"}[spec]
			if got := answer(c.Dangling(kind, everywhere)); known && got != cmp.Or(inAny, want) {
				t.Errorf("%.40s, cluster-scoped: %s, want %s", spec, got, cmp.Or(inAny, want))
			}
		}
	}
	c := NewCandidates() // No KindProfile says what the kind refers to.
	kind, fields := read(t, strings.ReplaceAll(runner, "%s", "key: nothing"))
	must(t, c.AddReferring(kind, fields))
	c.Listed(schema.GroupKind{Kind: "Secret"})
	if got := answer(c.Dangling(kind, fields)); got != "unknown" {
		t.Errorf("without references: %s", got)
	}
}

// Objects with many references do not use up the memory of a run: the rest is unknown.
func TestTargetsAreBounded(t *testing.T) {
	defer func(max int) { maxCandidates = max }(maxCandidates)
	maxCandidates = 100
	c := NewCandidates()
	c.Fields = runnerFields()
	kind := schema.GroupKind{Group: "example.com", Kind: "Runner"}
	c.Listed(schema.GroupKind{Kind: "Secret"})
	counts := map[string]int{}
	for i := range maxCandidates {
		spec := fmt.Sprintf("secrets: [{name: a-%d}, {name: b-%d}, {name: c-%d}]", i, i, i)
		_, values := read(t, strings.ReplaceAll(runner, "%s", spec))
		must(t, c.AddReferring(kind, values))
		counts[answer(c.Dangling(kind, values))]++
	}
	if n := len(c.targets.exists); n > maxCandidates+6 || counts["true"] != 17 || counts["unknown"] != 83 {
		t.Errorf("%d targets, and dangling: %v", n, counts)
	}
}

func answer(yes bool, err error) string {
	if err != nil {
		return "unknown"
	}
	return fmt.Sprint(yes)
}
