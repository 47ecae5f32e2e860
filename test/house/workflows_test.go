package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/builders"
)

var must = builders.Must

var (
	// command is what a workflow may run: a target, and what only a forge needs.
	command = regexp.MustCompile(`^(make ([a-z0-9-]+)( [A-Z_]+="[^"]*")*|(install -m 600 /dev/stdin|docker login|gh release create) .*)$`)
	// pinned are the actions that a workflow may use, by commit: a tag can be moved.
	pinned = regexp.MustCompile(`^actions/(checkout|setup-go)@[0-9a-f]{40}$`)
	host   = regexp.MustCompile(`\b[a-z0-9-]+\.(io|com|org|net|dev)\b`)
)

// TestWorkflows: workflows run make, so that everyone can run what they run. They have few
// permissions, end, name no registry, and hand over secrets by environment variables alone.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	must(t, err)
	files, err := filepath.Glob("../../.github/workflows/*")
	must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				TimeoutMinutes int `json:"timeout-minutes"`
				Permissions    any
				Steps          []struct{ Uses, Run string }
			}
		}
		must(t, yaml.Unmarshal(data, &workflow))
		if found := host.FindString(string(data)); found != "" || len(workflow.Permissions) != 1 || workflow.Permissions["contents"] == "" || len(workflow.Jobs) == 0 {
			t.Errorf("%s names the host %q, or has the permissions %v, or no job", file, found, workflow.Permissions)
		}
		for _, job := range workflow.Jobs {
			if job.TimeoutMinutes == 0 || job.Permissions != nil {
				t.Errorf("%s: a job has no timeout-minutes, or permissions of its own", file)
			}
			for _, step := range job.Steps {
				if step.Run == "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s uses %q, want one of %s", file, step.Uses, pinned)
				}
				for line := range strings.Lines(step.Run) {
					found := command.FindStringSubmatch(strings.TrimSpace(line))
					if found == nil || strings.Contains(line, "${{") || found[2] != "" && !strings.Contains(string(makefile), "\n"+found[2]+": ") {
						t.Errorf("%s runs %q, want a target of the Makefile, and no expression in it", file, line)
					}
				}
			}
		}
	}
	if len(files) < 3 {
		t.Errorf("only the workflows %q", files)
	}
}
