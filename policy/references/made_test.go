package references

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Operators put names together from the name of their own object. Kubernetes' own controllers do
// not.
func TestNamesThatOperatorsPutTogether(t *testing.T) {
	names := []string{"db", "db-credentials", "db-a-b", "dbs-credentials", "creds-of-db", "db2-config", "conf-mydb", "zz-db", "a-db-z", "db.a", "a.db", "a.db-z", "a--db"}
	of := []string{"db", "db-credentials", "db-a-b", "creds-of-db", "zz-db", "a-db-z", "db.a", "a.db", "a.db-z", "a--db"}
	for name, c := range map[string]struct {
		group, namespace, name string
		want                   []string
	}{
		"a custom kind":                  {"example.com", "ci", "db", of},
		"a longer name":                  {"example.com", "ci", "db-a", []string{"db-a-b"}},
		"a name with a dot":              {"example.com", "ci", "a.db", []string{"db", "a.db", "a.db-z"}},
		"a longer name than all":         {"example.com", "ci", "db-credentials-of-a", nil},
		"elsewhere":                      {"example.com", "prod", "db", []string{"db"}},
		"a cluster-scoped custom kind":   {"example.com", "", "db", of},
		"a cluster-scoped built-in kind": {"rbac.authorization.k8s.io", "", "db", nil},
		"a built-in kind":                {"apps", "ci", "db", nil},
	} {
		t.Run(name, func(t *testing.T) {
			all := candidates(t, schema.GroupKind{Kind: "Secret"}, "ci", names...)
			all.Scan(schema.GroupKind{Group: c.group, Kind: "Database"}, nothingBut(c.namespace, c.name))
			if got := all.used(t, schema.GroupKind{Kind: "Secret"}, "ci", names...); !slices.Equal(got, c.want) {
				t.Errorf("uses %q, want %q", got, c.want)
			}
		})
	}
}

