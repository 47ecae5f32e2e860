package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/manifests/release/chart"
	"curfew.dev/curfew/manifests/release/chart/charttest"
	"curfew.dev/curfew/manifests/release/image"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

var root = filepath.Join("..", "..", "..")

const version = "v9.8.7"

// TestReleaseRuns installs the chart with its defaults; the API server accepts all its variants,
// too. Nothing that Curfew asks for is forbidden, with all triggers or one. In the end
// kubectl curfew uninstall and the commands that it prints leave nothing.
func TestReleaseRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	services, err := harness.NewServices(short(t))
	must(t, err)
	defer services.Close()
	cluster := start(ctx, t, services)
	must(t, cluster.InstallCRDs(ctx, harness.CertManagerKinds, harness.PrometheusOperator))
	bare, err := cluster.Inventory(ctx)
	must(t, err)
	must(t, apply(ctx, cluster, render(t, harness.Namespace, nil)))
	must(t, harness.WaitForRoles(ctx, cluster.Client))
	accept(ctx, t, cluster)
	must(t, cluster.NewNamespace(ctx, "ci", map[string]string{wellknown.AnnotationDefaultTTL: "2s"}))

	t.Run("Pods", func(t *testing.T) { runPods(ctx, t, cluster, services) })
	t.Run("stolen tokens", func(t *testing.T) {
		stealTokens(ctx, t, cluster)
		stealAnother(ctx, t, cluster)
	})
	t.Run("one trigger", func(t *testing.T) { runOneTrigger(ctx, t, cluster) })
	refused, err := cluster.Forbidden()
	must(t, err)
	if len(refused) > 0 {
		t.Errorf("forbidden:\n%s", strings.Join(refused, "\n"))
	}
	t.Run("uninstall", func(t *testing.T) {
		must(t, kubectl(ctx, cluster, "delete", "namespace", "ci", "--timeout=10m"))
		uninstall(ctx, t, cluster, harness.Namespace, bare)
		const other = "elsewhere"
		must(t, applyIn(ctx, cluster, other, render(t, other, nil)))
		uninstall(ctx, t, cluster, other, bare)
	})
}

// runPods has a Job expire while all Pods run.
func runPods(ctx context.Context, t *testing.T, cluster *harness.Cluster, services *harness.Services) {
	startPods(ctx, t, cluster, services, unpack(t))
	inUse(ctx, t, cluster, "ci")
	expire(ctx, t, cluster, "hello", nil)
}

// startPods runs each Pod of the Deployments from the binary of the image, until the test ends: with
// its arguments, probes and token, in a root filesystem that has nothing else. The API server reaches
// the webhook by its Service.
func startPods(ctx context.Context, t *testing.T, cluster *harness.Cluster, services *harness.Services, binary harness.Image) {
	t.Helper()
	var pods []*harness.Pod
	for name, replicas := range map[string]int{"webhook": 2, "controller": 2} {
		for _, pod := range podsOf(ctx, t, cluster, name, replicas) {
			started := runPod(ctx, t, cluster, &pod, binary)
			t.Cleanup(func() {
				if err := started.Terminate(context.Background()); err != nil {
					t.Errorf("%s: %v\n%s", pod.Name, err, harness.Tail(started.Log, 20))
				}
			})
			pods = append(pods, started)
		}
	}
	for _, pod := range pods {
		must(t, pod.WaitReady(ctx))
		services.Serve(cluster, pod)
	}
	must(t, cluster.WaitForWebhook(ctx))
}

