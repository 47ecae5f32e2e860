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
	if err != nil || len(files) < 26 {
		t.Fatalf("%d recipes (%v)", len(files), err)
	}
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		recipe, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		test, err := os.ReadFile(filepath.Join("testdata/recipes", name))
		if err != nil {
			t.Fatal(err)
		}
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
		guesses := strings.Contains(strings.ReplaceAll(text, "lookup.owned", ""), "lookup.")
		if guesses != strings.Contains(text, "\n  dryRun: true") {
			t.Errorf("%s: dryRun is for recipes with a lookup", name)
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

// Each sample that deletes on the strength of other objects gives their owners time to object, and is
// a dry run until a person has looked at its reports.
func TestSamplesWithLookups(t *testing.T) {
	files, err := filepath.Glob("../../manifests/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(recipes + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guess, found := regexp.MustCompile(`lookup\.(mounted|referenced|selects|dangling|instances)`), 0
	for _, file := range slices.Concat(files, more) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			of := &v1alpha1.ClusterCleanupPolicy{}
			if err := yaml.Unmarshal(document, of); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(of.Spec.Conditions, func(one v1alpha1.CleanupCondition) bool { return guess.MatchString(string(one.Expression)) }) {
				continue
			}
			found++
			if !of.Spec.DryRun || of.Spec.MinUnused == nil {
				t.Errorf("%s, %s: dryRun is %v and minUnused %v", file, of.Name, of.Spec.DryRun, of.Spec.MinUnused)
			}
		}
	}
	if found < 14 {
		t.Errorf("%d policies with a lookup", found)
	}
}
