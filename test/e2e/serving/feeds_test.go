package serving

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/test/harness"
)

// A controller with the shipped flags that knows all objects keeps its watches open: within two
// minutes it opens none. The API server ends none that soon.
func TestWatchesOfAnIdleController(t *testing.T) {
	if !suite.full {
		t.Skip("FULL is not set: it waits for two minutes")
	}
	f := &fixture{T: t}
	webhook, err := suite.cluster.StartWebhook(t.Context(), harness.CurfewOptions{Name: "webhook-idle"})
	f.ok(err)
	t.Cleanup(func() { f.stop(webhook) })
	f.ok(suite.cluster.WaitForWebhook(t.Context()))
	proxy, err := harness.NewProxy(suite.cluster.Config)
	f.ok(err)
	t.Cleanup(proxy.Close)
	opened := make(chan string, 10000)
	proxy.Handle(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "true" {
			opened <- r.URL.Path
		}
		return false
	})
	controller, err := suite.cluster.StartController(t.Context(), harness.CurfewOptions{Name: "controller-idle", Proxy: proxy})
	f.ok(err)
	t.Cleanup(func() { f.stop(controller) })
	f.awaitKnown(controller)

	// What was installed a moment ago may still have a few kinds watched again.
	limited, end := harness.Waiting(t.Context(), "two minutes without a new watch")
	defer end()
	paths := map[string]int{}
	for idle := false; !idle; {
		select {
		case path := <-opened:
			paths[path]++
		case <-time.After(2 * time.Minute):
			idle = true
		case <-limited.Done():
			t.Fatalf("%v, watches so far: %v", context.Cause(limited), paths)
		}
	}
	if len(paths) < 10 {
		t.Errorf("only %v was watched", paths)
	}
}

// Over a network of 2 MB/s it takes longer than a few seconds to list all Jobs. The list comes to
// its end all the same, and the last Jobs in it are deleted once they are due, and not before.
func TestSlowList(t *testing.T) {
	const rate, bytes, due, namespace, ttl = 2_000_000, 14_000_000, 20, "slow", 10 * time.Second
	objects := 1000 // each as large as ten
	if suite.full {
		objects = 10000
	}
	f := &fixture{T: t}
	// Without webhooks: they have tests of their own.
	f.ok(suite.cluster.Install(t.Context(), 1))
	f.kubectl("", "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "curfew", "curfew-kinds", "--ignore-not-found")
	f.ok(suite.cluster.NewNamespace(t.Context(), namespace, nil))
	t.Cleanup(func() { f.kubectl("", "delete", "namespace", namespace, "--wait=false") })
	jobs := suite.cluster.Client.BatchV1().Jobs(namespace)
	create := func(ctx context.Context, name, set string, size int) (*batchv1.Job, error) {
		return jobs.Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"set": set}, Annotations: map[string]string{"example.com/note": strings.Repeat("x", size)}},
			Spec: batchv1.JobSpec{ManagedBy: ptr.To("example.com/absent"), TTLSecondsAfterFinished: ptr.To(int32(ttl.Seconds())),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
		}, metav1.CreateOptions{})
	}
	all, ctx := errgroup.WithContext(t.Context())
	all.SetLimit(16)
	for i := range objects {
		all.Go(func() error {
			_, err := create(ctx, fmt.Sprintf("job-%05d", i), "unfinished", bytes/objects)
			return err
		})
	}
	f.ok(all.Wait())
	finish := metav1.NewTime(time.Now().Truncate(time.Second))
	for i := range due {
		job, err := create(t.Context(), fmt.Sprint("zz-", i), "due", 1)
		f.ok(err)
		job.Status = batchv1.JobStatus{StartTime: &finish, CompletionTime: &finish, Succeeded: 1}
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: finish, LastProbeTime: finish})
		}
		_, err = jobs.UpdateStatus(t.Context(), job, metav1.UpdateOptions{})
		f.ok(err)
	}

	wire, err := harness.NewWire(suite.cluster.Config)
	f.ok(err)
	t.Cleanup(func() { f.ok(wire.Close()) })
	wire.Limit(rate)
	controller, err := suite.cluster.StartController(t.Context(), harness.CurfewOptions{Name: "controller-slow", Wire: wire})
	f.ok(err)
	t.Cleanup(func() { f.stop(controller) })
	began := time.Now()
	f.awaitKnown(controller)
	if took := time.Since(began); took < bytes/rate*time.Second {
		t.Errorf("all Jobs were known after %s: the network was not slow", took)
	}
	f.await("the Jobs that are due to be deleted", func(ctx context.Context) (bool, error) {
		list, err := jobs.List(ctx, metav1.ListOptions{LabelSelector: "set=due"})
		if err != nil {
			return false, err
		}
		if left := len(list.Items); left < due && time.Now().Before(finish.Add(ttl)) {
			t.Errorf("%d Jobs are left of %d, and none is due yet", left, due)
		}
		return len(list.Items) == 0, nil
	})
}

// awaitKnown waits until a controller leads and knows all objects: it says then how many are
// overdue.
func (f *fixture) awaitKnown(controller *harness.Curfew) {
	f.Helper()
	f.await("all objects to be known", func(ctx context.Context) (bool, error) {
		metrics, err := controller.Scrape(ctx)
		return strings.Contains(metrics, "\ncurfew_overdue_objects 0\n") && !strings.Contains(metrics, `curfew_feed_synced{group="batch",kind="Job",purpose="ttl"} 0`), err
	})
}
