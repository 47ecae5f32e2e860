package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// cliListOptions are the flags of the list of the kubectl plugin.
var cliListOptions struct{ jobs, rounds int }

func init() {
	register(bench{
		name: "cli_list", about: "kubectl curfew expiring beside kubectl get", position: 65, run: runCLIList,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&cliListOptions.jobs, "cli_list-jobs", 5000, "how many finished Jobs are listed")
			fs.IntVar(&cliListOptions.rounds, "cli_list-rounds", 5, "how many rounds; each runs both programs once")
		},
	})
}

func cliListResult(jobs int) string { return "cli.expiring." + sizeName(jobs) + ".vs_get" }

// runCLIList has both programs print the same Jobs, by turns. Each is started for it and looks up
// the API server's kinds in a cache on disk, which an earlier run has filled.
func runCLIList(ctx context.Context, e *environment) ([]result, error) {
	o := cliListOptions
	plugin := filepath.Join(e.root, "bin", "kubectl-curfew")
	if err := e.command(ctx, "go", "build", "-o", plugin, "./cmd/kubectl-curfew"); err != nil {
		return nil, err
	}
	if err := e.backlog(ctx, o.jobs); err != nil {
		return nil, err
	}
	// The plugin wants to know of a controller what it does.
	controller, err := e.launchCurfew(ctx, e.logPath("cli_list-controller"), e.curfewConfig)
	if err != nil {
		return nil, err
	}
	defer controller.stop()
	if err := controller.awaitTracked(ctx, o.jobs, time.Minute); err != nil {
		return nil, err
	}
	last := jobSet{prefix: backlogPrefix}.name(o.jobs - 1)
	list := func(name string, args ...string) (float64, error) {
		took, said, err := timed(ctx, name, append(args, "--namespace", benchNamespace, "--kubeconfig", e.state.Kubeconfig)...)
		if err == nil && !strings.Contains(said, last) {
			err = fmt.Errorf("%s does not list %s: it measures something else", filepath.Base(name), last)
		}
		return took, err
	}
	var expiring, get []float64
	for n := 0; n <= o.rounds; n++ {
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
		fmt.Fprintf(e.out, "round %d of %d: kubectl curfew expiring %.2f s, kubectl get %.2f s\n", n, o.rounds, curfew, bare)
		expiring, get = append(expiring, curfew), append(get, bare)
	}
	return []result{compare(cliListResult(o.jobs), "s", expiring, "kubectl get of the same Jobs", get)}, nil
}
