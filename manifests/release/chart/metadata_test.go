package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"curfew.dev/curfew/manifests/crd"
)

// TestMetadata: Chart.yaml has all that Artifact Hub shows, and links only where an address is given.
func TestMetadata(t *testing.T) {
	o := *version
	o.Runbooks = "https://git.example.com/curfew/blob/{version}/"
	for _, options := range []*Options{version, &o} {
		made, err := Files(options)
		must(t, err)
		var chart struct {
			Icon, Home  string
			Sources     []string
			Maintainers []struct{ Name string }
			Annotations map[string]string
		}
		must(t, yaml.Unmarshal(made["Chart.yaml"], &chart))
		if linked := options.Runbooks != ""; linked != (chart.Home == "https://git.example.com/curfew/blob/v0.1.0/README.md") || linked != (len(chart.Sources) == 1) {
			t.Errorf("home %q, sources %q", chart.Home, chart.Sources)
		}
		if len(chart.Maintainers) != 1 || !strings.HasPrefix(chart.Icon, "data:image/svg+xml;base64,PHN2Zy") || made["icon.svg"] != nil {
			t.Errorf("maintainers %v, icon %.40s", chart.Maintainers, chart.Icon)
		}
		lists := map[string][]map[string]any{}
		for name, text := range chart.Annotations {
			var list []map[string]any
			if name != "artifacthub.io/license" {
				if err := yaml.Unmarshal([]byte(text), &list); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			lists[strings.TrimPrefix(name, "artifacthub.io/")] = list
		}
		crds, err := crd.All()
		must(t, err)
		if len(lists["crds"]) != len(crds) || len(crds) < 10 || lists["images"][0]["image"] != "curfew:v0.1.0" {
			t.Errorf("%d CRDs, want %d; images %v", len(lists["crds"]), len(crds), lists["images"])
		}
		kinds := map[any]int{}
		for _, example := range lists["crdsExamples"] {
			kinds[example["kind"]]++
		}
		for _, kind := range []string{"LifecyclePolicy", "KindProfile", "CleanupPolicy", "ClusterCleanupPolicy", "PodTally", "DeletionPause"} {
			if kinds[kind] != 1 {
				t.Errorf("%d examples of %s, want one", kinds[kind], kind)
			}
		}
		for _, change := range lists["changes"] {
			if text := change["description"].(string); change["kind"] != "added" || text == "" || strings.ContainsAny(text, "`\n") {
				t.Errorf("change %q", change)
			}
		}
		if len(lists["changes"]) < 50 {
			t.Errorf("only %d changes", len(lists["changes"]))
		}
	}
}

// TestChanges: a version has the entries under its own heading.
func TestChanges(t *testing.T) {
	root := t.TempDir()
	text := "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n\n## [0.1.0] - 2026-11-25\n\n### Fixed\n\n#### Topic\n\n- See [a\n  page](a.md), `x`.\n"
	must(t, os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(text), 0o600))
	for version, want := range map[string]string{"v0.1.0": `{"":[{"description":"See a page, x.","kind":"fixed"}]}`, "v0.2.0": `{"":[{"description":"New.","kind":"added"}]}`} {
		got, err := (&Options{Root: root, Version: version}).changes()
		if err != nil || show(object{"": got}) != want {
			t.Errorf("%s: %s, %v, want %s", version, show(object{"": got}), err, want)
		}
	}
}
