package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

const (
	// staleTTL suffices to create all objects and change their rules before they are due. On a slow
	// machine it is doubled.
	staleTTL = 45 * time.Second
	// afterDue is how long a round goes on after that: longer than rules count as confirmed.
	afterDue = 25 * time.Second
)

// TestStaleAPIServer (S1, S2, S12): of two API servers on one etcd, the controller talks to one whose
// watches stand still. On the other one a Namespace turns to dry-run, bounds rise, a TTL is extended,
// and an object is created again under its name. Nothing of that is deleted, and nothing early. What
// nothing has changed is deleted in the end. Without FULL=1, TestSilentWatch of controller/feed shows
// that no rule is trusted that is older, and TestRecreatedUnderTheSameName that no object is.
func TestStaleAPIServer(t *testing.T) {
	full(t)
	f := newStale(t)
	for i, how := range []string{"restarted", "rules", "running", "restarted", "running"} {
		if !t.Run(fmt.Sprintf("%d, %s", i+1, how), func(t *testing.T) {
			for f.ttl = staleTTL; !f.round(t, how, 200); f.ttl *= 2 {
				t.Logf("note: this machine was too slow: objects may have been due after %s already", f.ttl)
			}
		}) {
			return
		}
	}
}

// stale is Curfew on a stale API server.
type stale struct {
	*fixture
	server     *harness.StaleAPIServer
	proxy      *harness.Proxy
	controller *harness.Curfew
	started    int
	ttl        time.Duration
}

func newStale(t *testing.T) *stale {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // Cleanups use it, too.
	t.Cleanup(cancel)
	f.ctx = ctx
	webhook, err := suite.cluster.StartWebhook(ctx, harness.CurfewOptions{})
	f.ok(err)
	t.Cleanup(func() { f.ok(webhook.Kill()) })
	f.ok(suite.cluster.WaitForWebhook(ctx))
	s := &stale{fixture: f}
	s.server, err = suite.cluster.StartStaleAPIServer(ctx)
	f.ok(err)
	t.Cleanup(func() { f.ok(s.server.Close()) })
	s.proxy, err = harness.NewProxy(s.server.Config)
	f.ok(err)
	t.Cleanup(s.proxy.Close)
	f.kubectl(labelsOfConfigMaps, "apply", "-f", "-")
	t.Cleanup(func() { f.kubectl("", "delete", "clusterrole", "e2e-configmaps") })
	s.launch()
	f.ok(s.controller.WaitReady(ctx))
	t.Cleanup(func() { f.ok(s.controller.Kill()) })
	return s
}

// launch starts a controller on the stale API server.
func (s *stale) launch() {
	s.Helper()
	s.started++
	var err error
	s.controller, err = suite.cluster.LaunchController(s.ctx, harness.CurfewOptions{Name: fmt.Sprint("stale-", s.started), Proxy: s.proxy})
	s.ok(err)
}

// round has the API server become stale in one way, changes the rules, and judges what was deleted.
// It returns false if it was too slow for that.
func (s *stale) round(t *testing.T, how string, count int) (ok bool) {
	defer func(whole *testing.T) { s.T = whole }(s.T)
	s.T = t
	s.ok(s.controller.WaitReady(s.ctx))
	namespaces := []string{"dry", "bound", "policy", "plain"}
	for _, name := range namespaces {
		s.ok(suite.cluster.NewNamespace(s.ctx, name, map[string]string{wellknown.AnnotationDefaultTTL: s.ttl.String()}))
	}
	defer func() {
		s.kubectl("", "delete", v1alpha1.LifecyclePolicies, "stale", "--ignore-not-found")
		s.kubectl("", append([]string{"delete", "namespace", "--timeout=120s"}, namespaces...)...)
	}()
	observer, err := suite.cluster.Observe(s.ctx, "plain")
	s.ok(err)
	watcher, err := suite.cluster.Client.CoreV1().ConfigMaps("plain").Watch(s.ctx, metav1.ListOptions{LabelSelector: wellknown.LabelTTL})
	s.ok(err)
	go observer.Follow("ConfigMap", watcher)
	created := time.Now()
	kept := map[string]types.UID{} // by kind, namespace and name
	for i := range count {
		kept["configmap/dry/"+s.configMap("dry", "x", i)] = ""
		kept["job/bound/"+s.job("bound", i)] = ""
		kept["job/policy/"+s.job("policy", i)] = ""
		kept["configmap/plain/"+s.configMap("plain", "extended", i)] = ""
		kept["configmap/plain/"+s.configMap("plain", "again", i)] = ""
		s.configMap("plain", "due", i)
	}
	s.await("all Jobs to finish", func(ctx context.Context) (bool, error) { return s.finished("bound") && s.finished("policy"), nil })
	thaw := s.freeze(how)
	defer thaw()
	s.change(count)
	if time.Since(created) > s.ttl-2*time.Second {
		return false
	}
	for key := range kept {
		kept[key] = s.uid(key)
	}
	over := time.Now().Add(s.ttl + afterDue)
	s.awaitUntil("a while after all are due", func() bool { return time.Now().After(over) })
	s.judge("while it is stale", kept, observer)
	thaw()
	s.awaitUntil("what nothing has changed to be deleted", func() bool {
		left, err := suite.cluster.Client.CoreV1().ConfigMaps("plain").List(s.ctx, metav1.ListOptions{LabelSelector: "of=due"})
		return err == nil && len(left.Items) == 0
	})
	s.judge("in the end", kept, observer)
	return true
}

