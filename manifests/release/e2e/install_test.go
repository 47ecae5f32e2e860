package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/manifests/release/chart"
	"curfew.dev/curfew/manifests/release/chart/charttest"
	"curfew.dev/curfew/manifests/release/image"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/harness"
)

var root = filepath.Join("..", "..", "..")

const version = "v9.8.7"

// TestReleaseRuns installs the chart with its defaults; the API server accepts all its variants,
// too. The Deployments make their Pods, and each runs the binary of the image: with its arguments,
// probes and token, in a root filesystem that has nothing else. The API server reaches the webhook
// by its Service. Then a Job expires, and nothing that Curfew asked for was forbidden.
func TestReleaseRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	services, err := harness.NewServices(short(t))
	must(t, err)
	defer services.Close()
	cluster := start(ctx, t, services)
	must(t, apply(ctx, cluster, render(t, harness.Namespace, nil)))
	must(t, harness.WaitForRoles(ctx, cluster.Client))

	accept(ctx, t, cluster)

	binary := unpack(t)
	var pods []*harness.Pod
	for name, replicas := range map[string]int{"webhook": 2, "controller": 2} {
		for _, pod := range podsOf(ctx, t, cluster, name, replicas) {
			folder := t.TempDir()
			started, err := cluster.RunPod(ctx, &pod, binary, folder)
			if errors.Is(err, syscall.EPERM) {
				t.Skipf("this machine lets no one make a user namespace, and with it a root filesystem: %v", err)
			}
			must(t, err)
			t.Cleanup(func() { _ = os.Chmod(folder, 0o755) })
			defer func() {
				if err := started.Terminate(context.Background()); err != nil {
					t.Errorf("%s: %v\n%s", pod.Name, err, harness.Tail(started.Log, 20))
				}
			}()
			pods = append(pods, started)
		}
	}
	for _, pod := range pods {
		must(t, pod.WaitReady(ctx))
		services.Serve(cluster, pod)
	}
	must(t, cluster.WaitForWebhook(ctx))

	expire(ctx, t, cluster)
	refused, err := cluster.Forbidden()
	must(t, err)
	if len(refused) > 0 {
		t.Errorf("forbidden:\n%s", strings.Join(refused, "\n"))
	}
}

// expire creates a Job in a namespace with a default TTL and waits until Curfew has deleted it.
func expire(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	t.Helper()
	const namespace = "ci"
	must(t, cluster.NewNamespace(ctx, namespace, map[string]string{policy.AnnotationDefaultTTL: "2s"}))
	jobs := cluster.Client.BatchV1().Jobs(namespace)
	job, err := jobs.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "hello", Image: "busybox"}}}},
	}}, metav1.CreateOptions{})
	must(t, err)
	if ttl := job.Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 2 {
		t.Errorf("the webhook filled in TTL %v, want 2 s", ttl)
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
	user, err := cluster.DeletedBy("jobs", namespace, "hello")
	must(t, err)
	if want := "system:serviceaccount:" + harness.Namespace + ":curfew-controller"; user != want {
		t.Errorf("%s deleted the Job, want %s", user, want)
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

func render(t *testing.T, namespace string, values map[string]any) string {
	t.Helper()
	files, err := chart.Files(&chart.Options{Root: root, Repository: "curfew", Version: version})
	must(t, err)
	manifests, _, err := charttest.Render(files, namespace, values)
	must(t, err)
	return manifests
}

// apply does what `helm install --create-namespace` does: server-side apply.
func apply(ctx context.Context, cluster *harness.Cluster, manifests string, flags ...string) error {
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + harness.Namespace + "}\n---\n"
	args := append([]string{"apply", "--server-side", "--field-manager=helm", "-f", "-"}, flags...)
	_, stderr, err := cluster.KubectlInput(ctx, namespace+manifests, args...)
	if err != nil {
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
