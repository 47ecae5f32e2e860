package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"curfew.dev/curfew/test/harness"
)

// suite is what all tests share.
var suite struct {
	root       string
	cluster    *harness.Cluster
	webhook    *harness.Curfew
	controller *harness.Curfew
}

// controllers are all but those that would change what the tests wrote: without them a status stays as it is.
const controllers = "*,-node-ipam-controller,-ttl-after-finished-controller,-job-controller,-deployment-controller,-replicaset-controller," +
	"-pod-garbage-collector-controller"

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/cli:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if suite.root, err = harness.Root(); err != nil {
		return 0, err
	}
	dir := filepath.Join(suite.root, ".e2e-cli")
	if err := harness.StopCluster(ctx, dir); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, harness.StopCluster(context.Background(), dir)) }()
	suite.cluster, err = harness.StartCluster(ctx, harness.ClusterOptions{Dir: dir, Controllers: controllers, Out: os.Stderr})
	if err != nil {
		return 0, err
	}
	if err := suite.cluster.InstallCRDs(ctx, harness.JobSet, harness.Trainer); err != nil {
		return 0, err
	}
	if suite.webhook, err = suite.cluster.StartWebhook(ctx, harness.CurfewOptions{}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop(suite.webhook)) }()
	if err := suite.cluster.WaitForWebhook(ctx); err != nil {
		return 0, err
	}
	if err := startController(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop(suite.controller)) }()
	return m.Run(), nil
}

func startController(ctx context.Context, args ...string) (err error) {
	suite.controller, err = suite.cluster.StartController(ctx, harness.CurfewOptions{Args: append([]string{"--leader-elect=false"}, args...)})
	return err
}

// stop ends a process of Curfew; one that a test ended already is fine.
func stop(process *harness.Curfew) error {
	select {
	case <-process.Ended():
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return process.Stop(ctx)
}