// freeze makes the API server stale for the controller.
func (s *stale) freeze(how string) (thaw func()) {
	s.Helper()
	if how == "rules" {
		s.proxy.Mute(func(path string) bool {
			return path == "/api/v1/namespaces" || strings.HasSuffix(path, "/"+v1alpha1.LifecyclePolicies) || strings.HasSuffix(path, "/"+v1alpha1.KindProfiles)
		})
		return func() { s.proxy.Mute(nil); s.proxy.Cut() }
	}
	thaw = s.server.Freeze()
	if how == "restarted" {
		s.ok(s.controller.Kill())
		s.launch()
	}
	return thaw
}

// change changes rules and objects, on the healthy API server.
func (s *stale) change(count int) {
	s.Helper()
	s.kubectl("", "annotate", "namespace", "dry", wellknown.AnnotationMode+"=dry-run")
	s.kubectl("", "annotate", "namespace", "bound", wellknown.AnnotationMinTTL+"=1h")
	s.kubectl(`{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: stale}, spec: {
match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: policy}}}, bounds: {minTTL: 1h}}}`, "apply", "-f", "-")
	maps := suite.cluster.Client.CoreV1().ConfigMaps("plain")
	for i := range count {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"1h"}}}`, wellknown.LabelTTL)
		_, err := maps.Patch(s.ctx, fmt.Sprint("extended-", i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		s.ok(err)
		again := fmt.Sprint("again-", i)
		s.ok(maps.Delete(s.ctx, again, metav1.DeleteOptions{}))
		s.create("plain", again, "again", "1h")
	}
}

func (s *stale) create(namespace, name, text, ttl string) {
	s.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wellknown.LabelTTL: ttl, "of": text}}}
	_, err := suite.cluster.Client.CoreV1().ConfigMaps(namespace).Create(s.ctx, object, metav1.CreateOptions{})
	s.ok(err)
}

func (s *stale) configMap(namespace, text string, i int) (name string) {
	s.Helper()
	name = fmt.Sprint(text, "-", i)
	s.create(namespace, name, text, s.ttl.String())
	return name
}

// job creates a Job that needs no Pod. Its Namespace has a default TTL.
func (s *stale) job(namespace string, i int) (name string) {
	s.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("job-", i)}}
	job.Spec.Completions, job.Spec.Parallelism = new(int32(0)), new(int32(0))
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	made, err := suite.cluster.Client.BatchV1().Jobs(namespace).Create(s.ctx, job, metav1.CreateOptions{})
	s.ok(err)
	if made.Spec.TTLSecondsAfterFinished == nil {
		s.Fatalf("Job %s/%s was given no default: this test shows nothing", namespace, made.Name)
	}
	return made.Name
}

func (s *stale) finished(namespace string) bool {
	jobs, err := suite.cluster.Client.BatchV1().Jobs(namespace).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	for i := range jobs.Items {
		if _, ok := harness.JobFinish(&jobs.Items[i]); !ok {
			return false
		}
	}
	return true
}

// uid is the UID of an object that is not being deleted, or "".
func (s *stale) uid(key string) types.UID {
	s.Helper()
	kind, name, _ := strings.Cut(key, "/")
	namespace, name, _ := strings.Cut(name, "/")
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	if kind == "job" {
		resource = batchv1.SchemeGroupVersion.WithResource("jobs")
	}
	client, err := dynamic.NewForConfig(suite.cluster.Config)
	s.ok(err)
	object, err := client.Resource(resource).Namespace(namespace).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil || object.GetDeletionTimestamp() != nil {
		return ""
	}
	return object.GetUID()
}

// judge compares what exists with what has to be there, and when the others were deleted.
func (s *stale) judge(when string, kept map[string]types.UID, observer *harness.Observer) {
	s.Helper()
	for key, uid := range kept {
		if now := s.uid(key); now != uid || uid == "" {
			s.Errorf("%s: WRONG DELETE: %s had UID %q, and has %q", when, key, uid, now)
		}
	}
	deleted := 0
	for _, event := range observer.All() {
		if event.Kind != "ConfigMap" || event.Type != watch.Deleted || event.GetLabels()["of"] != "due" {
			continue
		}
		deleted++
		if t := event.GetCreationTimestamp().Add(s.ttl); event.At.Before(t) {
			s.Errorf("%s: EARLY DELETE: %s, %s before it was due", when, event.GetName(), t.Sub(event.At))
		}
	}
	s.Logf("note: %s: %d objects are kept, and %d were deleted", when, len(kept), deleted)
}