// runPod starts the container of a Pod, where this machine permits it.
func runPod(ctx context.Context, t *testing.T, cluster *harness.Cluster, pod *corev1.Pod, binary harness.Image) *harness.Pod {
	t.Helper()
	folder := t.TempDir()
	started, err := cluster.RunPod(ctx, pod, binary, folder)
	if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
		t.Skipf("this machine lets no one make a user namespace, and with it a root filesystem: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { _ = os.Chmod(folder, 0o755) })
	return started
}

// runOneTrigger upgrades the release to a single trigger, which removes the permissions of others.
func runOneTrigger(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	before, after := render(t, harness.Namespace, nil), render(t, harness.Namespace, map[string]any{"triggers": []any{"ttl"}})
	must(t, apply(ctx, cluster, after))
	for _, name := range []string{"clusterrole/curfew-controller-cleanup", "clusterrole/curfew-controller-deadlines",
		"role/curfew-controller-cleanup", "rolebinding/curfew-controller-cleanup"} {
		kind, name, _ := strings.Cut(name, "/")
		if has := "name: " + name + "\n"; !strings.Contains(before, has) || strings.Contains(after, has) {
			t.Errorf("%s: want it in the chart only with all triggers", name)
		}
		must(t, kubectl(ctx, cluster, "delete", kind, name, "-n", harness.Namespace))
	}
	must(t, harness.Poll(ctx, t.Name(), func(ctx context.Context) (bool, error) {
		_, _, err := cluster.Kubectl(ctx, "auth", "can-i", "update", "clustercleanuppolicies.curfew.dev", "--subresource=status", "--as="+account)
		return err != nil, nil
	}))
	controller, err := cluster.StartController(ctx, harness.CurfewOptions{Args: []string{"--enable=ttl"}})
	must(t, err)
	defer func() { must(t, controller.Stop(context.WithoutCancel(ctx))) }()
	expire(ctx, t, cluster, "goodbye", new(int32(2)))
}

// uninstall runs kubectl curfew uninstall and the commands that it prints. They leave nothing but the
// namespace, which Helm creates without a label, and what Curfew wrote there.
func uninstall(ctx context.Context, t *testing.T, cluster *harness.Cluster, namespace string, bare map[string]bool) {
	t.Helper()
	must(t, cluster.WaitForServiceAccount(ctx, namespace))
	must(t, kubectl(ctx, cluster, "curfew", "uninstall", "--yes", "--curfew-namespace", namespace))
	_, stderr, err := cluster.KubectlInput(ctx, render(t, namespace, nil), "delete", "-f", "-", "-l", "app.kubernetes.io/name=curfew", "--ignore-not-found")
	if err != nil {
		t.Fatal(err, stderr)
	}
	_, stderr, err = cluster.Kubectl(ctx, "curfew", "uninstall", "--curfew-namespace", namespace)
	must(t, err)
	_, command, _ := strings.Cut(stderr, "\n  kubectl ")
	must(t, kubectl(ctx, cluster, strings.Fields(command)...))
	must(t, kubectl(ctx, cluster, "delete", "configmap/curfew-settings", "secret/curfew-webhook-tls", "-n", namespace, "--ignore-not-found"))
	after, err := cluster.Inventory(ctx)
	must(t, err)
	want := []string{"configmaps " + namespace + "/kube-root-ca.crt", "namespaces " + namespace, "serviceaccounts " + namespace + "/default"}
	if left := harness.Added(bare, after); !slices.Equal(left, want) {
		t.Errorf("%q is left, want %q", left, want)
	}
	if lost := harness.Added(after, bare); len(lost) > 0 {
		t.Errorf("%q is gone, too", lost)
	}
	must(t, kubectl(ctx, cluster, "delete", "namespace", namespace, "--timeout=10m"))
}

// account is the controller's.
const account = "system:serviceaccount:" + harness.Namespace + ":curfew-controller"

// expire creates a Job with a TTL, or with the default of its namespace, and waits until Curfew has
// deleted it.
func expire(ctx context.Context, t *testing.T, cluster *harness.Cluster, name string, own *int32) {
	t.Helper()
	const namespace = "ci"
	jobs := cluster.Client.BatchV1().Jobs(namespace)
	job, err := jobs.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		TTLSecondsAfterFinished: own,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "hello", Image: "busybox"}}}},
	}}, metav1.CreateOptions{})
	must(t, err)
	if ttl := job.Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 2 {
		t.Errorf("the Job has TTL %v, want 2 s", ttl)
	}
	watcher, err := jobs.Watch(ctx, metav1.ListOptions{ResourceVersion: job.ResourceVersion})
	must(t, err)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted {
			break
		}
	}
	must(t, ctx.Err())
	user, err := cluster.DeletedBy("jobs", namespace, name)
	must(t, err)
	if user != account {
		t.Errorf("%s deleted the Job, want %s", user, account)
	}
}

