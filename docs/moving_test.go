package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/wellknown"
)

// The pages about moving from elsewhere say what Curfew makes of values. Its parsers must agree.

// movedAt is when the object of the examples was created.
var movedAt = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// table is the rows of the first table behind a heading of a page, by column.
func table(t *testing.T, page, heading string) [][]string {
	t.Helper()
	_, section, found := strings.Cut(pages(t)[page], "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no %s", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var out [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	if len(out) < 7 {
		t.Fatalf("%s, %s: only %d rows", page, heading, len(out))
	}
	return out[2:]
}

// inCode is what stands in backquotes.
func inCode(cell string) string { return strings.Trim(cell, "`") }

const neverGoes = "never: kept and reported"

// goes is when Curfew deletes the example's object with a label, as the tables write it.
func goes(key, label string) string {
	read, err := lifetime.ParseLabel(key, label)
	if err != nil {
		return neverGoes
	}
	return read.Expiry(movedAt).Format(time.RFC3339)
}

func TestValuesOfKyverno(t *testing.T) {
	for _, row := range table(t, "docs/from-kyverno.md", "## Values") {
		value, theirs, ours, instead := inCode(row[0]), row[1], row[2], inCode(row[3])
		if got := goes(wellknown.LabelKyvernoTTL, value); got != ours {
			t.Errorf("%s: Curfew deletes it at %s, the page says %s", value, got, ours)
		}
		if (ours == neverGoes) != (theirs != ours && (instead != "" || theirs == "never")) {
			t.Errorf("%s: says to write %q where Kyverno has %s and Curfew %s", value, instead, theirs, ours)
		}
		// The TTL to write is the same, rounded up to minutes: moving deletes nothing sooner.
		if instead == "" {
			continue
		}
		was, err := time.Parse(time.RFC3339, theirs)
		if err != nil {
			t.Fatal(err)
		}
		if want := was.Add(time.Minute - time.Second).Truncate(time.Minute).Format(time.RFC3339); goes(wellknown.LabelTTL, instead) != want {
			t.Errorf("%s: %s comes to %s, want %s", value, instead, goes(wellknown.LabelTTL, instead), want)
		}
	}
}

func TestValuesOfKubeJanitor(t *testing.T) {
	for _, row := range table(t, "docs/from-kube-janitor.md", "## Values") {
		annotation, theirs, label, ours := inCode(row[0]), row[1], inCode(row[2]), row[3]
		if label == "none" {
			if ours != "never" || theirs != "never" {
				t.Errorf("%s: without a label it never goes", annotation)
			}
			continue
		}
		if got := goes(wellknown.LabelTTL, label); got != ours {
			t.Errorf("%s: Curfew deletes it at %s, the page says %s", label, got, ours)
		}
		if ours < theirs || ours[:len("2026-12-01T10:0")] != theirs[:len("2026-12-01T10:0")] {
			t.Errorf("%s: %s goes at %s, which is sooner than %s, or another time", annotation, label, ours, theirs)
		}
	}
}

// own are the flags, metrics and commands that the second column of a table names.
var own = regexp.MustCompile("`(--[a-z-]+|curfew_[a-z_]+|kubectl curfew [a-z-]+)")

func TestSettingsOfOthers(t *testing.T) {
	known := metrics(t)
	for _, flag := range flags(t) {
		known = append(known, "--"+flag)
	}
	commands := pages(t)["docs/cli.md"]
	for _, from := range []string{"kyverno", "kube-janitor", "k8s-cleaner", "tekton-pruner", "in-tree"} {
		page := "docs/from-" + from + ".md"
		named := 0
		for _, row := range table(t, page, "## Settings") {
			if len(row) != 2 || row[0] == "" || row[1] == "" {
				t.Fatalf("%s: row %q, want two cells that are not empty", page, row)
			}
			for _, match := range own.FindAllStringSubmatch(row[1], -1) {
				named++
				if name := match[1]; !slices.Contains(known, name) && !strings.Contains(commands, name) {
					t.Errorf("%s names %s, which there is not", page, name)
				}
			}
		}
		if named < 5 {
			t.Errorf("%s: only %d flags, metrics and commands are named", page, named)
		}
	}
}

// What the pages show of policies and profiles is what the API server and admission would take,
// without a word.
func TestPoliciesAndProfilesOfPages(t *testing.T) {
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := lint.NewSchemas(definitions)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for name, text := range pages(t) {
		for _, block := range yamlBlocks(text) {
			if !strings.Contains(block, "apiVersion: curfew.dev/") {
				continue
			}
			shown++
			for _, result := range linted(t, block, schemas) {
				for _, finding := range result.Findings {
					t.Errorf("lint finds in the example of %s: %s", name, finding.Finding)
				}
			}
		}
	}
	if shown < 15 {
		t.Errorf("only %d are shown", shown)
	}
}
