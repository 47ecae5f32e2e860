package main

import (
	"bytes"
	"errors"
	"flag"
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

func words(line string) []string { return strings.Fields(line) }

// execute runs a command line as main does, against the cluster of testdata.
func execute(t *testing.T, s scene, args ...string) (code int, stdout, stderr string, patched []string) {
	t.Helper()
	return executeIn(t, newFakeCluster(t, objects(t)), s, args...)
}

// executeIn is execute against a cluster that the test has prepared.
func executeIn(t *testing.T, cluster *fakeCluster, s scene, args ...string) (code int, stdout, stderr string, patched []string) {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	for _, key := range s.notMine {
		cluster.notMine[key] = true
	}
	for _, key := range s.notAllowed {
		cluster.notAllowed[key] = true
	}
	var out, diagnostics bytes.Buffer
	command := root(console.Environment{Now: func() time.Time { return noon }, Connect: cluster.connect, Terminal: func(stream any) bool { return s.terminal && stream != &diagnostics }})
	command.SetArgs(args)
	command.SetIn(strings.NewReader(s.stdin))
	command.SetOut(&out)
	command.SetErr(&diagnostics)
	code = console.Run(t.Context(), command)
	return code, out.String(), diagnostics.String(), cluster.patched
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

// TestHelpFits: no description is wider than kubectl's own help, and each command has a group.
func TestHelpFits(t *testing.T) {
	const helpWidth = 80
	command := root(console.Environment{})
	for _, each := range append(command.Commands(), command) {
		if each.GroupID == "" && each != command {
			t.Errorf("%s has no group", each.Name())
		}
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
	must(t, os.WriteFile(file, []byte(text), 0o600))
	code, stdout, _, _ := execute(t, scene{}, "lint", "-f", file, "-o", "github")
	if code != 1 || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, "a%2Cb.yaml,line=6,") || !strings.Contains(stdout, "1%25") {
		t.Errorf("exit status %d:\n%s", code, stdout)
	}
}
