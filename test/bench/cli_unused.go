package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// cliUnusedOptions are the flags of the report of unused objects.
var cliUnusedOptions struct{ deployments, rounds int }

func init() {
	register(bench{
		name: "cli_unused", about: "kubectl curfew unused beside kubectl get", position: 66, run: runCLIUnused,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&cliUnusedOptions.deployments, "cli_unused-deployments", 1000, "how many Deployments; five times as many ConfigMaps and Secrets")
			fs.IntVar(&cliUnusedOptions.rounds, "cli_unused-rounds", 5, "how many rounds; each runs both programs once")
		},
	})
}

// unusedMB is how much memory the report may take.
const unusedMB = 150

// runCLIUnused has kubectl curfew unused look for what nothing uses among ConfigMaps and Secrets, of
// which Deployments use a fifth, and kubectl get print the same objects, by turns. Each object is
// of an age at which it is reported.
func runCLIUnused(ctx context.Context, e *environment) (results []result, err error) {
	o := cliUnusedOptions
	plugin := filepath.Join(e.root, "bin", "kubectl-curfew")
	if err := e.command(ctx, "go", "build", "-o", plugin, "./cmd/kubectl-curfew"); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	labelled := labelled{client}
	maps := jobSet{prefix: "settings", count: 5 * o.deployments}
	defer func() { err = errors.Join(err, clearUsers(ctx, client), labelled.clear(ctx, maps)) }()
	if err := errors.Join(labelled.namespace(ctx), labelled.create(ctx, maps), createUsers(ctx, client, o.deployments)); err != nil {
		return nil, err
	}
	at := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	var report, get, peak, limit []float64
	for n := 0; n <= o.rounds; n++ {
		took, mb, said, err := measured(ctx, plugin, "unused", "-A", "--at", at, "--kubeconfig", e.state.Kubeconfig)
		if err != nil {
			return nil, err
		}
		used, unused := maps.name(0), maps.name(maps.count-1)
		if strings.Contains(said, used+" ") || !strings.Contains(said, unused+" ") {
			return nil, fmt.Errorf("the report shows %s, or not %s: it measures something else", used, unused)
		}
		bare, _, err := timed(ctx, e.state.Kubectl, "get", "configmaps,secrets,deployments", "-A", "--kubeconfig", e.state.Kubeconfig)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue // It fills the caches.
		}
		fmt.Fprintf(e.out, "round %d of %d: kubectl curfew unused %.2f s and %.0f MB, kubectl get %.2f s\n", n, o.rounds, took, mb, bare)
		report, get, peak, limit = append(report, took), append(get, bare), append(peak, mb), append(limit, unusedMB)
	}
	return []result{
		compare("cli.unused."+sizeName(11*o.deployments)+".vs_get", "s", report, "kubectl get of the same objects", get),
		compare("cli.unused.memory_mb", "MB", peak, "the limit", limit),
	}, nil
}

// createUsers makes Secrets, and Deployments that are scaled to zero. Each uses a ConfigMap and a
// Secret.
func createUsers(ctx context.Context, client kubernetes.Interface, deployments int) error {
	secrets := jobSet{prefix: "password", count: 5 * deployments}
	err := secrets.each(ctx, loaders, func(ctx context.Context, name string) error {
		of := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"key": "value"}}
		_, err := client.CoreV1().Secrets(benchNamespace).Create(ctx, of, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create Secrets: %w", err)
	}
	users := jobSet{prefix: "user", count: deployments}
	err = users.each(ctx, loaders, func(ctx context.Context, name string) error {
		number := strings.TrimPrefix(name, "user")
		labels := map[string]string{"app": name}
		of := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i"}},
				Volumes: []corev1.Volume{
					{Name: "a", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: "settings" + number}}}},
					{Name: "b", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password" + number}}},
				},
			}},
		}}
		_, err := client.AppsV1().Deployments(benchNamespace).Create(ctx, of, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create Deployments: %w", err)
	}
	return nil
}

func clearUsers(ctx context.Context, client kubernetes.Interface) error {
	return errors.Join(
		client.AppsV1().Deployments(benchNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		client.CoreV1().Secrets(benchNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
}

// measured runs a program and returns how many seconds and megabytes it took, and what it printed.
func measured(ctx context.Context, name string, args ...string) (seconds, mb float64, said string, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var failed strings.Builder
	cmd.Stderr = &failed
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, failed.String())
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Since(began).Seconds(), float64(usage.Maxrss) / 1024, string(out), nil
}
