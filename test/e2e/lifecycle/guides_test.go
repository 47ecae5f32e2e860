package lifecycle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/harness"
)

var (
	guideBlock  = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```$")
	fileOfBlock = regexp.MustCompile(`^# (\S+\.yaml)\n`)
	// varying is what a page cannot know: times, ages, and the widths that they give to columns.
	varying = regexp.MustCompile(`(?m)^\d+[smh]\S*| +`)
)

// noLineFound is no failure of what a page looks for.
const noLineFound = "grep() { command grep \"$@\" || [ $? = 1 ]; }\n"

// guide runs the blocks of one page.
type guide struct {
	*testing.T
	cluster *harness.Cluster
	page    string
	dir     string
	used    map[string]bool
}

// TestGuides runs each block of the guides, in order, as a reader would, in a cluster with nothing
// else in it. Commands must succeed, and print what the page shows. The API server reviews each
// manifest. What a block needs, or why it cannot run here, is in [guideSteps].
func TestGuides(t *testing.T) {
	t.Parallel()
	cluster := startForGuides(t)
	dir := t.TempDir()
	for name, target := range guideFolders {
		if err := os.Symlink(filepath.Join(suite.root, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	used, ran := map[string]bool{}, 0
	for _, page := range guides {
		t.Run(page, func(t *testing.T) {
			ran++
			text, err := os.ReadFile(filepath.Join(suite.root, "docs", page))
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range guideBlock.FindAllStringSubmatch(string(text), -1) {
				g := guide{T: t, cluster: cluster, page: page, dir: dir, used: used}
				g.block(match[2], strings.TrimPrefix(strings.ReplaceAll("\n"+match[3], "\n"+match[1], "\n"), "\n"))
			}
		})
	}
	for name := range guideSteps {
		if ran == len(guides) && !used[name] {
			t.Errorf("guideSteps has %q, which no page shows", name)
		}
	}
}

// startForGuides starts a control plane like that of a cluster, and Curfew.
func startForGuides(t *testing.T) *harness.Cluster {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(suite.root, ".e2e-guides")
	ok(harness.StopCluster(ctx, dir))
	t.Cleanup(func() { ok(harness.StopCluster(context.Background(), dir)) })
	cluster, err := harness.StartCluster(ctx, harness.ClusterOptions{Dir: dir, InTreeTTL: true, Out: os.Stderr})
	ok(err)
	ok(cluster.InstallCRDs(ctx, harness.JobSet, harness.Trainer))
	webhook, err := cluster.StartWebhook(ctx, harness.CurfewOptions{})
	ok(err)
	t.Cleanup(func() { ok(webhook.Kill()) })
	ok(cluster.WaitForWebhook(ctx))
	controller, err := cluster.StartController(ctx, harness.CurfewOptions{})
	ok(err)
	t.Cleanup(func() { ok(controller.Kill()) })
	return cluster
}

// block runs or validates one block.
func (g *guide) block(language, text string) {
	g.Helper()
	name, _, _ := strings.Cut(text, "\n")
	run := g.commands
	switch language {
	case "":
		if !strings.HasPrefix(text, "kubectl ") && !strings.HasPrefix(text, "$ ") {
			return // messages, flags, and commands of other programs
		}
	case "sh", "console":
	case "yaml":
		if kind := manifestName(text); kind != "" {
			name = kind
		}
		run = g.manifest
	default:
		return
	}
	step := guideSteps[name]
	g.used[name] = true
	if step.elsewhere != "" {
		return
	}
	if step.before != "" {
		g.shell(step.before, 0)
	}
	run(strings.NewReplacer(step.replace...).Replace(text), step)
	if step.after != "" {
		g.shell(step.after, 0)
	}
}

// manifestName names the first object of a manifest, by kind and name.
func manifestName(text string) string {
	var header struct {
		Kind     string
		Metadata struct{ Name string }
	}
	first, _, _ := strings.Cut(text, "\n---\n")
	if yaml.Unmarshal([]byte(first), &header) != nil || header.Kind == "" {
		return ""
	}
	return header.Kind + "/" + header.Metadata.Name
}

// manifest has the API server review objects. A file that its first line names is saved. Parts of
// manifests are for the tests of package docs.
func (g *guide) manifest(text string, step guideStep) {
	g.Helper()
	file := "manifest.yaml"
	if named := fileOfBlock.FindStringSubmatch(text); named != nil {
		file = named[1]
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
	if manifestName(text) == "" || strings.Contains(text, "apiVersion: cli.curfew.dev/") {
		return
	}
	if step.apply {
		g.shell("kubectl apply -f "+file, 0)
		return
	}
	g.shell("kubectl apply --dry-run=server -f "+file, 0)
}

// commands runs a block. Where it shows what commands print, each is run alone, and compared.
func (g *guide) commands(text string, step guideStep) {
	g.Helper()
	if !strings.HasPrefix(text, "$ ") {
		g.shell(text, step.exit)
		return
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
		command, want, _ := strings.Cut(part, "\n")
		seen, next := "", time.Now().Truncate(time.Second).Add(time.Second)
		// An object that was created in the same second as a default counts as older.
		if err := harness.Poll(g.Context(), "the next second", func(context.Context) (bool, error) { return !time.Now().Before(next), nil }); err != nil {
			g.Fatal(err)
		}
		same := func(context.Context) (_ bool, err error) {
			seen, err = g.run(command, step.exit)
			return strings.TrimSpace(want) == "" || comparable(seen) == comparable(want), err
		}
		var err error
		if strings.HasPrefix(command, "kubectl get ") { // The controller may still be at work.
			err = harness.Poll(g.Context(), "what the page shows of "+command, same)
		} else if done, failed := same(g.Context()); !done || failed != nil {
			err = cmp.Or(failed, errors.New("the output differs"))
		}
		if err != nil {
			g.Errorf("%s: %v: $ %s printed\n%s\nand the page shows\n%s", g.page, err, command, seen, want)
		}
	}
}

func comparable(text string) string {
	return strings.TrimSpace(varying.ReplaceAllString(text, " "))
}

// shell runs commands that must succeed, or end with an exit status.
func (g *guide) shell(text string, exit int) {
	g.Helper()
	if out, err := g.run(text, exit); err != nil {
		g.Errorf("%s: %v of\n%s\n%s", g.page, err, text, out)
	}
}

// run runs commands as the administrator, and returns what they print, errors first.
func (g *guide) run(text string, exit int) (string, error) {
	ctx, cancel := context.WithTimeout(g.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-e", "-c", noLineFound+text)
	cmd.Dir = g.dir
	path := []string{filepath.Join(suite.root, "bin"), filepath.Dir(g.cluster.KubectlPath()), os.Getenv("PATH")}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.cluster.Kubeconfig, "TZ=UTC", "PATH="+strings.Join(path, string(filepath.ListSeparator)))
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exit {
		return errOut.String() + out.String(), fmt.Errorf("%v, want exit status %d", err, exit)
	}
	return errOut.String() + out.String(), nil
}
