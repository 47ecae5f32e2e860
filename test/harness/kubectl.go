package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Kubectl runs the kubectl binary as the administrator. The error is that of a command that failed;
// what it has to say is in stderr, as a person would read it.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return c.KubectlInput(ctx, "", args...)
}

// KubectlInput is Kubectl with a standard input, for `-f -`.
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, c.kubectl, args...)
	// kubectl finds its plugin, `kubectl curfew`, by the PATH.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig,
		"PATH="+filepath.Join(c.root, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	// kubectl 1.32 reads what begins with a brace as JSON alone.
	if strings.HasPrefix(strings.TrimSpace(input), "{") && args[0] != "curfew" && !json.Valid([]byte(input)) {
		input = "---\n" + input
	}
	cmd.Stdin = strings.NewReader(input)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if !slices.Contains(args, "wait") && !slices.Contains(args, "delete") { // Those mostly sleep.
		select {
		case kubectls <- struct{}{}:
			defer func() { <-kubectls }()
		case <-ctx.Done():
			return "", "", ctx.Err()
		}
	}
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// kubectls bounds how many run at once. Each takes a tenth of a second of a core to start, so that
// a few dozen of them would keep the control plane and Curfew from their work, and tests would find
// that late.
var kubectls = make(chan struct{}, 3)

// mustKubectl runs kubectl for the harness itself. An error has what kubectl printed.
func (c *Cluster) mustKubectl(ctx context.Context, input string, args ...string) (string, error) {
	stdout, stderr, err := c.KubectlInput(ctx, input, args...)
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, stderr)
	}
	return stdout, nil
}
