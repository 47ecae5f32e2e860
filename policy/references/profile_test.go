package references

import (
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
	at := func(kind schema.GroupKind, path, namespace string) policy.Reference {
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
		"a label":                         {at(secret, "metadata.labels.of", ""), deployment, object("of: settings"), "ci Secret settings"},
		"of another kind of object":       {at(secret, "metadata.labels.of", ""), custom, object("of: settings"), ""},
		"another label":                   {at(secret, "metadata.labels.of", ""), deployment, object("other: settings"), ""},
		"another name":                    {at(secret, "metadata.labels.of", ""), deployment, object("of: setting"), ""},
		"a namespace beside it":           {at(secret, "metadata.labels.of", "metadata.labels.in"), deployment, object("of: settings, in: dev"), "dev Secret settings"},
		"no namespace beside it":          {at(secret, "metadata.labels.of", "metadata.labels.in"), deployment, object("of: settings"), "ci Secret settings"},
		"a namespace and a name":          {at(secret, "metadata.labels.of", ""), deployment, object("of: dev/settings"), "dev Secret settings"},
		"a list with namespaces":          {at(role, "spec.roles[*].name", "spec.roles[*].in"), custom, list, "ci Role Team:b, dev Role Team:a"},
		"a list in the object's own":      {at(role, "spec.roles[*].name", ""), custom, list, "ci Role Team:a, ci Role Team:b"},
		"a cluster-scoped object":         {at(role, "spec.roles[*].name", ""), custom, strings.Replace(list, "namespace: ci, ", "", 1), "ci Role Team:a, ci Role Team:b, dev Role Team:a, dev Role Team:b"},
		"a path that is not in an object": {at(role, "spec.roles.name", ""), custom, list, ""},
	} {
		t.Run(name, func(t *testing.T) {
			candidates := NewCandidates()
			candidates.Fields = map[schema.GroupKind][]policy.Reference{c.kind: {c.field}}
			var all []target
			for _, in := range []string{"ci", "dev"} {
				all = append(all, target{secret, in, "settings"}, target{schema.GroupKind{Kind: "ConfigMap"}, in, "settings"}, target{role, in, "Team:a"}, target{role, in, "Team:b"})
			}
			for _, one := range all {
				if err := candidates.Add(one.kind, one.namespace, one.name); err != nil {
					t.Fatal(err)
				}
			}
			candidates.Scan(read(t, c.object))
			var got []string
			for _, one := range all {
				if used, _ := candidates.Referenced(one.kind, one.namespace, one.name); used {
					got = append(got, one.namespace+" "+one.kind.Kind+" "+one.name)
				}
			}
			slices.Sort(got)
			if strings.Join(got, ", ") != c.want {
				t.Errorf("uses %q, want %q", got, c.want)
			}
		})
	}
}
