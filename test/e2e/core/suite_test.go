package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/test/harness"
)

// cluster is the control plane that all tests share.
var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(".e2e-core", harness.ClusterOptions{InTreeTTL: true}, func(ctx context.Context, started *harness.Cluster) (int, error) {
		cluster = started
		return run(ctx, m)
	}))
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if err := cluster.InstallCRDs(ctx, harness.JobSet); err != nil {
		return 0, err
	}
	webhook, err := cluster.StartWebhook(ctx, harness.CurfewOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, webhook.Kill()) }()
	if err := cluster.WaitForWebhook(ctx); err != nil {
		return 0, err
	}
	// Curfew may delete ConfigMaps only where that is granted.
	if _, stderr, err := cluster.KubectlInput(ctx, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
		metadata: {name: core-configmaps, labels: {curfew.dev/aggregate-to-controller: "true"}},
		rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, delete]}]}`, "apply", "-f", "-"); err != nil {
		return 0, fmt.Errorf("%w: %s", err, stderr)
	}
	controller, err := cluster.StartController(ctx, harness.CurfewOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, controller.Kill()) }()
	return m.Run(), nil
}

// space is a test's own namespace.
type space struct {
	*testing.T
	name string
}

var spaces atomic.Int64

// newSpace makes a namespace with annotations, as a YAML map.
func newSpace(t *testing.T, annotations string) *space {
	t.Helper()
	t.Parallel()
	s := &space{T: t, name: fmt.Sprintf("core-%d", spaces.Add(1))}
	s.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + s.name + ", annotations: {" + annotations + "}}}")
	if err := cluster.WaitForServiceAccount(t.Context(), s.name); err != nil {
		t.Fatal(err)
	}
	return s
}

// try runs kubectl in the namespace.
func (s *space) try(input string, args ...string) (stdout, stderr string, err error) {
	ctx, end := harness.Waiting(s.Context(), s.Name()+": kubectl "+strings.Join(args, " "))
	defer end()
	// kubectl allows no flags before the name of a plugin.
	return cluster.KubectlInput(ctx, input, append(args, "--namespace", s.name)...)
}

// kubectl runs a command that succeeds.
func (s *space) kubectl(args ...string) (stdout, stderr string) {
	s.Helper()
	stdout, stderr, err := s.try("", args...)
	if err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return stdout, stderr
}

func (s *space) apply(manifest string) (stderr string) {
	s.Helper()
	_, stderr, err := s.try(manifest, "apply", "-f", "-")
	if err != nil {
		s.Fatalf("%v\n%s\n%s", err, stderr, manifest)
	}
	return stderr
}

// get is a field of an object by its JSONPath, or "" without the object.
func (s *space) get(object, path string) string {
	s.Helper()
	stdout, _ := s.kubectl("get", object, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
	return stdout
}

// poll waits for a condition.
func (s *space) poll(what string, condition func() bool) {
	s.Helper()
	var until wait.ConditionWithContextFunc = func(context.Context) (bool, error) { return condition(), nil }
	if err := harness.Poll(s.Context(), s.Name()+": "+what, until); err != nil {
		s.Fatal(err)
	}
}

// says fails the test unless a text has all parts.
func (s *space) says(text string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.Errorf("it does not say %q:\n%s", part, text)
		}
	}
}
