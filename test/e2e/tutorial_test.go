package e2e

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"curfew.dev/curfew/test/harness"
)

var update = flag.Bool("update", false, "write the output of its commands into docs/tutorial.md")

var tutorialBlock = regexp.MustCompile("(?ms)^```(console|yaml)\n(.*?)^```$")

// TestTutorial runs docs/tutorial.md command by command. A YAML block is the file that its first
// line names. The page shows what the commands print. On a busy machine a command may take longer
// than the page allows for: then all of it is run again.
func TestTutorial(t *testing.T) {
	t.Parallel()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "tutorial.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	for range 3 {
		if seen = runTutorial(t, string(page)); seen == string(page) {
			return
		}
		t.Logf("this differs from the page:\n%s", seen)
	}
	if !*update {
		t.Fatal("the page differs from all of this; -update writes the last of it")
	}
	if err := os.WriteFile(path, []byte(seen), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runTutorial returns the page with the output of its commands.
func runTutorial(t *testing.T, page string) string {
	dir := t.TempDir() + "/"
	defer func() {
		if _, stderr, err := suite.cluster.Kubectl(context.Background(), "delete", "namespace", "ci", "--ignore-not-found"); err != nil {
			t.Error(stderr)
		}
	}()
	commands := 0
	seen := tutorialBlock.ReplaceAllStringFunc(page, func(block string) string {
		parts := tutorialBlock.FindStringSubmatch(block)
		if parts[1] == "yaml" {
			name, _, _ := strings.Cut(strings.TrimPrefix(parts[2], "# "), "\n")
			if err := os.WriteFile(dir+name, []byte(parts[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			return block
		}
		out := "```console\n"
		for line := range strings.Lines(parts[2]) {
			typed, ok := strings.CutPrefix(line, "$ kubectl ")
			if !ok {
				continue
			}
			commands++
			args := strings.Fields(typed)
			for i, arg := range args {
				if strings.HasSuffix(arg, ".yaml") {
					args[i] = dir + arg
				}
			}
			stdout, stderr, _ := suite.cluster.Kubectl(t.Context(), args...)
			out += line + strings.ReplaceAll(stderr+stdout, dir, "")
		}
		return out + "```"
	})
	if commands < 10 {
		t.Errorf("only %d commands", commands)
	}
	return seen
}
