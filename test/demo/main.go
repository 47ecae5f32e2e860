package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"curfew.dev/curfew/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], newScreen(os.Stdout))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, screen *screen) error {
	if len(args) != 1 {
		return errors.New("usage: demo tour | run | up | down")
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	background := filepath.Join(root, ".cluster")
	switch args[0] {
	case "tour":
		return withCurfew(ctx, filepath.Join(root, ".demo", "tour"), screen, func(ctx context.Context, stage *stage) error {
			return tour(ctx, stage, filepath.Join(root, "test", "demo", "manifests"))
		})
	case "run":
		return withCurfew(ctx, filepath.Join(root, ".demo", "run"), screen, play)
	case "up":
		return up(ctx, background, screen)
	case "down":
		return errors.Join(harness.StopDetached(ctx, background), harness.StopCluster(ctx, background))
	default:
		return fmt.Errorf("unknown command %q: take tour, run, up or down", args[0])
	}
}

// stage is what a tour plays on.
type stage struct {
	*screen
	root       string // of the repository
	cluster    *harness.Cluster
	controller *harness.Curfew
}

// withCurfew brings a control plane and Curfew up, lets do work with them, and takes all down,
// whatever happened. A second Ctrl-C does not cut the taking down short; it takes a few seconds.
func withCurfew(ctx context.Context, dir string, screen *screen, do func(context.Context, *stage) error) (err error) {
	// What an earlier one left behind, if it was killed.
	if err := harness.StopCluster(ctx, dir); err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, harness.StopCluster(last, dir))
	}()
	screen.note("starting a control plane: etcd, kube-apiserver, controllers (Kubernetes' own TTL controller included), and a node that is played by kwok")
	root, err := harness.Root()
	if err != nil {
		return err
	}
	stage := &stage{screen: screen, root: root}
	if stage.cluster, err = harness.StartCluster(ctx, harness.ClusterOptions{Dir: dir, InTreeTTL: true, AuditLog: true, Out: screen.quiet()}); err != nil {
		return err
	}
	keeping, stop := context.WithCancel(ctx)
	var processes errgroup.Group
	defer func() {
		stop()
		err = errors.Join(err, processes.Wait())
	}()
	keep := func(process *harness.Curfew) {
		processes.Go(func() error { return process.KeepRunning(keeping, screen.note) })
	}
	screen.note("installing manifests/overlays/local, starting `curfew webhook` and `curfew controller`")
	webhook, err := stage.cluster.StartWebhook(ctx, harness.CurfewOptions{})
	if err != nil {
		return err
	}
	keep(webhook)
	if stage.controller, err = stage.cluster.StartController(ctx, harness.CurfewOptions{}); err != nil {
		return err
	}
	keep(stage.controller)
	if err := stage.cluster.WaitForWebhook(ctx); err != nil {
		return err
	}
	// An API server that is told to end waits for the watches of its clients, so ours end first.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return do(ctx, stage)
}

func up(ctx context.Context, dir string, screen *screen) error {
	cluster, err := harness.StartCluster(ctx, harness.ClusterOptions{Dir: dir, InTreeTTL: os.Getenv("IN_TREE_TTL") != "0", Out: screen.quiet()})
	if err != nil {
		return err
	}
	if err := cluster.StartDetached(ctx); err != nil {
		return err
	}
	screen.line("Curfew runs against the control plane of " + dir + "; logs are in " + filepath.Join(dir, "logs"))
	screen.line("  export KUBECONFIG=" + cluster.Kubeconfig)
	screen.line("  export PATH=" + filepath.Dir(cluster.KubectlPath()) + ":" + filepath.Join(filepath.Dir(dir), "bin") + ":$PATH   # for kubectl, and kubectl curfew")
	return nil
}
