package cleanup

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
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

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	start     = time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	errKilled = errors.New("the process was killed")
)

// cluster is an API server in memory, with a process that can be killed at any of its requests:
// just before the request takes effect, or just after, so that the answer is lost.
type cluster struct {
	t           *testing.T
	mu, deletes sync.Mutex
	// objects are ConfigMaps by name.
	objects map[string]*metav1.PartialObjectMetadata
	status  v1alpha1.CleanupPolicyStatus
	pages   map[string]v1alpha1.CleanupReportFields
	written map[string]int // how often each was written
	// metrics are those of all processes.
	metrics []*metrics
	// sent has what the DELETEs of Curfew have deleted, by UID.
	sent map[types.UID]int
	// requests so far, and the one at which the process is killed, before it or after it.
	requests, killAt int
	lists            int
	// listing is called before each list, if it is set.
	listing func()
	// behind: deleted ConfigMaps are still listed. ghosts are those.
	behind bool
	ghosts []*metav1.PartialObjectMetadata
	// late is by how much the API server's time is after start.
	late time.Duration
	// lacks: the account lacks all permissions, or those on lacksOf. asked is how often that was
	// asked.
	lacks   bool
	lacksOf string
	asked   int
	// account is what the API server answers about the service account of the policy; nil: it exists.
	account func() (types.UID, error)
	// policy is what the API server answers about the policy; nil: it is as it was.
	policy func() error
	// namespaces are those that are known.
	namespaces []*resolution.NamespacePolicy
	// held reports whether a pause holds a scope; nil: none does.
	held func(scope string) bool
	// unread is why it is not known whether a pause holds anything.
	unread string
	// waited is how long all waits together would have taken.
	waited time.Duration
	// answer is what a DELETE is answered in the place of what else would happen; nil: as it happens.
	answer func(name string) *expire.Ending
	// cause is the error of such an answer; nil: any.
	cause error
	// fails are the HTTP statuses with which the DELETEs of some objects fail, by name; 0 is no
	// answer.
	fails map[string]int
	// denies are the HTTP statuses with which an admission webhook refuses to delete some objects.
	denies map[string]int
	// versions of ConfigMaps that are served; a GET in another one is answered 404. paths is the same
	// for GETs alone, if it is set: discovery is behind.
	versions, paths []string
	// forbidden: ConfigMaps cannot be read.
	forbidden bool
	// unlistable is how each LIST of ConfigMaps fails; nil: it does not.
	unlistable func() error
	// unreadable is how each GET of a ConfigMap fails; nil: it does not.
	unreadable func() error
	// silent are the API groups that discovery does not show.
	silent cleanup.SilentGroups
	// registered are the resources that the engine was told of.
	registered map[schema.GroupVersionResource]bool
	// beforeStatus is called before each write of the status; it may be nil.
	beforeStatus func()
	after        bool
	dead         bool
	// forged: another writer has written or deleted report pages.
	forged bool
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
			if _, ok := c.pages[page.Report]; !ok && !c.forged {
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

func (c *cluster) counted(_ context.Context, run string) (deleted int64, last int32, gone map[types.UID]bool, err error) {
	gone = map[types.UID]bool{}
	err = c.request(func() error {
		for name, page := range c.pages {
			if page.Run != run || page.DryRun || page.Page > maxPages || name != pageName("p", run, page.Page) {
				continue
			}
			if deleted += min(max(0, page.Deleted), maxBatch); page.Truncated || slices.ContainsFunc(page.Objects, func(item v1alpha1.CleanupItem) bool { return decided(&item) }) {
				last = max(last, page.Page)
			}
			for _, item := range page.Objects {
				gone[item.UID] = gone[item.UID] || isGone(&item)
			}
		}
		return nil
	})
	return deleted, last, gone, err
}

func (c *cluster) confirm(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policy == nil {
		return nil
	}
	return c.policy()
}

func (c *cluster) prune(context.Context, string, time.Time) error {
	return c.request(func() error { return nil })
}

// client lists and reads the ConfigMaps.
func (c *cluster) client() metadata.Interface {
	scheme := metadatafake.NewTestScheme()
	must(c.t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	client.PrependReactor("*", "configmaps", func(did clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		var obj runtime.Object
		err := c.request(func() error {
			if c.forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("revoked"))
			}
			if get, ok := did.(clienttesting.GetAction); ok {
				if c.unreadable != nil {
					if err := c.unreadable(); err != nil {
						return err
					}
				}
				object, version := c.objects[get.GetName()], get.GetResource().Version
				if !slices.Contains(c.versions, version) || c.paths != nil && !slices.Contains(c.paths, version) {
					return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "configmaps"}, get.GetName(), "404 page not found", 0, true)
				}
				if object == nil {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, get.GetName())
				}
				obj = object.DeepCopy()
				return nil
			}
			if c.lists++; c.listing != nil {
				c.listing()
			}
			if c.unlistable != nil {
				if err := c.unlistable(); err != nil {
					return err
				}
			}
			for _, name := range slices.Sorted(maps.Keys(c.objects)) {
				list.Items = append(list.Items, runtime.RawExtension{Object: c.objects[name].DeepCopy()})
			}
			for _, ghost := range c.ghosts {
				list.Items = append(list.Items, runtime.RawExtension{Object: ghost.DeepCopy()})
			}
			return nil
		})
		if obj != nil || err != nil {
			return true, obj, err
		}
		return true, list, nil
	})
	return client
}

