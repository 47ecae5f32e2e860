package serving

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// fixture are webhooks behind a balancer, for one test.
type fixture struct {
	*testing.T
	balancer *harness.Balancer
	webhooks []*harness.Curfew
	args     []string
}

// lag is how late the balancer heeds a change of readiness, and drainDelay how long a webhook waits
// for it.
const (
	lag        = 700 * time.Millisecond
	drainDelay = "2s"
	namespace  = "load"
)

// secure are the arguments of webhooks that only the API server may call.
func secure() []string {
	return []string{"--drain-delay", drainDelay, "--client-ca-file", suite.clientCA, "--client-names", apiServerName}
}

func newFixture(t *testing.T, args ...string) *fixture {
	t.Helper()
	balancer, err := harness.NewBalancer(lag)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, balancer: balancer, args: args}
	t.Cleanup(func() {
		for _, webhook := range f.webhooks {
			f.stop(webhook)
		}
		f.ok(balancer.Close())
	})
	f.ok(suite.cluster.Install(t.Context(), balancer.Port()))
	f.start("a")
	f.start("b")
	f.ok(suite.cluster.WaitForWebhook(t.Context()))
	return f
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// start adds a replica.
func (f *fixture) start(name string) {
	f.Helper()
	curfew, err := suite.cluster.StartWebhook(f.Context(), harness.CurfewOptions{Name: "webhook-" + name, Behind: f.balancer, Args: f.args})
	f.ok(err)
	f.webhooks = append(f.webhooks, curfew)
}

// stop ends one with SIGTERM.
func (f *fixture) stop(curfew *harness.Curfew) {
	f.Helper()
	ctx, cancel := harness.Waiting(context.Background(), curfew.Name+" to stop")
	defer cancel()
	f.ok(curfew.Stop(ctx))
}

// startController runs a controller, so that there are the webhook configurations that it writes.
func (f *fixture) startController() {
	f.Helper()
	controller, err := suite.cluster.StartController(f.Context(), harness.CurfewOptions{})
	f.ok(err)
	f.Cleanup(func() { f.stop(controller) })
	f.await("the controller's webhooks", func(ctx context.Context) (bool, error) {
		err := create(ctx, 1)
		return err == nil && unlabelled(ctx) != nil, nil
	})
}

// unlabelled is an error if the controller's own webhook, which reviews TTL labels, is called.
func unlabelled(ctx context.Context) error {
	_, err := suite.cluster.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "expired", Labels: map[string]string{wellknown.LabelTTL: "2020-01-01"}}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func (f *fixture) await(what string, until wait.ConditionWithContextFunc) {
	f.Helper()
	if err := harness.Poll(context.WithoutCancel(f.Context()), f.Name()+": "+what, until); err != nil { // cleanups wait, too
		f.Fatalf("waiting for %s: %v", what, err)
	}
}

// create has an object reviewed, in a dry run: a Job by the static webhooks, a labelled ConfigMap
// by the webhooks of the controller.
func create(ctx context.Context, n int64) error {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if n%2 == 0 {
		pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		made, err := suite.cluster.Client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"}, Spec: batchv1.JobSpec{Template: pods}}, dry)
		if err == nil && made.Spec.TTLSecondsAfterFinished == nil {
			return fmt.Errorf("job %s got no default", made.Name)
		}
		return err
	}
	_, err := suite.cluster.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "map-", Labels: map[string]string{wellknown.LabelTTL: "1h"}}}, dry)
	return err
}

// load is a stream of requests that have to be reviewed.
type load struct {
	done, failed atomic.Int64
	begun        time.Time
	cancel       context.CancelFunc
	running      sync.WaitGroup
	mu           sync.Mutex
	errors       []error
}

// creates are how many requests are sent in a second.
const creates = 200

// startLoad sends requests until the load is ended.
func (f *fixture) startLoad() *load {
	ctx, cancel := context.WithCancel(f.Context())
	l := &load{begun: time.Now(), cancel: cancel}
	pace := flowcontrol.NewTokenBucketRateLimiter(creates, 10)
	var n atomic.Int64
	for range 16 {
		l.running.Go(func() {
			for pace.Wait(ctx) == nil {
				// A request that is under way at the end is let through.
				if err := create(context.WithoutCancel(ctx), n.Add(1)); err != nil {
					l.failed.Add(1)
					l.mu.Lock()
					l.errors = append(l.errors, fmt.Errorf("at %s: %w", time.Now().Format(time.RFC3339Nano), err))
					l.mu.Unlock()
				}
				l.done.Add(1)
			}
		})
	}
	f.Cleanup(func() { l.cancel(); l.running.Wait() })
	return l
}

// end stops the load, and fails the test if any request did. Each webhook that stopped may cost one:
// the API server may use an idle connection in the instant in which the last idle ones are closed,
// and HTTP/1.1 has no answer to that.
func (l *load) end(f *fixture, stopped int) {
	f.Helper()
	l.cancel()
	l.running.Wait()
	took := time.Since(l.begun)
	f.Logf("note: %d requests in %s, %.0f a second, %d failed; %d connections found no webhook", l.done.Load(), took.Round(time.Millisecond),
		float64(l.done.Load())/took.Seconds(), l.failed.Load(), f.balancer.Refused())
	l.errors = slices.DeleteFunc(l.errors, func(err error) bool {
		idle := stopped > 0 && strings.HasSuffix(err.Error(), ": EOF")
		if idle {
			stopped--
		}
		return idle
	})
	for i, err := range l.errors {
		if i == 5 {
			break
		}
		f.Error(err)
	}
	if l.done.Load() < 100 {
		f.Errorf("%d requests in %s: the test does not test", l.done.Load(), took)
	}
}

// newNamespace makes the namespace of the load.
func (f *fixture) newNamespace() {
	f.Helper()
	_, err := suite.cluster.Client.CoreV1().Namespaces().Create(f.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Annotations: map[string]string{wellknown.AnnotationDefaultTTL: "1h"}}}, metav1.CreateOptions{})
	f.ok(err)
	f.Cleanup(func() {
		f.ok(suite.cluster.Client.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
		f.await("the namespace to be gone", func(ctx context.Context) (bool, error) {
			_, err := suite.cluster.Client.CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{})
			return err != nil, nil
		})
	})
}
