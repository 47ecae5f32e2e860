package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// world is an API server with Jobs, and what the kind's profile says of them.
type world struct {
	*api[*batchv1.Job]

	patches  []string
	conflict int // patches that are to fail
	// writes has patches of annotations carried out, on the state that they name.
	writes bool
	// pods has the feed read the Jobs as Pods, which alone are given a finish time by Curfew.
	pods bool
	// failing is how many patches are to be answered with an error of the 500s.
	failing int
	// denied is the name of an object that an admission webhook refuses to patch.
	denied string

	propagation metav1.DeletionPropagation // of the kind's profile
	runtime     *expression.Runtime        // what Jobs refer to, if anything
}

func newWorld() *world {
	w := &world{api: newAPI("jobs", func() *batchv1.Job { return &batchv1.Job{} }, func() client.ObjectList { return &batchv1.JobList{} })}
	w.page = 2
	return w
}

func (w *world) kind() Kind {
	kind := Kind{
		Profile: policy.JobProfile, JSON: jsonOf(policy.JobProfile), Runtime: w.runtime, Propagation: w.propagation,
		List: w.list, Watch: w.watch, Get: w.get, Patch: w.patch, Triggers: []*Trigger{TTLs(nil)},
		Facts: func(_ context.Context, object runtime.Object) (*policy.Facts, error) {
			return policy.FactsOfJob(object.(*batchv1.Job)), nil
		},
	}
	if w.pods {
		kind.Profile, kind.JSON = policy.PodProfile, nil
		kind.Facts = func(_ context.Context, object runtime.Object) (*policy.Facts, error) {
			return policy.FactsOfPod(podOf(object.(*batchv1.Job))), nil
		}
	}
	return kind
}

// podOf is the Pod that a Job stands for: finished as the Job is, at its finish time, with its TTL.
func podOf(job *batchv1.Job) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *job.ObjectMeta.DeepCopy()}
	pod.Spec.RestartPolicy, pod.Status.Phase = corev1.RestartPolicyNever, corev1.PodRunning
	if ttl := job.Spec.TTLSecondsAfterFinished; ttl != nil {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, wellknown.AnnotationTTL, strconv.Itoa(int(*ttl)))
	}
	for _, condition := range job.Status.Conditions {
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: condition.LastTransitionTime}}
	}
	return pod
}

func (w *world) patch(_ context.Context, namespace, name string, _ types.PatchType, patch []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patches = append(w.patches, string(patch))
	if w.conflict > 0 {
		w.conflict--
		return apierrors.NewConflict(batchv1.Resource("jobs"), name, fmt.Errorf("changed"))
	}
	if name == w.denied {
		return apierrors.NewForbidden(batchv1.Resource("jobs"), name, fmt.Errorf("admission webhook denied the request"))
	}
	if w.failing > 0 {
		w.failing--
		return apierrors.NewInternalError(fmt.Errorf("failing"))
	}
	if !w.writes {
		return nil
	}
	var row struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]string
		}
	}
	if err := json.Unmarshal(patch, &row); err != nil {
		return err
	}
	job := w.objects[namespace+"/"+name].DeepCopy()
	if job.ResourceVersion != row.Metadata.ResourceVersion {
		return apierrors.NewConflict(batchv1.Resource("jobs"), name, fmt.Errorf("changed"))
	}
	before := job.DeepCopy()
	for key, value := range row.Metadata.Annotations {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, key, value)
	}
	if !maps.Equal(before.Annotations, job.Annotations) {
		w.set(job) // What changes nothing is no event.
	}
	return nil
}

// namespaces is a namespaceReader over a map.
type namespaces struct {
	mu   sync.Mutex
	of   map[string]map[string]string
	fail bool
	gets int
	// slow is how long a live read takes, and reads how many there were.
	slow  time.Duration
	reads int
}

func (n *namespaces) Get(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gets++
	if n.fail {
		return nil, fmt.Errorf("namespace %s cannot be read", name)
	}
	return resolution.ParseNamespace(name, n.of[name], nil), nil
}

// Read answers with what was said when it began, which is the oldest that it may.
func (n *namespaces) Read(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	read, err := n.Get(ctx, name)
	n.mu.Lock()
	n.reads++
	slow := n.slow
	n.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	return read, err
}

func (n *namespaces) set(name string, annotations map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[name] = annotations
}

// start runs a feed and its engine until the test ends. Call it inside a synctest bubble, whose
// clock is the real one.
func start(t *testing.T, w *world, n *namespaces, change func(*Options)) (*Feed, *expire.Engine) {
	t.Helper()
	return startKind(t, w, n, w.kind, change)
}

// startKind is start for a kind that differs from the world's.
func startKind(t *testing.T, w *world, n *namespaces, kind func() Kind, change func(*Options)) (*Feed, *expire.Engine) {
	t.Helper()
	engine, err := expire.New(expire.Options{Triggers: triggers(w), Clock: clock.RealClock{}})
	must(t, err)
	options := Options{Engine: engine, Clock: clock.RealClock{}, Log: logr.Discard()}
	over(&options, func(r *reads) { r.namespaces = n })
	if change != nil {
		change(&options)
	}
	running(t, options.Engine.Run, nothingToCut)
	return run(t, kind(), options, w.cut), options.Engine
}

// run runs a feed until the test ends.
func run(t *testing.T, kind Kind, options Options, cut func()) *Feed {
	t.Helper()
	feed, err := New(kind, options)
	must(t, err)
	running(t, feed.Run, cut)
	return feed
}

// running runs something until stop is called or the test ends. cut ends what it waits for.
func running(t *testing.T, run func(context.Context) error, cut func()) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = run(ctx); close(done) }()
	stop = func() {
		cancel()
		cut()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func nothingToCut() {}

// finished is a Job that finished just now, with a TTL in seconds; negative means none.
func finished(namespace, name, uid string, ttl int32) *batchv1.Job {
	job := &batchv1.Job{}
	job.Namespace, job.Name, job.UID = namespace, name, types.UID(uid)
	job.CreationTimestamp = metav1.Now()
	if ttl >= 0 {
		job.Spec.TTLSecondsAfterFinished = &ttl
	}
	job.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))},
	}
	return job
}

// patched are the patches so far.
func (w *world) patched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.patches)
}

var must = builders.Must
