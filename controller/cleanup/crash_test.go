package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	start     = time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	errKilled = errors.New("the process was killed")
)

// cluster is an API server in memory, with a process that can be killed at any of its requests:
// just before the request takes effect, or just after, so that the answer is lost.
type cluster struct {
	t  *testing.T
	mu sync.Mutex
	// objects are ConfigMaps by name.
	objects map[string]*metav1.PartialObjectMetadata
	status  v1alpha1.CleanupPolicyStatus
	pages   map[string]v1alpha1.CleanupReportFields
	// sent has what the DELETEs of Curfew have deleted, by UID.
	sent map[types.UID]int
	// requests so far, and the one at which the process is killed, before it or after it.
	requests, killAt int
	lists            int
	// listing is called before each list, if it is set.
	listing func()
	// lacks: the account lacks all permissions, or those on lacksOf. asked is how often that was asked.
	lacks   bool
	lacksOf string
	asked   int
	// waited is how long all waits together would have taken.
	waited time.Duration
	// answer is what a DELETE is answered in the place of what else would happen; nil: as it happens.
	answer func(name string) *engine.Result
	// fails are the HTTP statuses with which the DELETEs of some objects fail, by name; 0 is no answer.
	fails map[string]int
	// beforeStatus is called before each write of the status; it may be nil.
	beforeStatus func()
	after        bool
	dead         bool
}

// request reports whether a request reaches the API server and whether its answer comes back.
func (c *cluster) request(effect func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return errKilled
	}
	c.requests++
	if c.dead = c.requests == c.killAt; c.dead && !c.after {
		return errKilled
	}
	err := effect()
	if c.dead {
		return errKilled
	}
	return err
}

func (c *cluster) current() *v1alpha1.CleanupPolicyStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status.DeepCopy()
}

func (c *cluster) writeStatus(_ context.Context, status *v1alpha1.CleanupPolicyStatus) error {
	if c.beforeStatus != nil {
		c.beforeStatus()
	}
	return c.request(func() error {
		uids := 0
		for _, page := range status.UncountedDeletions {
			uids += len(page.UIDs)
			if _, ok := c.pages[page.Report]; !ok {
				c.t.Errorf("page %s is announced before it is written", page.Report)
			}
		}
		if len(status.UncountedDeletions) > inFlight || uids > 500 {
			c.t.Errorf("%d pages with %d UIDs are announced", len(status.UncountedDeletions), uids)
		}
		c.status = *status.DeepCopy()
		return nil
	})
}

func (c *cluster) writePage(_ context.Context, name string, fields *v1alpha1.CleanupReportFields, _ bool) error {
	return c.request(func() error { c.pages[name] = *fields.DeepCopy(); return nil })
}

func (c *cluster) readPage(_ context.Context, name string) (out *v1alpha1.CleanupReportFields, err error) {
	err = c.request(func() error {
		if page, ok := c.pages[name]; ok {
			out = page.DeepCopy()
		}
		return nil
	})
	return out, err
}

func (c *cluster) prune(context.Context) error { return c.request(func() error { return nil }) }

// client lists and reads the ConfigMaps.
func (c *cluster) client() metadata.Interface {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		c.t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	client.PrependReactor("*", "configmaps", func(did clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		var one runtime.Object
		err := c.request(func() error {
			if get, ok := did.(clienttesting.GetAction); ok {
				object := c.objects[get.GetName()]
				if object == nil {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, get.GetName())
				}
				one = object.DeepCopy()
				return nil
			}
			if c.lists++; c.listing != nil {
				c.listing()
			}
			for _, name := range slices.Sorted(maps.Keys(c.objects)) {
				list.Items = append(list.Items, runtime.RawExtension{Object: c.objects[name].DeepCopy()})
			}
			return nil
		})
		if one != nil || err != nil {
			return true, one, err
		}
		return true, list, nil
	})
	return client
}

// Do implements action.Action: a DELETE with preconditions.
func (c *cluster) Do(_ context.Context, due action.Due) action.Result {
	if code, ok := c.fails[due.Name]; ok {
		return action.Result{Outcome: action.Failed, Code: code, Err: errors.New("it failed")}
	}
	gone, conflict := false, false
	err := c.request(func() error {
		object := c.objects[due.Name]
		switch {
		case object == nil:
			gone = true
		case object.UID != due.UID || object.ResourceVersion != due.ResourceVersion:
			conflict = true
		default:
			c.sent[object.UID]++
			if len(object.Finalizers) == 0 {
				delete(c.objects, due.Name)
				return nil
			}
			now := metav1.NewTime(start)
			object.DeletionTimestamp, object.ResourceVersion = &now, object.ResourceVersion+"1"
		}
		return nil
	})
	switch {
	case err != nil:
		return action.Result{Outcome: action.Failed, Err: err}
	case gone:
		return action.Result{Outcome: action.Gone}
	case conflict:
		return action.Result{Outcome: action.Conflict}
	default:
		return action.Result{Outcome: action.Done}
	}
}

