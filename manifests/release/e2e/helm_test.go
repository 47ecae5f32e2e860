package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/manifests/release/chart"
	"curfew.dev/curfew/manifests/release/chart/charttest"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

const (
	testNamespace = "curfew-test"
	ownSelector   = " kubernetes.io/metadata.name curfew.dev/in-use\n" // of the first webhook of each configuration
	mine          = "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: mine}, spec: {match: {kinds: [{group: '', kind: ConfigMap}]}, " +
		"defaults: {ttlLabel: {value: 7d}}}}"
)

// TestHelm installs the chart of the previous version. Helm upgrades it to this version, tests the
// release, rolls it back and uninstalls it. CRDs, policies and the namespace of the test stay.
func TestHelm(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	services, err := harness.NewServices(short(t))
	must(t, err)
	defer services.Close()
	cluster := start(ctx, t, services)
	install := action.NewInstall(helm(t, cluster))
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.WaitStrategy = "curfew", harness.Namespace, true, kube.HookOnlyStrategy
	// With the same image, later upgrades replace no Pod and so leave the tokens of those that run valid.
	_, err = install.RunWithContext(ctx, older(ctx, t), map[string]any{"image": map[string]any{"tag": "v1"}})
	must(t, err)
	must(t, harness.WaitForRoles(ctx, cluster.Client))
	_, stderr, err := cluster.KubectlInput(ctx, mine, "create", "-f", "-")
	if err != nil {
		t.Fatal(err, stderr)
	}
	var kept map[string]bool
	keep := func(least int) {
		t.Helper()
		kept, err = cluster.Inventory(ctx)
		must(t, err)
		maps.DeleteFunc(kept, func(name string, _ bool) bool {
			return !strings.HasPrefix(name, "customresourcedefinitions.") && name != "lifecyclepolicies.curfew.dev mine" && name != "namespaces "+testNamespace
		})
		if len(kept) < least {
			t.Fatalf("only %v", kept)
		}
	}
	stays := func(after, annotation string) {
		t.Helper()
		if got, want := configurations(ctx, t, cluster), annotation+ownSelector+annotation+ownSelector; got != want {
			t.Errorf("%s: the webhook configurations have\n%swant\n%s", after, got, want)
		}
		now, err := cluster.Inventory(ctx)
		must(t, err)
		if lost := harness.Added(now, kept); len(lost) > 0 {
			t.Errorf("%s: %q is gone", after, lost)
		}
	}
	keep(11)
	stays("install", "")
	must(t, upgrade(ctx, t, cluster, "a", func(u *action.Upgrade) { u.ReuseValues = true }))
	stays("upgrade from the previous version", "a")
	keep(12)

	t.Run("running", func(t *testing.T) {
		binary := unpack(t)
		err := waits(ctx, t, cluster, binary, "1s")
		if err == nil || !strings.Contains(err.Error(), "the API server does not call Curfew's webhooks after 1s") {
			t.Errorf("the hook before the webhook runs: %v", err)
		}
		startPods(ctx, t, cluster, services, binary)
		must(t, waits(ctx, t, cluster, binary, "1m"))
		helmTest(ctx, t, cluster)
		enforce(ctx, t, cluster, "admissions.enforcer/disabled!=true")
		must(t, upgrade(ctx, t, cluster, "b", func(u *action.Upgrade) { u.ReuseValues = true }))
		stays("upgrade", "b")
		enforce(ctx, t, cluster, "")
		err = upgrade(ctx, t, cluster, "c", func(u *action.Upgrade) { u.ReuseValues = true })
		if err == nil || !strings.Contains(err.Error(), `conflict with "enforcer"`) || !strings.Contains(err.Error(), "namespaceSelector") {
			t.Errorf("upgrade over the requirement of another controller: %v, want a conflict", err)
		}
		must(t, upgrade(ctx, t, cluster, "c", func(u *action.Upgrade) { u.ReuseValues, u.ForceConflicts = true, true }))
		stays("upgrade with --force-conflicts", "c")
		must(t, cluster.WaitForWebhook(ctx))
	})
	must(t, upgrade(ctx, t, cluster, "d", func(u *action.Upgrade) { u.ResetThenReuseValues = true }))
	stays("upgrade to the defaults of this version", "d")
	rollback := action.NewRollback(helm(t, cluster))
	rollback.Version, rollback.WaitStrategy = 1, kube.HookOnlyStrategy
	must(t, rollback.Run("curfew"))
	stays("rollback to the previous version", "")

	uninstall := action.NewUninstall(helm(t, cluster))
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err = uninstall.Run("curfew")
	must(t, err)
	after, err := cluster.Inventory(ctx)
	must(t, err)
	if lost := harness.Added(after, kept); len(lost) > 0 || after["mutatingwebhookconfigurations.admissionregistration.k8s.io curfew"] {
		t.Errorf("after helm uninstall: %q is gone, and the webhook configuration must be", lost)
	}
}

