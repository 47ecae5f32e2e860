package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

var update = flag.Bool("update", false, "write the golden files again")

// noon is when tests take place, in a time zone of its own.
var noon = time.Date(2026, 12, 24, 13, 0, 0, 0, time.FixedZone("CET", 3600))

// world of a command line: its standard input, cluster and time.
type scene struct {
	stdin string
	// notMine are verbs and resources that the user may not, such as "list secrets"; notAllowed
	// those that the controller may not either.
	notMine, notAllowed []string
	// terminal: a person looks on.
	terminal bool
}

// execute runs a command line as main does, against the cluster of testdata.
func execute(t *testing.T, in scene, args ...string) (code int, stdout, stderr string, patched []string) {
	t.Helper()
	return executeIn(t, newFakeCluster(t, objects(t)), in, args...)
}

// executeIn is execute against a cluster that the test has prepared.
func executeIn(t *testing.T, cluster *fakeCluster, in scene, args ...string) (code int, stdout, stderr string, patched []string) {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	for _, key := range in.notMine {
		cluster.notMine[key] = true
	}
	for _, key := range in.notAllowed {
		cluster.notAllowed[key] = true
	}
	var out, diagnostics bytes.Buffer
	command := root(console.Environment{
		Now: func() time.Time { return noon }, Connect: cluster.connect,
		Terminal: func(stream any) bool { return in.terminal && stream != &diagnostics },
	})
	command.SetArgs(args)
	command.SetIn(strings.NewReader(in.stdin))
	command.SetOut(&out)
	command.SetErr(&diagnostics)
	code = console.Run(t.Context(), command)
	return code, out.String(), diagnostics.String(), cluster.patched
}

// golden is a command line with its world and its exit status.
type golden struct {
	args []string
	scene
	code int
}

// goldens are command lines; testdata/golden/<name>.txt holds the output of each.
var goldens = map[string]golden{
	"version":            {args: []string{"version"}},
	"version-flag":       {args: []string{"--version"}},
	"options":            {args: []string{"options"}},
	"help":               {args: []string{"keep", "--help"}},
	"table":              {args: []string{"lint", "-f", "testdata/manifests", "-R"}, code: 1},
	"json":               {args: []string{"lint", "-f", "testdata/manifests", "-o", "json"}, code: 1},
	"yaml":               {args: []string{"lint", "-f", "testdata/manifests", "-o", "yaml"}, code: 1},
	"github":             {args: []string{"lint", "-f", "testdata/manifests", "-R", "-o", "github"}, code: 1},
	"broken-table":       {args: []string{"lint", "-f", "testdata/broken.yaml", "-f", "testdata/quick.yaml"}, code: 1},
	"broken-github":      {args: []string{"lint", "-f", "testdata/broken.yaml", "-o", "github"}, code: 1},
	"platform":           {args: []string{"lint", "-f", "testdata/platform", "-o", "wide"}, code: 1},
	"platform-github":    {args: []string{"lint", "-f", "testdata/platform", "-o", "github"}, code: 1},
	"past-label":         {args: []string{"lint", "-f", "testdata/late.yaml"}, code: 1},
	"expired-labels":     {args: []string{"lint", "-f", "testdata/late.yaml", "--expired-labels=warn"}},
	"kyverno-label":      {args: []string{"lint", "-f", "testdata/kyverno.yaml", "--kyverno-label", "--expired-labels=warn"}},
	"kyverno-strict":     {args: []string{"lint", "-f", "testdata/kyverno.yaml", "--kyverno-label", "--strict-labels"}, code: 1},
	"kyverno-label-off":  {args: []string{"lint", "-f", "testdata/kyverno.yaml", "--strict-labels"}},
	"native-ttl-off":     {args: []string{"lint", "-f", "testdata/manifests/jobs.yaml", "-f", "testdata/manifests/namespace.yaml", "--native-ttl=off", "-o", "wide"}, code: 1},
	"clean":              {args: []string{"lint", "-f", "../../manifests/samples"}},
	"warning":            {args: []string{"lint", "-f", "testdata/quick.yaml"}},
	"warnings-as-errors": {args: []string{"lint", "-f", "testdata/quick.yaml", "--warnings-as-errors"}, code: 1},
	"warn-below":         {args: []string{"lint", "-f", "testdata/quick.yaml", "--warn-below", "5s", "--warnings-as-errors"}},
	"stdin-github": {
		args:  []string{"lint", "-f", "-", "-n", "ci", "-f", "testdata/manifests/namespace.yaml", "-o", "github"},
		scene: scene{stdin: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {ttlSecondsAfterFinished: 864000}\n"}, code: 1,
	},
	"folder":             {args: []string{"lint", "-f", "testdata/folder", "-R"}, code: 1},
	"folder-flat":        {args: []string{"lint", "-f", "testdata/folder"}, code: 1},
	"folder-wide":        {args: []string{"lint", "-f", "testdata/folder", "-R", "-o", "wide", "--ignore", "*.json", "--ignore", "/broken.yaml", "--ignore", "!vendor/"}, code: 1},
	"folder-json":        {args: []string{"lint", "-f", "testdata/folder/overlay", "-f", "testdata/folder/namespace.yaml", "-o", "json"}},
	"folder-of-others":   {args: []string{"lint", "-f", "testdata/folder/overlay"}, code: 2},
	"named-values":       {args: []string{"lint", "-f", "testdata/folder/chart/values.yaml", "-f", "testdata/folder/dashboard.json"}, code: 1},
	"bad-ignore":         {args: []string{"lint", "-f", "testdata/folder", "--ignore", "[a"}, code: 2},
	"no-file":            {args: []string{"lint"}, code: 2},
	"missing-file":       {args: []string{"lint", "-f", "testdata/absent.yaml"}, code: 2},
	"empty-directory":    {args: []string{"lint", "-f", "testdata/empty"}, code: 2},
	"empty-stdin":        {args: []string{"lint", "-f", "-"}, scene: scene{stdin: "# nothing\n"}, code: 2},
	"bad-flags":          {args: []string{"lint", "-f", "-", "-o", "xml", "-n", "A_B", "--warn-below", "soon", "--native-ttl", "maybe", "--expired-labels", "never"}, code: 2},
	"completion-of-what": {args: []string{"completion"}, code: 2},
	"completion-unknown": {args: []string{"completion", "tcsh"}, code: 2},
	"unknown-flag":       {args: []string{"lint", "--recursiv"}, code: 2},
	"unknown-command":    {args: []string{"explode"}, code: 2},
	"an-argument":        {args: []string{"lint", "job.yaml"}, code: 2},
}

// commandLine is how a person would type the arguments.
func commandLine(args []string) string {
	var out []string
	for _, arg := range args {
		if strings.ContainsAny(arg, " '") {
			arg = "'" + arg + "'"
		}
		out = append(out, arg)
	}
	return strings.Join(out, " ")
}

func TestGolden(t *testing.T) {
	maps.Copy(goldens, clusterGoldens)
	maps.Copy(goldens, outputGoldens)
	for name, test := range goldens {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, patched := execute(t, test.scene, test.args...)
			if code != test.code {
				t.Errorf("exit status %d, want %d", code, test.code)
			}
			compareGolden(t, name, test, code, stdout, stderr, patched)
		})
	}
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if _, ok := goldens[name]; !ok && !strings.HasPrefix(name, "status") { // see TestStatusPrints
			t.Errorf("%s belongs to no test: remove it", file)
		}
	}
}