// A cluster-scoped candidate may be made from the name of an object in any namespace, and a claim
// from a StatefulSet of its own. Neither says anything about other candidates.
func TestNamesThatAreMadeElsewhere(t *testing.T) {
	class, claim := schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, schema.GroupKind{Kind: claimKind}
	custom, set := schema.GroupKind{Group: "example.com", Kind: "Pool"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	names := []string{"a-db-0", "a-db", "db-0"}
	for name, c := range map[string]struct {
		kind, of      schema.GroupKind
		namespace, in string // of the object, and of the candidates
		want          []string
	}{
		"a class by an object of any namespace": {custom, class, "rook", "", names},
		"a class by a cluster-scoped object":    {custom, class, "", "", names},
		"a claim by an object":                  {custom, claim, "ci", "ci", names},
		"a claim by an object elsewhere":        {custom, claim, "rook", "ci", nil},
		"a claim by a StatefulSet":              {set, claim, "ci", "ci", names[:1]},
		"a claim by a StatefulSet elsewhere":    {set, claim, "rook", "ci", nil},
		"a class by a StatefulSet":              {set, class, "ci", "", nil},
		"a Secret by a StatefulSet":             {set, schema.GroupKind{Kind: "Secret"}, "ci", "ci", nil},
	} {
		all := candidates(t, c.of, c.in, names...)
		if err := all.Add(class, "", "other", nil); err != nil {
			t.Fatal(err)
		}
		all.Scan(c.kind, nothingBut(c.namespace, "db"))
		if got := all.used(t, c.of, c.in, names...); !slices.Equal(got, c.want) {
			t.Errorf("%s: uses %q, want %q", name, got, c.want)
		}
	}
}

// A StatefulSet and an operator's object of the same name do not hide each other.
func TestTwoObjectsOfOneName(t *testing.T) {
	custom, set := schema.GroupKind{Group: "example.com", Kind: "Pool"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	for _, order := range [][]schema.GroupKind{{custom, set}, {set, custom}} {
		all := candidates(t, schema.GroupKind{Kind: "Secret"}, "ci", "db-a")
		for _, kind := range order {
			all.Scan(kind, nothingBut("ci", "db"))
		}
		if got := all.used(t, schema.GroupKind{Kind: "Secret"}, "ci", "db-a"); len(got) != 1 {
			t.Errorf("%v: the Secret is unused", order)
		}
	}
}

// A tenant may choose the names: one of many parts is no candidate, so that none takes long.
func TestNamesOfManyParts(t *testing.T) {
	kind := schema.GroupKind{Kind: "Secret"}
	most, more := strings.Repeat("a-", maxSeparators)+"a", strings.Repeat("a-", maxSeparators+1)+"a"
	all := candidates(t, kind, "ci", most, more, strings.Repeat("a.", 3)+strings.Repeat("a-", maxSeparators-3)+"b", strings.Repeat("a.", 3)+strings.Repeat("a-", maxSeparators-2)+"b")
	if len(all.at) != 2 {
		t.Errorf("%d are candidates, want 2", len(all.at))
	}
	if _, err := all.Referenced(kind, "ci", more); err == nil {
		t.Error("a name of too many parts has an answer")
	}
	lookups := 0
	for range parts(most) {
		lookups++
	}
	if want := (maxSeparators + 1) * (maxSeparators + 2) / 2; lookups != want {
		t.Errorf("%d names may be part of it, want %d", lookups, want)
	}
	all.Scan(schema.GroupKind{Group: "example.com", Kind: "Any"}, nothingBut("ci", "a-a-a"))
	if got := all.used(t, kind, "ci", most); len(got) != 1 {
		t.Error("a part of it is not found")
	}
}

// Their number is limited, and beyond it nothing is unused.
func TestTooManyNamesThatOthersAreMadeFrom(t *testing.T) {
	before := maxMade
	maxMade = 2
	defer func() { maxMade = before }()
	kind := schema.GroupKind{Kind: "Secret"}
	all := candidates(t, kind, "ci", "db-a", "o1-a")
	for i, unknown := range []bool{false, true, true} {
		all.Scan(schema.GroupKind{Group: "example.com", Kind: "Any"}, nothingBut("ci", fmt.Sprint("o", i)))
		if _, err := all.Referenced(kind, "ci", "db-a"); (err != nil) != unknown {
			t.Errorf("after %d objects: %v", i+1, err)
		}
	}
	if got := all.used(t, kind, "ci", "o1-a"); len(got) != 1 || len(all.made) != 2 {
		t.Errorf("uses %q, remembers %d", got, len(all.made))
	}
}

// Names are remembered only where a candidate may be made from them, and once.
func TestNamesThatNoCandidateIsMadeFrom(t *testing.T) {
	all := candidates(t, schema.GroupKind{Kind: "Secret"}, "ci", "db")
	for range 2 {
		for _, namespace := range []string{"ci", "prod", "dev"} {
			all.Scan(schema.GroupKind{Group: "example.com", Kind: "Any"}, nothingBut(namespace, "x"))
			all.Scan(schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, nothingBut(namespace, "y"))
		}
	}
	if len(all.made) != 1 {
		t.Errorf("remembers %v", all.made)
	}
}

// candidates are objects of a kind and namespace.
func candidates(t *testing.T, kind schema.GroupKind, namespace string, names ...string) *Candidates {
	t.Helper()
	out := NewCandidates()
	for _, name := range names {
		if err := out.Add(kind, namespace, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// used are the names of candidates that objects refer to.
func (c *Candidates) used(t *testing.T, kind schema.GroupKind, namespace string, names ...string) (out []string) {
	t.Helper()
	for _, name := range names {
		referenced, err := c.Referenced(kind, namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		if referenced {
			out = append(out, name)
		}
	}
	return out
}

// nothingBut is an object without anything but a name.
func nothingBut(namespace, name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}}
}