// Do implements deletion.Action: a DELETE with preconditions.
func (c *cluster) Do(_ context.Context, due deletion.Due) deletion.Answer {
	if code, ok := c.fails[due.Name]; ok {
		return deletion.Answer{Outcome: deletion.Failed, Code: code, Err: errors.New("it failed")}
	}
	if code, ok := c.denies[due.Name]; ok {
		return deletion.Failure(code, deletion.FromAdmission, errors.New("the webhook failed"))
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
				if delete(c.objects, due.Name); c.behind {
					c.ghosts = append(c.ghosts, object)
				}
				return nil
			}
			now := metav1.NewTime(start)
			object.DeletionTimestamp, object.ResourceVersion = &now, object.ResourceVersion+"1"
		}
		return nil
	})
	switch {
	case err != nil:
		return deletion.Answer{Outcome: deletion.Failed, Err: err}
	case gone:
		return deletion.Answer{Outcome: deletion.Gone}
	case conflict:
		return deletion.Answer{Outcome: deletion.Conflict}
	default:
		return deletion.Answer{Outcome: deletion.Done}
	}
}

// RegisterKind and the rest implement Engine: one attempt each, and after a conflict one more.
func (c *cluster) RegisterKind(kind expire.KindOptions) (expire.Kind, error) {
	c.registered[kind.Resource] = true
	return 1, nil
}
func (c *cluster) ForgetKind(expire.Kind) {}
func (c *cluster) Epoch() uint64          { return 0 }

// Delete takes one object at a time.
func (c *cluster) Delete(ctx context.Context, o expire.Entry, work expire.Work) expire.Outcome {
	c.deletes.Lock()
	defer c.deletes.Unlock()
	return c.attempt(ctx, work, o, o.Live)
}

func (c *cluster) attempt(ctx context.Context, work expire.Work, o expire.Entry, live bool) expire.Outcome {
	out := expire.Outcome{Object: o, Result: expire.Failed}
	if live {
		judged, err := work.Judge(ctx, o)
		switch {
		case err != nil:
			out.Err = err
			return out
		case judged.Verdict == expire.Gone || judged.Verdict == expire.BeingDeleted:
			out.Result = expire.AlreadyGone
			return out
		case judged.Verdict == expire.Keep:
			out.Result = expire.Kept
			return out
		}
		o = judged.Object
	}
	if c.held != nil && c.held(o.Namespace) {
		out.Result, out.Err = expire.Held, expire.ErrHeldByPause
		return out
	}
	if result := c.answered(o.Name); result != nil {
		out.Result, out.Err = *result, cmp.Or(c.cause, errors.New("the answer was an error"))
		return out
	}
	result := work.Do(ctx, deletion.Due{Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion})
	switch result.Outcome {
	case deletion.Done:
		out.Result = expire.Deleted
	case deletion.Gone:
		out.Result = expire.AlreadyGone
	case deletion.Conflict:
		return c.attempt(ctx, work, out.Object, true)
	default:
		out.Err = result.Err
	}
	return out
}