// helm is what each command of Helm starts with.
func helm(t *testing.T, cluster *harness.Cluster) *action.Configuration {
	t.Helper()
	settings, out := cli.New(), action.NewConfiguration()
	settings.KubeConfig = cluster.Kubeconfig
	settings.SetNamespace(harness.Namespace)
	must(t, out.Init(settings.RESTClientGetter(), harness.Namespace, "secrets"))
	return out
}

// older makes the chart of the previous version. Where its commit is missing, it is this version's
// chart with the values of the first one.
func older(ctx context.Context, t *testing.T) *helmchart.Chart {
	t.Helper()
	folder := t.TempDir()
	found, err := harness.UnpackPrevious(ctx, folder)
	must(t, err)
	if !found {
		t.Log("the commit of the previous version is not here: installing this version with the values of the first one")
		return load(t, "v9.8.6", "values-first.yml")
	}
	command := exec.CommandContext(ctx, "go", "run", ".", "-version", "v9.8.6", "-repository", "curfew", "chart")
	command.Dir, command.Env = filepath.Join(folder, "manifests", "release"), append(os.Environ(), "GOWORK=off")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("making the chart of the previous version: %v\n%s", err, text)
	}
	out, err := loader.LoadFile(filepath.Join(folder, "dist", "curfew-9.8.6.tgz"))
	must(t, err)
	return out
}

// load makes the chart of a version, with other default values if values names a file of them.
func load(t *testing.T, version, values string) *helmchart.Chart {
	t.Helper()
	files, err := chart.Files(&chart.Options{Root: root, Repository: "curfew", Version: version})
	must(t, err)
	if values != "" {
		files["values.yaml"], err = os.ReadFile(filepath.Join("..", "chart", "testdata", values))
		must(t, err)
	}
	out, err := charttest.Load(files)
	must(t, err)
	return out
}

// upgrade changes one value each time, an annotation of the webhook configurations.
func upgrade(ctx context.Context, t *testing.T, cluster *harness.Cluster, annotation string, change func(*action.Upgrade)) error {
	t.Helper()
	command := action.NewUpgrade(helm(t, cluster))
	command.Namespace, command.WaitStrategy, command.DisableHooks = harness.Namespace, kube.HookOnlyStrategy, true
	change(command)
	values := map[string]any{"testNamespace": testNamespace, "webhook": map[string]any{"annotations": map[string]any{"changed": annotation}}}
	_, err := command.RunWithContext(ctx, "curfew", load(t, version, ""), values)
	return err
}

