package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"curfew.dev/curfew/manifests/release/chart/charttest"
)

// TestOnlyNamespaces: with onlyNamespaces, the chart renders exactly the overlay that
// docs/install.md describes, and the objects of its team once for each namespace. No value adds
// anything cluster-scoped to that.
func TestOnlyNamespaces(t *testing.T) {
	data, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "manifests", "overlays", "namespaced-webhook"))
	must(t, err)
	text, err := data.AsYaml()
	must(t, err)
	policy, err := os.ReadFile(filepath.Join(root, "manifests", "overlays", "namespaced", "policy.yaml"))
	must(t, err)
	want, err := decode(suffix.ReplaceAll(text, []byte("curfew-config")))
	must(t, err)
	chart, err := files()
	must(t, err)
	rendered := func(set values) []string {
		t.Helper()
		manifests, _, err := charttest.Render(chart, namespace, asBase(set))
		must(t, err)
		objects, err := decode([]byte(manifests))
		if err != nil {
			t.Fatalf("%v\n%s", err, manifests)
		}
		return sorted(objects)
	}
	set := func(more values, names ...any) values {
		out := values{"onlyNamespaces": names, "config": values{"policy.yaml": string(policy)}}
		maps.Copy(out, more)
		return out
	}
	if got, want := rendered(set(nil, team)), sorted(want); len(want) < 14 || !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("of %d and %d objects the chart renders\n%s\nwant\n%s", len(got), len(want), got[min(i, len(got)):], want[min(i, len(want)):])
			}
		}
	}
	for _, o := range rendered(set(values{"certificates": "cert-manager"}, "42", "b")) {
		if strings.Contains(o, team) || strings.Contains(o, `"kind":"Cluster`) || strings.Contains(o, "Configuration") || !strings.Contains(o, `"namespace":"`) {
			t.Errorf("it renders %s", o)
		}
	}
	roles := 0
	for _, o := range rendered(set(nil, "42", "b")) {
		if strings.Contains(o, `"resourceNames":["42"]`) || strings.Contains(o, `"resourceNames":["b"]`) {
			roles++
		}
	}
	if roles != 4 {
		t.Errorf("%d Roles in the two namespaces, want one for each program", roles)
	}
	for _, value := range []string{"deleteAnything", "precreatedWebhooks", "failClosed", "httpAPI", "highAvailability", "monitoring", "leaveNativeTTL", "tenantView"} {
		if _, _, err := charttest.Render(chart, namespace, set(values{value: true}, "a")); err == nil {
			t.Errorf("%s is accepted with onlyNamespaces", value)
		}
	}
}

// sorted are objects as JSON, in an order of their own.
func sorted(objects []object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, show(o))
	}
	slices.Sort(out)
	return out
}