// answered is the answer that a test prepared, or nil.
func (c *cluster) answered(name string) *expire.Ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		return nil
	}
	return c.answer(name)
}

// Snapshot and Namespace implement platform.Source.
func (c *cluster) Snapshot(context.Context) (*platform.Snapshot, error) {
	return platform.SnapshotOf(nil, nil), nil
}

func (c *cluster) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	return resolution.ParseNamespace(name, nil, nil), nil
}

func (c *cluster) Runtime(context.Context, *expression.Reference) (map[string]any, error) {
	return nil, nil
}

// PodCounter implements [platform.Source].
func (*cluster) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, platform.ErrUnknown
}

// newCluster has five ConfigMaps that match and some that do not.
func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, versions: []string{"v1"}, registered: map[schema.GroupVersionResource]bool{}, objects: map[string]*metav1.PartialObjectMetadata{}, pages: map[string]v1alpha1.CleanupReportFields{}, written: map[string]int{}, sent: map[types.UID]int{}}
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
	m := newMetrics(prometheus.NewRegistry(), false)
	c.metrics = append(c.metrics, m)
	clock := hasty{clocktesting.NewFakeClock(start), c}
	exists := func(context.Context) (types.UID, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.account == nil {
			return "account", nil
		}
		return c.account()
	}
	account := &Account{Exists: exists, Metadata: c.client(), Delete: c, Lacks: func(_ context.Context, _ string, needs []permission.Need) ([]permission.Need, error) {
		if c.asked++; c.lacks || needs[0].Resource.Resource == c.lacksOf {
			return needs, nil
		}
		return nil, nil
	}}
	out := &Controller{log: logr.Discard(), metrics: m, checked: map[types.UID]checked{}, remembering: newTurns(clock, 1, 1), reviews: newTurns(clock, 1, 1), judging: newTurns(clock, judgingAtOnce, judgingShare), options: Options{
		Account: func(types.NamespacedName) (*Account, error) { return account, nil }, Engine: c, Cached: c, Live: c,
		Served: func(context.Context) ([]cleanup.Resource, error) {
			out := []cleanup.Resource{{GroupResource: schema.GroupResource{Resource: "secrets"}, Kind: "Secret", Namespaced: true, Versions: []string{"v1"}}}
			if len(c.versions) > 0 {
				out = append(out, cleanup.Resource{GroupResource: schema.GroupResource{Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true, Versions: c.versions})
			}
			if len(c.silent) > 0 {
				return out, c.silent
			}
			return out, nil
		},
		Namespaces: func() ([]*resolution.NamespacePolicy, error) { return c.namespaces, nil },
		Held:       func(_ context.Context, scope string) bool { return c.held != nil && c.held(scope) },
		Unread:     func() string { return c.unread },
		ServerTime: func(context.Context) (time.Time, error) { return start.Add(c.late), nil }, Clock: clock,
	}}
	out.unchanged = func(*cleanup.Policy) bool { return true }
	return out
}

// cur is a policy as it was just read.
func (c *cluster) cur(p *cleanup.Policy, now time.Time) *current {
	return &current{object: &unstructured.Unstructured{Object: map[string]any{}}, policy: p, now: now, ledger: &ledger{store: c}}
}

// work has a process start a run, or go on with one.
func (c *cluster) work(ctx context.Context, p *cleanup.Policy) error {
	process := c.controller()
	cur := c.cur(p, start)
	status := c.current()
	if status.LastRun == nil {
		return process.start(ctx, cur, start)
	}
	return process.finish(ctx, cur, true)
}

func tmpPolicy(t *testing.T, edit func(*v1alpha1.CleanupSpec)) *cleanup.Policy {
	t.Helper()
	object := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy", Generation: 1}}
	object.Spec.Schedule = "0 2 * * *"
	object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"tmp-*"}}}
	edit(&object.Spec.CleanupSpec)
	p, errs := cleanup.Compile(expression.NewCompiler(10), object)
	must(t, errs.ToAggregate())
	return p
}
