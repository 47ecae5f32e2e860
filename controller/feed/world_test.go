package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// world is what a feed sees of an API server in these tests: the Kind functions over a map, at the
// same level at which the feed speaks to the real one. The real one is in test/e2e.
type world struct {
	mu      sync.Mutex
	jobs    map[string]*batchv1.Job
	version int

	// streams says whether a watch can begin with the list (KEP-3157).
	streams bool
	// endless has streams never come to the end of their list.
	endless bool
	// page is how many objects a page holds.
	page int
	// stale makes the next watch from a resourceVersion fail as too old.
	stale bool
	// refuse makes list and watch fail.
	refuse error
	// deaf makes watches from a resourceVersion fail.
	deaf error
	// unserved makes reads fail like reads of a kind that is not served.
	unserved bool

	watchers []*watch.RaceFreeFakeWatcher
	gets     int      // live reads of one object
	lists    []string // namespaces that were listed, "" for all
	// selectors are the namespaces and label selectors of lists.
	selectors []string
	watches   []string // resourceVersions that were watched from
	patches   []string
	conflict  int // patches that are to fail
	// writes has patches of annotations carried out, on the state that they name.
	writes bool
	// pods has the feed read the Jobs as Pods, which alone are given a finish time by Curfew.
	pods bool
	// failing is how many patches are to be answered with an error of the 500s.
	failing int
	// denied is the name of an object that an admission webhook refuses to patch.
	denied string
	// broken is how many lists are to be answered with an error of the 500s.
	broken int
	// listed is called, once, with a list read and not answered yet.
	listed func()

	propagation metav1.DeletionPropagation   // of the kind's profile
	asked       []metav1.DeletionPropagation // what each DELETE asked for

	runtime *expression.Runtime // what Jobs refer to, if anything
}

func newWorld() *world {
	return &world{jobs: map[string]*batchv1.Job{}, streams: true, page: 2, version: 100}
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

// put writes a Job and tells those who watch. The Job gets the next resourceVersion.
func (w *world) put(job *batchv1.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(job)
}

func (w *world) set(job *batchv1.Job) {
	w.version++
	job = job.DeepCopy()
	job.ResourceVersion = strconv.Itoa(w.version)
	key := job.Namespace + "/" + job.Name
	_, known := w.jobs[key]
	w.jobs[key] = job
	for _, watcher := range w.watchers {
		if known {
			watcher.Modify(job.DeepCopy())
		} else {
			watcher.Add(job.DeepCopy())
		}
	}
}

// lose removes a Job without a word to those who watch.
func (w *world) lose(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	delete(w.jobs, namespace+"/"+name)
}

// deafen makes watches from a resourceVersion fail with err, until that is nil.
func (w *world) deafen(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = err
}

// cut ends all watches.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watcher := range w.watchers {
		watcher.Stop()
	}
	w.watchers = nil
}

func (w *world) sorted(namespace string) []batchv1.Job {
	var keys []string
	for key := range w.jobs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var out []batchv1.Job
	for _, key := range keys {
		if job := w.jobs[key]; namespace == "" || job.Namespace == namespace {
			out = append(out, *job.DeepCopy())
		}
	}
	return out
}

func (w *world) list(_ context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer func() {
		then := w.listed
		w.listed = nil
		w.mu.Unlock()
		if then != nil {
			then()
		}
	}()
	if w.broken > 0 {
		w.broken--
		return nil, apierrors.NewInternalError(fmt.Errorf("broken"))
	}
	all := w.sorted(namespace)
	from := 0
	if options.Continue == "" {
		w.lists = append(w.lists, namespace)
		w.selectors = append(w.selectors, namespace+" "+options.LabelSelector)
	} else {
		from, _ = strconv.Atoi(options.Continue)
	}
	to := min(from+w.page, len(all))
	list := &batchv1.JobList{Items: all[from:to]}
	list.ResourceVersion = strconv.Itoa(w.version)
	if to < len(all) {
		list.Continue = strconv.Itoa(to)
	}
	return list, nil
}

func (w *world) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return nil, w.refuse
	}
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	if initial && !w.streams {
		return nil, apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	}
	w.watches = append(w.watches, options.ResourceVersion)
	if !initial && w.stale {
		w.stale = false
		return nil, apierrors.NewResourceExpired("too old")
	}
	if !initial && w.deaf != nil {
		return nil, w.deaf
	}
	watcher := watch.NewRaceFreeFake()
	w.watchers = append(w.watchers, watcher)
	if initial {
		for _, job := range w.sorted("") {
			watcher.Add(job.DeepCopy())
		}
		if w.endless {
			return watcher, nil
		}
		end := &batchv1.Job{}
		end.ResourceVersion = strconv.Itoa(w.version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		watcher.Action(watch.Bookmark, end)
	}
	return watcher, nil
}

func (w *world) get(_ context.Context, namespace, name string) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gets++
	if w.unserved {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, batchv1.Resource("jobs"), name, "404 page not found", 0, true)
	}
	job, ok := w.jobs[namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(batchv1.Resource("jobs"), name)
	}
	return job.DeepCopy(), nil
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
	var said struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]string
		}
	}
	if err := json.Unmarshal(patch, &said); err != nil {
		return err
	}
	job := w.jobs[namespace+"/"+name].DeepCopy()
	if job.ResourceVersion != said.Metadata.ResourceVersion {
		return apierrors.NewConflict(batchv1.Resource("jobs"), name, fmt.Errorf("changed"))
	}
	before := job.DeepCopy()
	for key, value := range said.Metadata.Annotations {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, key, value)
	}
	if !maps.Equal(before.Annotations, job.Annotations) {
		w.set(job) // What changes nothing is no event.
	}
	return nil
}

// Delete implements engine.Deleter with the preconditions of the API server.
func (w *world) Delete(_ context.Context, r deletion.Request) deletion.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, r.Propagation)
	key := r.Namespace + "/" + r.Name
	job, ok := w.jobs[key]
	switch {
	case !ok:
		return deletion.Response{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, ObjectMissing: true}
	case job.UID != r.UID || job.ResourceVersion != r.ResourceVersion:
		return deletion.Response{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	case r.DryRun:
		return deletion.Response{Code: http.StatusOK}
	}
	delete(w.jobs, key)
	w.version++
	for _, watcher := range w.watchers {
		watcher.Delete(job.DeepCopy())
	}
	return deletion.Response{Code: http.StatusOK}
}

func (w *world) has(namespace, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.jobs[namespace+"/"+name]
	return ok
}

func (w *world) listings() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.lists)
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs)
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
func start(t *testing.T, w *world, n *namespaces, change func(*Options)) (*Feed, *engine.Engine) {
	t.Helper()
	return startKind(t, w, n, w.kind, change)
}

// startKind is start for a kind that differs from the world's.
func startKind(t *testing.T, w *world, n *namespaces, kind func() Kind, change func(*Options)) (*Feed, *engine.Engine) {
	t.Helper()
	engine, err := engine.New(engine.Options{Triggers: triggers(w), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Engine: engine, Clock: clock.RealClock{}, Log: logr.Discard()}
	over(&options, func(r *reads) { r.namespaces = n })
	if change != nil {
		change(&options)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = options.Engine.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return run(t, kind(), options, w.cut), options.Engine
}

// run runs a feed until the test ends.
func run(t *testing.T, kind Kind, options Options, cut func()) *Feed {
	t.Helper()
	feed, err := New(kind, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = feed.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); cut(); <-done })
	return feed
}

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

func (w *world) setRefuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}
