package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	// target is a command that a workflow may run, beside those of besides.
	target  = regexp.MustCompile(`^make ([a-z0-9-]+)( [A-Z_]+="[^"]*")*$`)
	besides = []string{"install -m 600 /dev/stdin ", "docker login ", "gh release create "}
	// pinned are the actions that a workflow may use, by commit: a tag can be moved.
	pinned = regexp.MustCompile(`^actions/(checkout|setup-go)@[0-9a-f]{40}$`)
	host   = regexp.MustCompile(`\b[a-z0-9-]+\.(io|com|org|net|dev)\b`)
	secret = regexp.MustCompile(`\$\{\{ (secrets|vars|github|env|inputs)\b`)
)

// TestWorkflows: workflows run make, so that everyone can run what they run. They have few
// permissions, end, name no registry, and hand over secrets by environment variables alone.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", ".github", "workflows", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("error %v, %d workflows", err, len(files))
	}
	for _, file := range files {
		name := filepath.Base(file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Permissions map[string]string
			Concurrency struct{ Group string }
			Jobs        map[string]struct {
				TimeoutMinutes int `json:"timeout-minutes"`
				Permissions    any
				Steps          []struct {
					Uses, Run string
					With      map[string]any
				}
			}
		}
		if err := yaml.Unmarshal(data, &workflow); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		allowed := map[string]string{"contents": "read"}
		if name == "release.yml" {
			allowed["contents"] = "write"
		}
		if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != allowed["contents"] || workflow.Concurrency.Group == "" || len(workflow.Jobs) == 0 {
			t.Errorf("%s: permissions %v, want %v; concurrency group %q; %d jobs", name, workflow.Permissions, allowed, workflow.Concurrency.Group, len(workflow.Jobs))
		}
		if found := host.FindString(string(data)); found != "" {
			t.Errorf("%s names the host %s: take it from vars.IMAGE", name, found)
		}
		for id, job := range workflow.Jobs {
			if job.TimeoutMinutes == 0 || job.Permissions != nil || len(job.Steps) == 0 {
				t.Errorf("%s: job %s has no timeout-minutes, or permissions of its own, or no steps", name, id)
			}
			for _, step := range job.Steps {
				if step.Run == "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: uses %q, want one of %s", name, step.Uses, pinned)
				}
				if strings.HasPrefix(step.Uses, "actions/setup-go@") && step.With["go-version-file"] != "go.mod" {
					t.Errorf("%s: setup-go takes its version from %v, want go.mod", name, step.With["go-version-file"])
				}
				for line := range strings.Lines(step.Run) {
					line = strings.TrimSpace(line)
					found := target.FindStringSubmatch(line)
					isTarget := found != nil && strings.Contains(string(makefile), "\n"+found[1]+": ")
					if !isTarget && !slices.ContainsFunc(besides, func(begins string) bool { return strings.HasPrefix(line, begins) }) || secret.MatchString(line) {
						t.Errorf("%s runs %q, want a target of the Makefile, and no expression in it", name, line)
					}
				}
			}
		}
	}
}