// waits upgrades with the hook that waits for the webhook, and runs its Pods as a kubelet does. The
// error has what the last one wrote.
func waits(ctx context.Context, t *testing.T, cluster *harness.Cluster, binary harness.Image, timeout string) error {
	t.Helper()
	values := map[string]any{"waitForWebhook": map[string]any{"enabled": true, "timeout": timeout, "podAnnotations": map[string]any{"cluster.curfew.dev/hold": "true"}}}
	command, done := action.NewUpgrade(helm(t, cluster)), make(chan error, 1)
	command.Namespace, command.WaitStrategy, command.ReuseValues, command.Timeout = harness.Namespace, kube.HookOnlyStrategy, true, harness.Patience
	go func() {
		_, err := command.RunWithContext(ctx, "curfew", load(t, version, ""), values)
		done <- err
	}()
	pods := cluster.Client.CoreV1().Pods(harness.Namespace)
	watcher, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=wait"})
	must(t, err)
	defer watcher.Stop()
	output := ""
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%w\n%s", err, output)
			}
			return nil
		case event := <-watcher.ResultChan():
			pod, _ := event.Object.(*corev1.Pod)
			if event.Type != watch.Added || pod.Status.Phase != corev1.PodPending {
				continue
			}
			started := runPod(ctx, t, cluster, pod, binary)
			<-started.Ended()
			phase, text := corev1.PodSucceeded, harness.Tail(started.Log, 20)
			if !started.State.Success() {
				phase, output = corev1.PodFailed, text
			}
			_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase), metav1.PatchOptions{}, "status")
			must(t, err)
		}
	}
}

// configurations prints the annotation of upgrade and the keys of the first namespaceSelector, a line
// for each configuration.
func configurations(ctx context.Context, t *testing.T, cluster *harness.Cluster) string {
	t.Helper()
	out, stderr, err := cluster.Kubectl(ctx, "get", "mutatingwebhookconfigurations/curfew", "validatingwebhookconfigurations/curfew", "-o",
		`jsonpath={range .items[*]}{.metadata.annotations.changed} {.webhooks[0].namespaceSelector.matchExpressions[*].key}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err, stderr)
	}
	return out
}

// enforce adds a requirement to the first webhook of each configuration that a selector of labels
// finds. AKS's admissions enforcer selects those without its label.
func enforce(ctx context.Context, t *testing.T, cluster *harness.Cluster, selector string) {
	t.Helper()
	const patch = `[{"op":"add","path":"/webhooks/0/namespaceSelector/matchExpressions/-","value":{"key":"control-plane","operator":"NotIn","values":["true"]}}]`
	client, err := dynamic.NewForConfig(cluster.Config)
	must(t, err)
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		configurations := client.Resource(admissionv1.SchemeGroupVersion.WithResource(resource))
		list, err := configurations.List(ctx, metav1.ListOptions{LabelSelector: selector, FieldSelector: "metadata.name=curfew"})
		must(t, err)
		for _, item := range list.Items {
			_, err = configurations.Patch(ctx, item.GetName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "enforcer"})
			must(t, err)
		}
	}
}

// helmTest runs helm test. Its Pod succeeds here, without a kubelet, if it has the default TTL.
func helmTest(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	t.Helper()
	must(t, cluster.WaitForServiceAccount(ctx, testNamespace))
	inUse(ctx, t, cluster, testNamespace)
	pods := cluster.Client.CoreV1().Pods(testNamespace)
	watcher, err := pods.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watcher.Stop()
	command, done := action.NewReleaseTesting(helm(t, cluster)), make(chan error, 1)
	command.Timeout = harness.Patience
	go func() {
		_, shutdown, err := command.Run("curfew")
		if err == nil {
			err = shutdown()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatal("helm test ended without a Pod:", err)
	case event := <-watcher.ResultChan():
		pod, _ := event.Object.(*corev1.Pod)
		if ttl := pod.Annotations[wellknown.AnnotationTTL]; ttl != "10m" {
			t.Errorf("the Pod of helm test has the TTL %q, want 10m", ttl)
		}
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		must(t, err)
	}
	must(t, <-done)
}

// inUse waits until objects of a namespace are sent to the webhook: a new leader labels it.
func inUse(ctx context.Context, t *testing.T, cluster *harness.Cluster, name string) {
	t.Helper()
	must(t, harness.Poll(ctx, "namespace "+name+" to be in use", func(ctx context.Context) (bool, error) {
		namespace, err := cluster.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err == nil && namespace.Labels[wellknown.LabelInUse] != "", err
	}))
}
