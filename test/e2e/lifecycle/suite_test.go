package lifecycle

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/test/harness"
)

// suite is what all tests share.
var suite struct {
	root    string
	cluster *harness.Cluster
	// bare are all objects of the control plane before anything was installed.
	bare map[string]bool
}

// hold, on a Pod, keeps it running.
const hold = "cluster.curfew.dev/hold"

func TestMain(m *testing.M) {
	os.Exit(harness.Main(".e2e-lifecycle", harness.ClusterOptions{AuditLog: true}, func(ctx context.Context, cluster *harness.Cluster) (int, error) {
		suite.cluster = cluster
		return run(ctx, m)
	}))
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if suite.root, err = harness.Root(); err != nil {
		return 0, err
	}
	suite.cluster.Patient = true // Nothing fails closed: tests end the webhook and go on.
	if err := suite.cluster.WaitForServiceAccount(ctx, "default"); err != nil {
		return 0, err
	}
	err = harness.Poll(ctx, "each namespace to have the CA's certificate", func(ctx context.Context) (done bool, err error) {
		suite.bare, err = suite.cluster.Inventory(ctx)
		for name := range suite.bare {
			if namespace, ok := strings.CutPrefix(name, "namespaces "); ok && !suite.bare["configmaps "+namespace+"/kube-root-ca.crt"] {
				return false, err
			}
		}
		return err == nil, err
	})
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// full skips a test that waits for minutes, if not for make test-full.
func full(t *testing.T) {
	t.Helper()
	if os.Getenv("FULL") == "" {
		t.Skip("FULL is not set: it waits for minutes")
	}
}

// fixture is an installation for one test.
type fixture struct {
	*testing.T
	ctx                 context.Context
	webhook, controller *harness.Curfew
}

// alone is held by the test that uses the suite's control plane. TestGuides, which has its own and
// waits most of the time, runs beside it.
var alone sync.Mutex

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	alone.Lock()
	t.Cleanup(alone.Unlock)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx}
	t.Cleanup(func() { // Runs last, when Curfew's processes have ended.
		f.ctx = context.WithoutCancel(f.ctx)
		f.kubectl("", "curfew", "uninstall", "--yes")
		f.removeRest()
		f.kubectl("", "delete", "-k", filepath.Join(suite.root, overlay), "--ignore-not-found", "--timeout=10m")
		f.kubectl("", "delete", "namespace", "ci", "--ignore-not-found", "--timeout=10m")
	})
	return f
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// start installs a version and runs it.
func (f *fixture) start(version *harness.Cluster) {
	f.Helper()
	webhook, err := version.StartWebhook(f.ctx, harness.CurfewOptions{})
	f.ok(err)
	f.Cleanup(func() { f.ok(webhook.Kill()) })
	f.ok(suite.cluster.WaitForWebhook(f.ctx))
	controller, err := version.StartController(f.ctx, harness.CurfewOptions{})
	f.ok(err)
	f.Cleanup(func() { f.ok(controller.Kill()) })
	f.webhook, f.controller = webhook, controller
}

// overlay is what start installs, with the permissions of the HTTP API.
const overlay = "manifests/overlays/local"

// removeRest runs the command that uninstall prints, with what start installed.
func (f *fixture) removeRest() {
	f.Helper()
	for _, source := range [][2]string{{"-k", overlay}, {"-f", "manifests/components/http-api/rbac.yaml"}} {
		f.kubectl("", "delete", source[0], filepath.Join(suite.root, source[1]), "-l", "app.kubernetes.io/name=curfew", "--ignore-not-found")
	}
}

// last runs the command that uninstall prints when the rest is gone: it deletes the CRDs.
func (f *fixture) last() {
	f.Helper()
	_, output := f.kubectl("", "curfew", "uninstall")
	f.says(output, "The CRDs stay", "policies, PodTallies and reports")
	_, command, _ := strings.Cut(output, "\n  kubectl ")
	f.kubectl("", strings.Fields(command)...)
}

// kubectl runs a command that succeeds.
func (f *fixture) kubectl(input string, args ...string) (stdout, stderr string) {
	f.Helper()
	stdout, stderr, err := suite.cluster.KubectlInput(f.ctx, input, args...)
	if err != nil {
		f.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout, stderr
}

// refused runs a command that fails, and returns what it says.
func (f *fixture) refused(args ...string) string {
	f.Helper()
	stdout, stderr, err := suite.cluster.Kubectl(f.ctx, args...)
	if err == nil {
		f.Fatalf("kubectl %s succeeded:\n%s%s", strings.Join(args, " "), stdout, stderr)
	}
	return stdout + stderr
}

func (f *fixture) await(what string, until wait.ConditionWithContextFunc) {
	f.Helper()
	if err := harness.Poll(f.ctx, f.Name()+": "+what, until); err != nil {
		f.Fatalf("waiting for %s: %v", what, err)
	}
}

// all lists all objects of all kinds.
func (f *fixture) all() map[string]bool {
	f.Helper()
	out, err := suite.cluster.Inventory(f.ctx)
	f.ok(err)
	return out
}

// same compares two inventories.
func (f *fixture) same(what string, before, after map[string]bool) {
	f.Helper()
	if more, less := harness.Added(before, after), harness.Added(after, before); len(more)+len(less) > 0 {
		f.Errorf("%s: there are more objects %q, and fewer %q", what, more, less)
	}
}

// says fails unless a text has all parts.
func (f *fixture) says(text string, parts ...string) {
	f.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			f.Errorf("it does not say %q:\n%s", part, text)
		}
	}
}