// compareGolden compares the output of a command line with its file.
func compareGolden(t *testing.T, name string, test golden, code int, stdout, stderr string, patched []string) {
	t.Helper()
	have := fmt.Sprintf("$ kubectl curfew %s\n%s--- stderr, exit status %d\n%s", commandLine(test.args), stdout, code, stderr)
	if len(patched) > 0 {
		have += "--- patches\n" + strings.Join(patched, "\n") + "\n"
	}
	file := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run go test with -update", err)
	}
	if have != string(want) {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

// TestWithoutAnswer: an error names the remedy. Errors that need no cluster come first.
func TestWithoutAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  error
		want string
	}{
		"no API server": {words("expiring -A"), &url.Error{Op: "Get", URL: "http://localhost:8080/api", Err: errors.New("dial tcp 127.0.0.1:8080: connect: connection refused")},
			"cannot reach the API server: dial tcp 127.0.0.1:8080: connect: connection refused: check --context and --kubeconfig"},
		"no credentials": {words("explain job/build -n ci"), apierrors.NewUnauthorized("Unauthorized"),
			"the API server rejected your credentials (401 Unauthorized): log in again, or use another --context or --user"},
		"nothing is asked":        {words("explain"), errors.New("asked"), "name an object: KIND/NAME, KIND NAME, or KIND with -l or --all"},
		"nothing is to be done":   {words("keep jobs"), errors.New("asked"), `"jobs" names no object: give jobs/NAME, or -l or --all`},
		"something else is wrong": {words("expiring -A"), apierrors.NewInternalError(errors.New("x")), "listing deletionpauses.curfew.dev: Internal error occurred: x"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, objects(t))
			cluster.objects.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			code, stdout, stderr, _ := executeIn(t, cluster, scene{}, test.args...)
			expectExit(t, "the command", code, console.ExitUsage, stdout+stderr)
			expectSame(t, "stdout", stdout, "")
			expectSame(t, "stderr", stderr, "error: "+test.want+"\n")
		})
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	code, stdout, _, _ := execute(t, scene{}, "lint", "--help")
	for _, want := range []string{"kubectl curfew lint -f FILE|DIR|-", "--filename", "--recursive", "--namespace", "--output", "table, wide, github, json, yaml, ", "--warnings-as-errors", "--warn-below"} {
		expectExit(t, "the command", code, 0, stdout)
		expectPart(t, "stdout", stdout, want, true)
	}
}

// TestHelpFits: no description is wider than kubectl's own help.
func TestHelpFits(t *testing.T) {
	const helpWidth = 80
	command := root(console.Environment{})
	for _, each := range append(command.Commands(), command) {
		for line := range strings.Lines(each.Long) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > helpWidth {
				t.Errorf("help of %s: a line has more than %d columns: %q", each.Name(), helpWidth, line)
			}
		}
	}
}

func TestGitHubEscapes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a,b.yaml")
	text := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\n  annotations:\n    curfew.dev/ttl-after-finished: \"1%\\n::error::x\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _, _ := execute(t, scene{}, "lint", "-f", file, "-o", "github")
	if code != 1 || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, "a%2Cb.yaml,line=6,") || !strings.Contains(stdout, "1%25") {
		t.Errorf("exit status %d:\n%s", code, stdout)
	}
}
