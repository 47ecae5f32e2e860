package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// line is a command line as a person would type it, from the tests' testdata.
type line struct {
	// text is given to a shell.
	text string
	// kubeconfig of who types it; empty means the administrator's.
	kubeconfig string
	stdin      string
	// zone that the machine is in; nil means UTC.
	zone *zone
	// dir that it is typed in; empty means testdata.
	dir string
}

// answer is what came of it.
type answer struct {
	stdout, stderr string
	code           int
}

// command is kubectl as people call it, with its plugin on the PATH.
func (l line) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", l.text)
	cmd.Dir = cmp.Or(l.dir, "testdata")
	zone := "UTC"
	if l.zone != nil {
		zone = l.zone.file
	}
	kubeconfig := l.kubeconfig
	if kubeconfig == "" {
		kubeconfig = suite.cluster.Kubeconfig
	}
	// kubectl is in a folder of its own, by that name.
	path := strings.Join([]string{filepath.Join(suite.root, "bin"), filepath.Dir(suite.cluster.KubectlPath()), os.Getenv("PATH")}, string(filepath.ListSeparator))
	cmd.Env = slices.Concat(os.Environ(), []string{"KUBECONFIG=" + kubeconfig, "PATH=" + path, "TZ=" + zone, "TERM=xterm"})
	return cmd
}

// atOnce bounds how many run at the same time: each takes its part of a core to start.
var atOnce = make(chan struct{}, 3)

// typed runs a command line to its end.
func typed(t *testing.T, l line) answer {
	t.Helper()
	atOnce <- struct{}{}
	defer func() { <-atOnce }()
	out, err := l.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (l line) run(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := l.command(ctx)
	cmd.Stdin = strings.NewReader(l.stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return answer{}, fmt.Errorf("%s: %w", l.text, err)
	}
	return answer{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}, nil
}

// kubectl runs a command line as the administrator, and fails the test unless its exit status is 0.
func kubectl(t *testing.T, text string) answer {
	t.Helper()
	out := typed(t, line{text: "kubectl " + text})
	if out.code != 0 {
		t.Fatalf("kubectl %s: exit status %d\n%s%s", text, out.code, out.stdout, out.stderr)
	}
	return out
}