// RegisterKind and the rest implement Engine: one attempt each, and after a conflict one more.
func (c *cluster) RegisterKind(engine.KindOptions) (engine.Kind, error) { return 1, nil }
func (c *cluster) ForgetKind(engine.Kind)                               {}
func (c *cluster) Epoch() uint64                                        { return 0 }
func (c *cluster) Submit(ctx context.Context, run engine.Run, objects ...engine.Object) {
	go func() {
		for _, o := range objects {
			run.Report(c.attempt(ctx, run, o, o.Live))
		}
	}()
}

func (c *cluster) attempt(ctx context.Context, run engine.Run, o engine.Object, live bool) engine.Outcome {
	out := engine.Outcome{Object: o, Result: engine.Failed}
	if live {
		judged, err := run.Judge(ctx, o)
		switch {
		case err != nil:
			out.Err = err
			return out
		case judged.Verdict == engine.Gone || judged.Verdict == engine.BeingDeleted:
			out.Result = engine.AlreadyGone
			return out
		case judged.Verdict == engine.Keep:
			out.Result = engine.Kept
			return out
		}
		o = judged.Object
	}
	if c.answer != nil {
		if result := c.answer(o.Name); result != nil {
			out.Result, out.Err = *result, errors.New("the answer was an error")
			return out
		}
	}
	result := Action{}.Do(ctx, action.Due{Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, Run: run})
	switch result.Outcome {
	case action.Done:
		out.Result = engine.Deleted
	case action.Gone:
		out.Result = engine.AlreadyGone
	case action.Conflict:
		return c.attempt(ctx, run, out.Object, true)
	default:
		out.Err = result.Err
	}
	return out
}

// Snapshot and Namespace implement platform.Source.
func (c *cluster) Snapshot(context.Context) (*platform.Snapshot, error) {
	return platform.SnapshotOf(nil, nil), nil
}

func (c *cluster) Namespace(_ context.Context, name string) (*policy.NamespacePolicy, error) {
	return policy.ParseNamespace(name, nil, nil), nil
}

func (c *cluster) Runtime(context.Context, *expression.Reference) (map[string]any, error) {
	return nil, nil
}

// PodCounter implements [platform.Source].
func (*cluster) PodCounter(context.Context, *policy.Facts) (*policy.PodCounter, error) {
	return nil, platform.ErrUnknown
}

// newCluster has five ConfigMaps that match and some that do not.
func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, objects: map[string]*metav1.PartialObjectMetadata{}, pages: map[string]v1alpha1.CleanupReportFields{}, sent: map[types.UID]int{}}
	for _, name := range []string{"tmp-1", "tmp-2", "tmp-3", "tmp-4", "tmp-5", "keep-1", "keep-2"} {
		object := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7"},
		}
		if name == "tmp-5" {
			object.Finalizers = []string{"a/b"}
		}
		c.objects[name] = object
	}
	return c
}

// controller is a new process.
func (c *cluster) controller() *Controller {
	c.t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		c.t.Fatal(err)
	}
	clock := hasty{clocktesting.NewFakeClock(start), &c.waited}
	account := &Account{Metadata: c.client(), Delete: c, Lacks: func(_ context.Context, _ string, needs []permission.Need) ([]permission.Need, error) {
		if c.asked++; c.lacks || needs[0].Resource.Resource == c.lacksOf {
			return needs, nil
		}
		return nil, nil
	}}
	out := &Controller{log: logr.Discard(), metrics: m, checked: map[types.UID]checked{}, remembering: newTurns(clock, 1, 1), options: Options{
		Account: func(types.NamespacedName) (*Account, error) { return account, nil }, Engine: c, Cached: c, Live: c,
		Served: func(context.Context) ([]cleanup.Resource, error) {
			return []cleanup.Resource{
				{GroupResource: schema.GroupResource{Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true, Versions: []string{"v1"}},
				{GroupResource: schema.GroupResource{Resource: "secrets"}, Kind: "Secret", Namespaced: true, Versions: []string{"v1"}},
			}, nil
		},
		Namespaces: func() ([]*policy.NamespacePolicy, error) { return nil, nil },
		ServerTime: func(context.Context) (time.Time, error) { return start, nil }, Clock: clock,
	}}
	out.unchanged = func(*cleanup.Policy) bool { return true }
	return out
}

// work has a process start a run, or go on with one.
func (c *cluster) work(ctx context.Context, p *cleanup.Policy) error {
	process := c.controller()
	cur := &current{object: &unstructured.Unstructured{Object: map[string]any{}}, policy: p, now: start, ledger: &ledger{store: c}}
	status := c.current()
	if status.LastRun == nil {
		_, err := process.start(ctx, cur, start)
		return err
	}
	return process.finish(ctx, cur, true)
}

func tmpPolicy(t *testing.T, edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy {
	t.Helper()
	object := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy", Generation: 1}}
	object.Spec.Schedule = "@daily"
	object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"tmp-*"}}}
	edit(&object.Spec.CleanupSpec)
	p, errs := cleanup.Compile(expression.NewCompiler(10), object)
	if err := errs.ToAggregate(); err != nil {
		t.Fatal(err)
	}
	return p
}

