package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// runCLIList has both programs print the same Jobs, by turns. Each is started for it and looks up
// the API server's kinds in a cache on disk, which an earlier run has filled.
func runCLIList(ctx context.Context, e *environment) ([]result, error) {
	plugin := filepath.Join(e.root, "bin", "kubectl-curfew")
	if err := e.command(ctx, "go", "build", "-o", plugin, "./cmd/kubectl-curfew"); err != nil {
		return nil, err
	}
	if err := e.backlog(ctx, e.objects); err != nil {
		return nil, err
	}
	// The plugin wants to know of a controller what it does.
	controller, err := e.launchCurfew(ctx, e.logPath("cli_list-controller"), e.curfewConfig)
	if err != nil {
		return nil, err
	}
	defer controller.stop()
	if err := controller.awaitTracked(ctx, e.objects, time.Minute); err != nil {
		return nil, err
	}
	last := jobSet{prefix: backlogPrefix}.name(e.objects - 1)
	list := func(name string, args ...string) (float64, error) {
		took, output, err := timed(ctx, name, append(args, "--namespace", benchNamespace, "--kubeconfig", e.state.Kubeconfig)...)
		if err == nil && !strings.Contains(output, last) {
			err = fmt.Errorf("%s does not list %s: it measures something else", filepath.Base(name), last)
		}
		return took, err
	}
	var expiring, get []float64
	for n := 0; n <= e.rounds; n++ {
		curfew, err := list(plugin, "expiring", "--within", "60d")
		if err != nil {
			return nil, err
		}
		bare, err := list(e.state.Kubectl, "get", "jobs")
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue // It fills the caches.
		}
		fmt.Fprintf(e.out, "round %d of %d: kubectl curfew expiring %.2f s, kubectl get %.2f s\n", n, e.rounds, curfew, bare)
		expiring, get = append(expiring, curfew), append(get, bare)
	}
	return []result{compare("cli.expiring."+sizeName(e.objects)+".vs_get", "s", expiring, "kubectl get of the same Jobs", get)}, nil
}

// timed runs a program and returns how many seconds it took, and what it printed.
func timed(ctx context.Context, name string, args ...string) (float64, string, error) {
	var out, buffer bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &buffer
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, buffer.String())
	}
	return time.Since(began).Seconds(), out.String(), nil
}
