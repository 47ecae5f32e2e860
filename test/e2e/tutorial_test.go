package e2e

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/test/harness"
)

var update = flag.Bool("update", false, "write the output of their commands into the tutorial and the guides")

var (
	tutorialBlock = regexp.MustCompile("(?ms)^```(console|yaml)\n(.*?)^```$")
	itsNamespace  = regexp.MustCompile(`(?m)^\$ kubectl create namespace (\S+)$`)
	timesInOutput = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+|\b(\d+[dhms])+ ago|\bin (\d+[dhms])+`)
)

// TestTutorial runs the tutorial and two guides command by command. A YAML block is the file that its
// first line names. The pages show what the commands print, at another time. On a busy machine a
// command may take longer than the page allows for: then all of it is run again. Some commands show
// the whole cluster, so that no other test runs beside this one.
func TestTutorial(t *testing.T) {
	for _, name := range []string{"tutorial", "developers", "ci"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryPage(t, name+".md")
		})
	}
}

func tryPage(t *testing.T, name string) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", name)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	untimed := func(text string) string { return timesInOutput.ReplaceAllString(text, "TIME") }
	seen := ""
	for range 3 {
		if seen = runPage(t, string(page)); untimed(seen) == untimed(string(page)) {
			return
		}
		t.Logf("note: this differs from the page:\n%s", seen)
	}
	if !*update {
		t.Fatal("the page differs from all of this; -update writes the last of it")
	}
	if err := os.WriteFile(path, []byte(seen), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runPage returns the page with the output of its commands.
func runPage(t *testing.T, page string) string {
	dir := t.TempDir() + "/"
	namespace := itsNamespace.FindStringSubmatch(page)[1]
	defer func() {
		_, stderr, err := suite.cluster.Kubectl(context.Background(), "delete", "namespace", namespace, "--ignore-not-found")
		if err != nil {
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
			now := time.Now().UTC().Format(time.RFC3339)
			args := strings.Fields(strings.ReplaceAll(typed, "$(date -u +%FT%TZ)", now))
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
