package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/policy/v1alpha1"
)

const recipes = "../../manifests/samples/recipes/"

// Each recipe has a test with objects that it deletes and objects that it keeps, and docs/recipes.md
// shows it. TestGolden runs these tests.
func TestRecipes(t *testing.T) {
	files, err := filepath.Glob(recipes + "*.yaml")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d recipes (%v)", len(files), err)
	}
	page, err := os.ReadFile("../../docs/recipes.md")
	must(t, err)
	for _, file := range files {
		recipe, err := os.ReadFile(file)
		must(t, err)
		name := filepath.Base(file)
		test, err := os.ReadFile(filepath.Join("testdata/recipes", name))
		must(t, err)
		head, _, _ := bytes.Cut(test, []byte("\n---\n"))
		parsed, err := preview.ParseCase(head)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(parsed.Expect.Deleted) == 0 || len(parsed.Expect.Kept) == 0 || parsed.Policies[0] != "../../"+recipes+name {
			t.Errorf("%s: its test deletes nothing, keeps nothing, or tests another policy", name)
		}
		text := string(recipe)
		if !strings.HasPrefix(text, "# ") || strings.Contains(text, "\n---\n") || !strings.Contains(text, "\n  name: "+strings.TrimSuffix(name, ".yaml")+"\n") {
			t.Errorf("%s: want a comment and one policy of the file's name", name)
		}
		expectPart(t, "docs/recipes.md", string(page), "(../manifests/samples/recipes/"+name+")", true)
	}
	_, ofKor, _ := strings.Cut(string(page), "\n## kor\n")
	ofKor, ofCleaner, _ := strings.Cut(ofKor, "\n## k8s-cleaner\n")
	ofCleaner, _, _ = strings.Cut(ofCleaner, "\n## ")
	for want, section := range map[int]string{25: ofKor, 45: ofCleaner} {
		if rows := strings.Count(section, "\n| ") - 1; rows != want {
			t.Errorf("%d rows, want %d", rows, want)
		}
	}
}

// exempt are the policies of the samples that need not wait for two weeks, and why.
var exempt = map[string]string{
	"completed-pods": "a Pod that has finished never runs again", "failed-pods": "the same", "evicted-pods": "the same", "finished-pods": "the same",
	"expiry-annotation": "the owner wrote the time", "ttl-annotation": "the same",
	"preview-namespaces": "it judges the name and the age", "everything": "the whole namespace is emptied once a month",
	"pipeline-runs": "history: the newest stay, and no other runs again", "helm-revisions": "the same",
}

// Each policy of the samples may be wrong about an object that looks unused, idle or finished at one
// instant. So it looks each hour, waits for two weeks, and does nothing before a person has seen its
// reports and has approved it.
func TestSamplesGiveTime(t *testing.T) {
	hourly, twoWeeks, found := regexp.MustCompile(`^[1-9][0-9]? \* \* \* \*$`), []v1alpha1.Duration{"14d", "21d"}, map[string]bool{}
	for _, pattern := range []string{"../../manifests/samples/*.yaml", recipes + "*.yaml"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
				policy := &v1alpha1.ClusterCleanupPolicy{}
				must(t, yaml.Unmarshal(document, policy))
				if !strings.HasSuffix(policy.Kind, "CleanupPolicy") {
					continue
				}
				found[policy.Name] = true
				spec := &policy.Spec
				if spec.Approval != v1alpha1.ApprovalRequired {
					t.Errorf("%s, %s: approval is %q", file, policy.Name, spec.Approval)
				}
				waits := spec.MinUnused != nil && slices.Contains(twoWeeks, *spec.MinUnused) && spec.DryRun && spec.MaxDeletions != nil && hourly.MatchString(spec.Schedule)
				if waits == (exempt[policy.Name] != "") {
					t.Errorf("%s, %s: minUnused, dryRun, maxDeletions and an hourly schedule: %v; exempt: %q", file, policy.Name, waits, exempt[policy.Name])
				}
			}
		}
	}
	for name := range exempt {
		if !found[name] {
			t.Errorf("%s is exempt, and is no sample", name)
		}
	}
	if len(found) < 30 {
		t.Errorf("%d policies", len(found))
	}
}