// start starts a control plane of its own, in which Kubernetes deletes no finished Jobs.
func start(ctx context.Context, t *testing.T, services *harness.Services) *harness.Cluster {
	t.Helper()
	top, err := harness.Root()
	must(t, err)
	dir := filepath.Join(top, ".e2e-install")
	must(t, harness.StopCluster(ctx, dir)) // what an earlier run left behind
	cluster, err := harness.StartCluster(ctx, harness.ClusterOptions{
		Dir: dir, AuditLog: true, Out: os.Stderr, Arguments: []string{services.Argument()}})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// short is a folder whose path leaves room for the name of a socket.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "curfew")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// files are the chart.
var files = sync.OnceValues(func() (map[string][]byte, error) {
	return chart.Files(&chart.Options{Root: root, Repository: "curfew", Version: version})
})

func render(t *testing.T, namespace string, values map[string]any) string {
	t.Helper()
	files, err := files()
	must(t, err)
	manifests, _, err := charttest.Render(files, namespace, values)
	must(t, err)
	return manifests
}

// apply does what `helm install --create-namespace` does: server-side apply.
func apply(ctx context.Context, cluster *harness.Cluster, manifests string, flags ...string) error {
	return applyIn(ctx, cluster, harness.Namespace, manifests, flags...)
}

func applyIn(ctx context.Context, cluster *harness.Cluster, namespace, manifests string, flags ...string) error {
	manifests = "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n---\n" + manifests
	// Hooks are Helm's, and tested with it.
	args := append([]string{"apply", "--server-side", "--field-manager=helm", "-f", "-", "-l", "app.kubernetes.io/component!=wait"}, flags...)
	_, stderr, err := cluster.KubectlInput(ctx, manifests, args...)
	if err != nil {
		return &failed{err, stderr}
	}
	return nil
}

func kubectl(ctx context.Context, cluster *harness.Cluster, args ...string) error {
	if _, stderr, err := cluster.Kubectl(ctx, args...); err != nil {
		return &failed{err, stderr}
	}
	return nil
}

type failed struct {
	error
	output string
}

// Error implements error.
func (f *failed) Error() string { return f.error.Error() + "\n" + f.output }

// unpack builds the image of this machine and unpacks it from the layout.
func unpack(t *testing.T) harness.Image {
	t.Helper()
	out, into, platform := t.TempDir(), t.TempDir(), runtime.GOOS+"/"+runtime.GOARCH
	_, err := image.Write(&image.Options{
		Root: root, Out: out, Repository: "curfew", Version: version, Platforms: []string{platform}, Progress: os.Stderr,
		Build: func(_ v1.Platform, file string) error {
			return image.Compile(root, version, file, nil, "CGO_ENABLED=0")
		},
	})
	must(t, err)
	config, err := image.Unpack(filepath.Join(out, image.Layout), platform, into)
	must(t, err)
	return harness.Image{Root: into, Entrypoint: config.Config.Entrypoint}
}

// podsOf waits for the Pods that a Deployment has made.
func podsOf(ctx context.Context, t *testing.T, cluster *harness.Cluster, component string, replicas int) []corev1.Pod {
	t.Helper()
	pods := cluster.Client.CoreV1().Pods(harness.Namespace)
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component}
	watcher, err := pods.Watch(ctx, options)
	must(t, err)
	defer watcher.Stop()
	for range watcher.ResultChan() {
		list, err := pods.List(ctx, options)
		must(t, err)
		if len(list.Items) == replicas {
			return list.Items
		}
	}
	t.Fatalf("no %d Pods of %s: %v", replicas, component, ctx.Err())
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