// A run is killed at each of its requests, before and after it takes effect, and once more while it
// is resumed. In the end everything that matches is deleted, nothing else is, and each object is
// counted once (S7).
func TestKilledAtEveryRequest(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.CleanupSpec){
		"one pass":   func(*v1alpha1.CleanupSpec) {},
		"two passes": func(s *v1alpha1.CleanupSpec) { s.MaxDeletions = new(int64(5)) },
		"with a lookup": func(s *v1alpha1.CleanupSpec) {
			s.Conditions = []v1alpha1.MatchCondition{{Name: "x", Expression: "!lookup.owned"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(2)()
			detailedPages = 1
			defer func() { detailedPages = 40 }()
			p := tmpPolicy(t, edit)
			whole := newCluster(t)
			if err := whole.work(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			whole.check("never killed")
			for first := 1; first <= whole.requests; first++ {
				for _, after := range []bool{false, true} {
					for second := 0; second <= whole.requests; second += 1 {
						c := newCluster(t)
						c.killAt, c.after = first, after
						_ = c.work(t.Context(), p)
						c.dead, c.requests, c.killAt, c.after = false, 0, second, !after
						_ = c.work(t.Context(), p)
						c.dead, c.killAt = false, 0
						if err := c.work(t.Context(), p); err != nil {
							t.Fatalf("killed at request %d (after: %v) and %d: %v", first, after, second, err)
						}
						c.check(fmt.Sprintf("killed at request %d (after: %v) and %d", first, after, second))
						if t.Failed() {
							return
						}
					}
				}
			}
			t.Logf("%d requests", whole.requests)
		})
	}
}

// check compares what is left, what was counted and what was sent.
func (c *cluster) check(what string) {
	c.t.Helper()
	for name, object := range c.objects {
		if tmp := strings.HasPrefix(name, "tmp-"); tmp && object.DeletionTimestamp == nil || !tmp && object.DeletionTimestamp != nil {
			c.t.Errorf("%s: %s is left, terminating %v", what, name, object.DeletionTimestamp != nil)
		}
	}
	status := c.status
	if status.Deleted != 5 || status.LastRun.Deleted != 5 || status.LastRun.Phase != v1alpha1.RunCompleted || len(status.UncountedDeletions) > 0 ||
		len(status.DeletedByKind) != 1 || status.DeletedByKind[0].Count != 5 || len(c.objects) != 3 {
		c.t.Errorf("%s: deleted %d, run %+v, uncounted %v, by kind %v, %d objects are left", what, status.Deleted, status.LastRun, status.UncountedDeletions, status.DeletedByKind, len(c.objects))
	}
	counted, truncated := map[types.UID]int{}, int64(0)
	for _, page := range c.pages {
		if page.Truncated {
			truncated += page.Deleted
		}
		for _, item := range page.Objects {
			if item.Result == v1alpha1.ItemDeleted || item.Result == v1alpha1.ItemGone {
				counted[item.UID]++
			}
		}
	}
	for uid, times := range c.sent {
		if times != 1 || counted[uid] > 1 {
			c.t.Errorf("%s: %s was deleted %d times and is counted on %d pages", what, uid, times, counted[uid])
		}
	}
	if int64(len(counted))+truncated != 5 {
		c.t.Errorf("%s: %d objects are on pages, and %d are summarised", what, len(counted), truncated)
	}
}

// A resumed run deletes nothing that it has not judged again: what was the third newest is one of
// the newest now.
func TestResumedRunJudgesAgain(t *testing.T) {
	defer small(5)()
	c := newCluster(t)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.KeepNewest = &v1alpha1.KeepNewest{Count: 3} })
	for i, name := range []string{"tmp-1", "tmp-2", "tmp-3", "tmp-4", "tmp-5"} {
		c.objects[name].CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i-10) * time.Hour))
	}
	whole := newCluster(t)
	for name, object := range c.objects {
		whole.objects[name] = object.DeepCopy()
	}
	if err := whole.work(t.Context(), p); err != nil || len(whole.sent) != 2 || whole.objects["tmp-3"] == nil {
		t.Fatalf("%v: %v", err, whole.sent)
	}
	c.killAt = 6 // It has announced tmp-1 and tmp-2.
	_ = c.work(t.Context(), p)
	if len(c.status.UncountedDeletions) != 1 || len(c.sent) != 0 {
		t.Fatalf("killed too early or too late: %+v, %v", c.status.UncountedDeletions, c.sent)
	}
	c.dead, c.killAt = false, 0
	delete(c.objects, "tmp-4")
	delete(c.objects, "tmp-5")
	if err := c.work(t.Context(), p); err != nil || len(c.sent) != 0 || c.status.Deleted != 0 {
		t.Errorf("%v: deleted %v of the last three, %d counted", err, c.sent, c.status.Deleted)
	}
}
