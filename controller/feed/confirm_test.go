package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// silent is an API server whose watches of rules stay open and report nothing. It notes when it was
// asked for lists.
type silent struct {
	mu      sync.Mutex
	version int
	sources map[string]*builders.Source // LifecyclePolicies and KindProfiles
	of      map[string]*metav1.PartialObjectMetadata
	lists   map[string][]time.Time
	failing error
	busy    string // the next list of it is answered 429
	watches int    // of Namespaces
	cache.Cache
	client.Reader
	cache.Informer
}

func newSilent() *silent {
	s := &silent{version: 1000, sources: map[string]*builders.Source{}, of: map[string]*metav1.PartialObjectMetadata{}, lists: map[string][]time.Time{}}
	s.sources[v1alpha1.LifecyclePolicies], s.sources[v1alpha1.KindProfiles] = builders.MakeSource(), builders.MakeSource()
	s.namespace(nil)
	return s
}

// namespace creates or updates Namespace ci.
func (s *silent) namespace(annotations map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	meta := follow.NamespaceMeta()
	meta.Name, meta.UID, meta.Annotations, meta.ResourceVersion = "ci", "ci", annotations, strconv.Itoa(s.version)
	s.of["ci"] = meta
}

func (s *silent) policy(t *testing.T, spec v1alpha1.LifecyclePolicySpec) {
	t.Helper()
	s.version++
	object := &v1alpha1.LifecyclePolicy{Spec: spec}
	object.Name, object.UID, object.Generation = "platform", "platform", int64(s.version)
	object.Status.Defaults = &v1alpha1.DefaultsStatus{SinceTime: metav1.NewTime(time.Now().Add(-time.Hour)), Hash: expression.DefaultsHash(object)}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	must(t, err)
	s.sources[v1alpha1.LifecyclePolicies].Put(&unstructured.Unstructured{Object: content})
}

// asked notes a list.
func (s *silent) asked(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[what] = append(s.lists[what], time.Now())
	if s.busy == what {
		s.busy = ""
		return apierrors.NewTooManyRequests("busy", 8)
	}
	return s.failing
}

func (s *silent) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
}

func (s *silent) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if err := s.asked("namespaces"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := list.(*metav1.PartialObjectMetadataList)
	for _, meta := range s.of {
		out.Items = append(out.Items, *meta.DeepCopy())
	}
	out.ResourceVersion = strconv.Itoa(s.version)
	return nil
}

func (s *silent) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key.Name].DeepCopyInto(object.(*metav1.PartialObjectMetadata))
	return s.failing
}

func (s *silent) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return s, nil
}

func (s *silent) RemoveInformer(context.Context, client.Object) error { return nil }

// AddEventHandler implements cache.Informer: the watch begins with the objects as a stale cache has
// them, from the first time.
func (s *silent) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	s.watches++
	stale := follow.NamespaceMeta()
	stale.Name, stale.UID, stale.ResourceVersion = "ci", "ci", "1001"
	s.mu.Unlock()
	handler.OnAdd(stale, true)
	return s, nil
}

func (s *silent) HasSynced() bool                          { return true }
func (s *silent) HasSyncedChecker() toolscache.DoneChecker { return nil }

// source is a kind with silent watches.
type silentSource struct {
	*builders.Source
	api  *silent
	what string
}

func (s silentSource) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if err := s.api.asked(s.what); err != nil {
		return nil, err
	}
	return s.Source.List(ctx, options)
}

func (s silentSource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewRaceFreeFake(), nil
}

// trusting has an engine trust the watches.
const trusting = false

