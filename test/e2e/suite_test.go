package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/test/harness"
)

// suite is what all tests share.
var suite struct {
	cluster    *harness.Cluster
	proxy      *harness.Proxy // between the controller and the API server
	webhook    *harness.Curfew
	controller *harness.Curfew
	inTreeTTL  bool
	revoked    sync.Map // API groups of tests that take permissions away
	peers      peers    // nothing of them runs but for make test-full PART=peers
}

func TestMain(m *testing.M) {
	suite.inTreeTTL = os.Getenv("IN_TREE_TTL") == "1"
	folder := ".e2e" // one for each of the ways, which may run at the same time
	if suite.inTreeTTL {
		folder += "-in-tree"
	}
	trainer := harness.Trainer
	trainer.Version = os.Getenv("PEERS")
	if trainer.Version != "" {
		folder += "-trainer-" + trainer.Version
	}
	options := harness.ClusterOptions{InTreeTTL: suite.inTreeTTL, AuditLog: true, Install: os.Getenv("INSTALL")}
	os.Exit(harness.Main(folder, options, func(ctx context.Context, cluster *harness.Cluster) (int, error) {
		suite.cluster = cluster
		return run(ctx, m, trainer)
	}))
}

func run(ctx context.Context, m *testing.M, trainer harness.Peer) (code int, err error) {
	if err := suite.cluster.InstallCRDs(ctx, harness.JobSet, trainer); err != nil {
		return 0, err
	}
	for _, name := range []string{"curfew-webhook", "curfew-controller"} {
		if err := os.RemoveAll(suite.cluster.Log(name)); err != nil {
			return 0, fmt.Errorf("remove an earlier run's log: %w", err)
		}
	}
	if suite.proxy, err = harness.NewProxy(suite.cluster.Config); err != nil {
		return 0, err
	}
	defer suite.proxy.Close()
	if err := startWebhook(ctx, 0); err != nil {
		return 0, err
	}
	defer func() { err = stopped(suite.webhook, err) }()
	if err := startController(ctx); err != nil {
		return 0, err
	}
	defer func() { err = stopped(suite.controller, err) }()
	if trainer.Version != "" {
		if err := suite.peers.start(ctx, trainer); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, suite.peers.stop()) }()
	}

	code = m.Run()

	return code, errors.Join(nothingForbidden(), everyGrantUsed(ctx))
}

// nothingForbidden: whatever the tests made Curfew do, its permissions were enough, but for those
// that a test took away between Curfew's asking for them and its using them. It comes last, when
// all has been done.
func nothingForbidden() error {
	refused, err := suite.cluster.Forbidden()
	if err != nil {
		return err
	}
	suite.revoked.Range(func(group, _ any) bool {
		refused = slices.DeleteFunc(refused, func(request string) bool { return strings.Contains(request, "/apis/"+group.(string)+"/") })
		return true
	})
	if len(refused) > 0 {
		return fmt.Errorf("RBAC refused requests of Curfew, manifests/rbac lacks a rule:\n%s", strings.Join(refused, "\n"))
	}
	return nil
}

func stopped(process *harness.Curfew, earlier error) error {
	ctx, end := harness.Waiting(context.Background(), process.Name+" to stop")
	defer end()
	if err := process.Stop(ctx); earlier == nil && err != nil {
		return err
	}
	return earlier
}

// everyMinute lets a test wait for several runs of a cleanup policy, which the shipped minimum of 5
// minutes would not.
const everyMinute = "--cleanup-min-interval=1m"

// parallel has a test run beside others, after all that do not. Those find Curfew as it is shipped:
// they are about failing open and about the time that a review takes, or stop what all share.
// Beside others any review may take long, and none may be skipped.
func parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	if err := makeCertain(); err != nil {
		t.Fatal(err)
	}
}

var makeCertain = sync.OnceValue(func() error {
	ctx, end := harness.Waiting(context.Background(), "webhooks that fail closed")
	defer end()
	suite.cluster.Patient, suite.cluster.FailClosed = true, true
	if err := suite.cluster.Install(ctx, suite.webhook.WebhookPort); err != nil {
		return err
	}
	if err := suite.controller.Stop(ctx); err != nil {
		return err
	}
	if err := startController(ctx); err != nil {
		return err
	}
	return suite.cluster.WaitForWebhook(ctx)
})

// full skips a test that waits for minutes, if not for make test-full. Others have the same as unit
// tests, with a clock of their own.
func full(t *testing.T) {
	t.Helper()
	if os.Getenv("FULL") == "" {
		t.Skip("FULL is not set: it waits for minutes")
	}
}

// startWebhook starts the webhook, on a port that it had before if there is one: the manifests are
// installed for that.
func startWebhook(ctx context.Context, port int, args ...string) (err error) {
	args = append([]string{everyMinute}, args...)
	if suite.webhook, err = suite.cluster.StartWebhook(ctx, harness.CurfewOptions{Port: port, Installed: port != 0, Args: args}); err != nil {
		return err
	}
	return suite.cluster.WaitForWebhook(ctx)
}

// startController starts the controller, which takes the lease of one that was stopped at once.
func startController(ctx context.Context, args ...string) (err error) {
	if suite.controller != nil && suite.controller.Err() != nil {
		// Not as in a cluster: after one that was killed, no test waits 15 s until its lease has expired.
		// TestLeaderIsKilled does.
		err := suite.cluster.Client.CoordinationV1().Leases(harness.Namespace).Delete(ctx, "curfew-controller", metav1.DeleteOptions{})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	suite.controller, err = suite.cluster.StartController(ctx, harness.CurfewOptions{
		Proxy: suite.proxy, Args: append([]string{everyMinute}, args...)})
	return err
}
