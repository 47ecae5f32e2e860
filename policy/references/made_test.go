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
	items := []string{"db", "db-credentials", "db-a-b", "creds-of-db", "zz-db", "a-db-z", "db.a", "a.db", "a.db-z", "a--db"}
	for name, c := range map[string]struct {
		group, namespace, name string
		want                   []string
	}{
		"a custom kind":                  {"example.com", "ci", "db", items},
		"a longer name":                  {"example.com", "ci", "db-a", []string{"db-a-b"}},
		"a name with a dot":              {"example.com", "ci", "a.db", []string{"db", "a.db", "a.db-z"}},
		"a longer name than all":         {"example.com", "ci", "db-credentials-of-a", nil},
		"elsewhere":                      {"example.com", "prod", "db", []string{"db"}},
		"a cluster-scoped custom kind":   {"example.com", "", "db", items},
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
		must(t, all.Add(class, "", "other", nil))
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
	if len(all.named) != 2 {
		t.Errorf("%d are candidates, want 2", len(all.named))
	}
	if _, err := all.Referenced(kind, "ci", more, nil); err == nil {
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

// A program reads objects by names that are compiled into it. Beside a workload whose name or
// labels resemble them, they are unknown. A name with a hash of the content is in no program.
func TestNamesThatProgramsKnow(t *testing.T) {
	const app = "app.kubernetes.io/name"
	workload := func(metadata, spec string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, " + metadata + "}, spec: {" + spec + "}}"
	}
	const pod = "{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: %s, ownerReferences: [{kind: ReplicaSet, name: a}], labels: {app.kubernetes.io/name: %s}}}"
	for name, c := range map[string]struct{ name, label, object, want string }{
		"no workload":                  {"controller-config", "", "{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: ci, name: controller}}", "false"},
		"the name of a workload":       {"workflow-controller-configmap", "", workload("name: workflow-controller", ""), "unknown"},
		"after another word":           {"config-autoscaler", "", workload("name: autoscaler", ""), "unknown"},
		"the same first word":          {"rook-config-override", "", workload("name: rook-ceph-operator", ""), "unknown"},
		"the first word alone":         {"rook", "", workload("name: rook-ceph-operator", ""), "unknown"},
		"a word of the product":        {"serving-certs-ctrl-ca", "", workload("name: activator, labels: {"+app+": knative-serving}", ""), "unknown"},
		"another word of the product":  {"certs-serving", "", workload("name: activator, labels: {"+app+": knative-serving}", ""), "false"},
		"a part of a word":             {"rooks-config", "", workload("name: rook-ceph-operator", ""), "false"},
		"a name that resembles none":   {"old-config", "", workload("name: workflow-controller", ""), "false"},
		"elsewhere":                    {"workflow-controller-configmap", "", strings.Replace(workload("name: workflow-controller", ""), "ci", "dev", 1), "false"},
		"a label":                      {"settings", "longhorn", workload("name: manager, labels: {"+app+": longhorn}", ""), "unknown"},
		"a label of a Pod":             {"settings", "longhorn", fmt.Sprintf(pod, "a-1", "longhorn"), "unknown"},
		"a label of a template":        {"settings", "longhorn", workload("name: manager", "template: {metadata: {labels: {app: longhorn}}}"), "unknown"},
		"a template of a custom kind":  {"settings", "longhorn", "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {template: {metadata: {labels: {app: longhorn}}}}}", "unknown"},
		"a label of a custom kind":     {"settings", "longhorn", "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x, labels: {app: Longhorn}}}", "false"},
		"a label of another value":     {"settings", "longhorn", workload("name: manager, labels: {"+app+": other}", ""), "false"},
		"another label":                {"settings", "longhorn", workload("name: manager, labels: {tier: longhorn}", ""), "false"},
		"the name of a Pod of another": {"web-1", "", fmt.Sprintf(pod, "web-1", "other"), "false"},
		"a hash of the content":        {"web-config-7f8d9c6b5t", "", workload("name: web", ""), "false"},
		"a hash and a label":           {"web-config-7f8d9c6b5t", "web", workload("name: web, labels: {"+app+": web}", ""), "unknown"},
	} {
		all, kind := NewCandidates(), schema.GroupKind{Kind: "ConfigMap"}
		labels := map[string]string{app: c.label, "tier": "longhorn"}
		must(t, all.Add(kind, "ci", c.name, labels))
		all.Scan(read(t, c.object))
		if got := answer(all.Referenced(kind, "ci", c.name, labels)); got != c.want {
			t.Errorf("%s: %s beside %s is used: %s, want %s", name, c.name, c.object, got, c.want)
		}
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
		if _, err := all.Referenced(kind, "ci", "db-a", nil); (err != nil) != unknown {
			t.Errorf("after %d objects: %v", i+1, err)
		}
	}
	if got := all.used(t, kind, "ci", "o1-a"); len(got) != 1 || all.made != 2 {
		t.Errorf("uses %q, remembers %d", got, all.made)
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
	if all.made != 2 {
		t.Errorf("remembers %v", all.made)
	}
}

// candidates are objects of a kind and namespace.
func candidates(t *testing.T, kind schema.GroupKind, namespace string, names ...string) *Candidates {
	t.Helper()
	out := NewCandidates()
	for _, name := range names {
		must(t, out.Add(kind, namespace, name, nil))
	}
	return out
}

// used are the names of candidates that objects refer to.
func (c *Candidates) used(t *testing.T, kind schema.GroupKind, namespace string, names ...string) (out []string) {
	t.Helper()
	for _, name := range names {
		if referenced, err := c.Referenced(kind, namespace, name, nil); referenced && err == nil {
			out = append(out, name)
		}
	}
	return out
}

// nothingBut is an object without anything but a name.
func nothingBut(namespace, name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}}
}