// judgedBy runs a feed whose objects are judged by the rules of an API server.
func judgedBy(t *testing.T, w *world, s *silent, confirmed bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	platform, err := follow.NewPlatform(follow.Options{Clock: clock.RealClock{}, Log: logr.Discard(), Source: func(resource schema.GroupVersionResource) follow.Source {
		if source := s.sources[resource.Resource]; source != nil {
			return silentSource{source, s, resource.Resource}
		}
		return builders.MakeSource()
	}})
	must(t, err)
	namespaces, err := follow.NewNamespaces(ctx, s, s, clock.RealClock{}, logr.Discard())
	must(t, err)
	rules := follow.NewRules(platform, namespaces, clock.RealClock{}, logr.Discard(), nil)
	options := expire.Options{Triggers: triggers(w)}
	if confirmed {
		options.Rules = rules
	}
	e, err := expire.New(options)
	must(t, err)
	from := follow.Cached{Platform: platform, Namespaces: namespaces}
	var feed *Feed
	namespaces.OnChange(e.RecheckNamespace)
	platform.Policies.OnChange(func(func(schema.GroupKind) bool) {
		if feed != nil {
			feed.RejudgeAll()
		}
	})
	all.Go(func() { _ = platform.Start(ctx) })
	all.Go(func() { _ = rules.Run(ctx) })
	synctest.Wait()
	all.Go(func() { _ = e.Run(ctx) })
	feed = run(t, w.kind(), Options{Engine: e, Clock: clock.RealClock{}, Log: logr.Discard(), Cached: from, Live: from.Live()}, w.cut)
}

func bounds(low, high v1alpha1.Duration) v1alpha1.LifecyclePolicySpec {
	out := v1alpha1.LifecyclePolicySpec{Bounds: &v1alpha1.Bounds{}}
	if low != "" {
		out.Bounds.MinTTL = &low
	}
	if high != "" {
		out.Bounds.MaxTTL = &high
	}
	return out
}

// TestSilentWatch (S12): a rule changes, and the watch stays open and reports nothing. What falls
// due later is not deleted by the old rule, although an engine that trusts its watches deletes it.
func TestSilentWatch(t *testing.T) {
	for name, test := range map[string]struct {
		before, change func(*testing.T, *silent)
		noTTL          bool // of its own: defaults are always read live
	}{
		"the namespace turns to dry-run": {change: func(_ *testing.T, s *silent) { s.namespace(map[string]string{wellknown.AnnotationMode: "dry-run"}) }},
		"its bound rises":                {change: func(_ *testing.T, s *silent) { s.namespace(map[string]string{wellknown.AnnotationMinTTL: "1h"}) }},
		"a policy with a bound comes":    {change: func(t *testing.T, s *silent) { s.policy(t, bounds("1h", "")) }},
		"the bound of a policy rises": {
			before: func(t *testing.T, s *silent) { s.policy(t, bounds("10s", "")) },
			change: func(t *testing.T, s *silent) { s.policy(t, bounds("1h", "")) },
		},
		"a default is extended": {
			noTTL:  true,
			before: func(t *testing.T, s *silent) { s.policy(t, defaultTTL("60s")) },
			change: func(t *testing.T, s *silent) { s.policy(t, defaultTTL("1h")) },
		},
		"a policy goes": {
			noTTL:  true,
			before: func(t *testing.T, s *silent) { s.policy(t, defaultTTL("60s")) },
			change: func(_ *testing.T, s *silent) { s.sources[v1alpha1.LifecyclePolicies].Remove("platform") },
		},
	} {
		for _, confirmed := range []bool{true, trusting} {
			inBubble(t, fmt.Sprintf("%s, confirmed: %t", name, confirmed), func(t *testing.T) {
				w, s := newWorld(), newSilent()
				job := finished("ci", "a", "uid-a", 60)
				job.Annotations = map[string]string{wellknown.AnnotationTTLSource: "namespace/ci"} // Bounds raise defaults.
				if test.noTTL {
					job = finished("ci", "a", "uid-a", -1)
				}
				if test.before != nil {
					test.before(t, s)
				}
				w.put(job)
				judgedBy(t, w, s, confirmed)
				at(30 * time.Second)
				changed := s.version
				test.change(t, s)
				at(10 * time.Minute)
				expect(t, w, "a", confirmed || test.noTTL)
				if again := s.watches > 1; again != (confirmed && s.of["ci"].ResourceVersion == strconv.Itoa(changed+1)) {
					t.Errorf("the watch of namespaces began again: %t", again)
				}
			})
		}
	}
}

