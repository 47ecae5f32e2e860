package docs_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// The pages about moving from elsewhere say of values what becomes of them. Their tables are held
// against the parsers.

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

// kyvernoGoes reads a label as Kyverno's cleanup controller does (pkg/controllers/ttl/utils.go).
func kyvernoGoes(label string) string {
	if after, err := strfmt.ParseDuration(label); err == nil {
		return movedAt.Add(after).Format(time.RFC3339)
	}
	for _, layout := range []string{"2006-01-02T150405Z", "2006-01-02"} {
		if at, err := time.Parse(layout, label); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return "never"
}

func TestValuesOfKyverno(t *testing.T) {
	for _, row := range table(t, "docs/from-kyverno.md", "## Values") {
		value, theirs, ours, instead := inCode(row[0]), row[1], row[2], inCode(row[3])
		if got := kyvernoGoes(value); got != theirs {
			t.Errorf("%s: Kyverno deletes it at %s, the page says %s", value, got, theirs)
		}
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

var janitorTTL = regexp.MustCompile(`^(\d+)([smhdw])$`)

// janitorGoes reads an annotation as kube-janitor does (kube_janitor/helper.py).
func janitorGoes(t *testing.T, annotation string) string {
	t.Helper()
	key, value, _ := strings.Cut(annotation, ": ")
	if key == "janitor/expires" {
		for _, layout := range []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04", "2006-01-02"} {
			if at, err := time.Parse(layout, value); err == nil {
				return at.Format(time.RFC3339)
			}
		}
	}
	match := janitorTTL.FindStringSubmatch(value)
	switch {
	case key == "janitor/ttl" && value == "forever":
		return "never"
	case key != "janitor/ttl" || match == nil:
		t.Fatalf("kube-janitor does not read %s", annotation)
	}
	count, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[match[2]]
	return movedAt.Add(time.Duration(count) * unit).Format(time.RFC3339)
}

func TestValuesOfKubeJanitor(t *testing.T) {
	for _, row := range table(t, "docs/from-kube-janitor.md", "## Values") {
		annotation, theirs, label, ours := inCode(row[0]), row[1], inCode(row[2]), row[3]
		if got := janitorGoes(t, annotation); got != theirs {
			t.Errorf("%s: kube-janitor deletes it after %s, the page says %s", annotation, got, theirs)
		}
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

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The policy that stands for a rule gives what it says to what it matches.
func TestPolicyOfKubeJanitorsRule(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(pages(t)["docs/from-kube-janitor.md"], -1)
	if len(blocks) != 1 {
		t.Fatalf("%d policies", len(blocks))
	}
	deployment := func(labels string) string {
		return "\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ci}, spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: " + labels + "}}}}\n"
	}
	text := blocks[0][1] + deployment("{app: x}") + deployment("{app: x, application: y}")
	documents, unreadable := lint.Read(lint.Input{Data: []byte(text)}, lint.Limits{})
	if len(unreadable) > 0 {
		t.Fatal(unreadable)
	}
	results, err := lint.Lint(t.Context(), documents, lint.Options{Source: platform.Offline{Platform: builtinPlatform(t)}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, result := range results {
		said := ""
		for _, filled := range result.Defaults {
			said += filled.String()
		}
		for _, finding := range result.Findings {
			t.Errorf("unexpected: %s", finding.Finding)
		}
		got = append(got, said)
	}
	if want := []string{"", `curfew.dev/ttl defaulted to 4d from policy "require-application-label"`, ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
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
			documents, unreadable := lint.Read(lint.Input{Data: []byte(block)}, lint.Limits{})
			if len(unreadable) > 0 {
				t.Errorf("the example of %s cannot be read: %v", name, unreadable)
				continue
			}
			results, err := lint.Lint(t.Context(), documents, lint.Options{Source: platform.Offline{Platform: builtinPlatform(t)}, Schemas: schemas, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
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