// TestConfirmedTogether (S12): however much is due, each kind of rules is listed at most once a
// second, and seldom. While nothing is due nothing is listed.
func TestConfirmedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), newSilent()
		w.streams, w.page = false, 1000
		const objects = 600
		for i := range objects {
			w.put(finished("ci", fmt.Sprintf("j%03d", i), fmt.Sprintf("uid-%d", i), int32(3600+i%60)))
		}
		judgedBy(t, w, s, true)
		at(59 * time.Minute)
		for what, lists := range s.lists {
			if len(lists) > 1 {
				t.Errorf("%s: %d lists while nothing is due", what, len(lists))
			}
		}
		at(3 * time.Minute)
		if n := w.count(); n > 0 {
			t.Errorf("%d objects are left: %v", n, slices.Sorted(maps.Keys(w.objects)))
		}
		for _, what := range []string{"namespaces", v1alpha1.LifecyclePolicies, v1alpha1.KindProfiles} {
			lists := s.lists[what]
			for i := 1; i < len(lists); i++ {
				if gap := lists[i].Sub(lists[i-1]); gap < time.Second {
					t.Errorf("%s: two lists within %s", what, gap)
				}
			}
			if len(lists) < 3 || len(lists) > 16 {
				t.Errorf("%s: %d lists in a minute of deletions", what, len(lists))
			}
		}
	})
}

// TestUnconfirmed (S12): from 15 s after the last LIST that was answered nothing is deleted, and
// everything as soon as the next one is.
func TestUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), newSilent()
		w.streams, w.page = false, 1000
		for i := range 120 {
			w.put(finished("ci", fmt.Sprintf("j%03d", i), fmt.Sprintf("uid-%d", i), int32(60+i)))
		}
		judgedBy(t, w, s, true)
		at(90 * time.Second)
		if n := w.count(); n < 85 || n > 95 {
			t.Errorf("%d objects are left in the middle", n)
		}
		s.fail(errors.New("connection refused"))
		at(15 * time.Second)
		left := w.count()
		at(time.Minute)
		if n := w.count(); n != left || n == 0 {
			t.Errorf("%d of %d objects are left a minute later", n, left)
		}
		s.fail(nil)
		at(3 * time.Second)
		if n := w.count(); n > 30 {
			t.Errorf("%d objects are left 3 s after the API server answers again", n)
		}
		at(time.Minute)
		if n := w.count(); n > 0 {
			t.Errorf("%d objects are left in the end", n)
		}
	})
}

// TestConfirmationIsThrottled (S12): a 429 to one LIST confirms nothing. The LIST is sent again soon,
// and no deletion waits for that: the LIST before it still counts, for all namespaces and kinds.
func TestConfirmationIsThrottled(t *testing.T) {
	for _, busy := range []string{"namespaces", v1alpha1.LifecyclePolicies, v1alpha1.KindProfiles} {
		inBubble(t, busy, func(t *testing.T) {
			w, s := newWorld(), newSilent()
			w.streams, w.page = false, 1000
			for i := range 60 {
				w.put(finished("ci", fmt.Sprintf("j%03d", i), fmt.Sprintf("uid-%d", i), int32(60+i)))
			}
			judgedBy(t, w, s, true)
			at(80 * time.Second)
			s.busy = busy
			asked := len(s.lists[busy])
			for second := 81; second < 110; second++ {
				at(time.Second)
				if n := w.count(); n > 60-(second-60)+1 {
					t.Errorf("%d objects are left after %d s", n, second)
				}
			}
			if lists := s.lists[busy][asked:]; s.busy != "" || len(lists) < 2 || lists[1].Sub(lists[0]) > 2*time.Second {
				t.Errorf("listed at %v", lists)
			}
		})
	}
}

// TestRulesChangeAllTheTime (S3): the Namespace changes more often than an object can be judged
// live. A due object is deleted all the same, unless the newest rules keep it.
func TestRulesChangeAllTheTime(t *testing.T) {
	for name, bound := range map[string]string{"nothing keeps it": "10s", "a bound keeps it": "1h"} {
		inBubble(t, name, func(t *testing.T) {
			w, n := newWorld(), none()
			job := finished("ci", "a", "uid-a", 60)
			job.Annotations = map[string]string{wellknown.AnnotationTTLSource: "namespace/ci"}
			w.put(job)
			_, e := start(t, w, n, nil)
			n.mu.Lock()
			n.slow = 500 * time.Millisecond
			n.mu.Unlock()
			for i := range 500 { // 100 s
				annotations := map[string]string{wellknown.AnnotationMinTTL: "1s", "example.com/n": strconv.Itoa(i)}
				if i > 250 {
					annotations[wellknown.AnnotationMinTTL] = bound
				}
				n.set("ci", annotations)
				e.RecheckNamespace("ci")
				at(200 * time.Millisecond)
			}
			expect(t, w, "a", bound == "1h")
		})
	}
}
