package registry

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// source is a Source over a map.
type source struct {
	mu       sync.Mutex
	absent   bool
	objects  map[string]*unstructured.Unstructured
	watchers []*watch.RaceFreeFakeWatcher
	version  int
	history  []watch.Event // by version
}

func newSource() *source { return &source{objects: map[string]*unstructured.Unstructured{}} }

func (s *source) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absent {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	list := &unstructured.UnstructuredList{}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		list.Items = append(list.Items, *s.objects[name].DeepCopy())
	}
	list.SetResourceVersion(strconv.Itoa(s.version))
	return list, nil
}

func (s *source) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := strconv.Atoi(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	watcher := watch.NewRaceFreeFake()
	for _, event := range s.history[from:] {
		watcher.Action(event.Type, event.Object.DeepCopyObject())
	}
	s.watchers = append(s.watchers, watcher)
	return watcher, nil
}

// tell notes an event under the next version, from which a watch may begin. The mutex is held.
func (s *source) tell(kind watch.EventType, object *unstructured.Unstructured) {
	s.version++
	if kind != watch.Deleted {
		object.SetResourceVersion(strconv.Itoa(s.version))
	}
	s.history = append(s.history, watch.Event{Type: kind, Object: object.DeepCopy()})
	for _, watcher := range s.watchers {
		watcher.Action(kind, object.DeepCopy())
	}
}

func (s *source) put(object *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.objects[object.GetName()] != nil {
		kind = watch.Modified
	}
	s.tell(kind, object)
	s.objects[object.GetName()] = object
}

func (s *source) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[name]
	delete(s.objects, name)
	s.tell(watch.Deleted, object)
}

// definition is a CustomResourceDefinition whose spec has these fields.
func definition(group, version, kind, resource string, generation int64, fields ...string) *unstructured.Unstructured {
	spec := map[string]any{}
	for _, field := range fields {
		spec[field] = map[string]any{"type": "integer"}
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": resource},
			"versions": []any{map[string]any{"name": version, "served": true, "subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"properties": map[string]any{"spec": map[string]any{"properties": spec}},
			}}}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	object.SetName(resource + "." + group)
	object.SetUID("crd-1")
	object.SetGeneration(generation)
	return object
}

func jobSets(generation int64, fields ...string) *unstructured.Unstructured {
	return definition("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", generation, fields...)
}

// cluster is what a registry sees and does in these tests.
type cluster struct {
	profiles, definitions, runtimes *source

	mu       sync.Mutex
	missing  map[string][]string // by resource
	broken   map[string]bool     // feeds that cannot be made
	asked    int
	started  []string
	running  map[string]*stream
	forgot   []string
	parallel bool
	lingers  time.Duration // how long feeds take to end
}

type stream struct {
	cluster *cluster
	profile *expression.Profile
	judged  []string
}

func (s *stream) Run(ctx context.Context) error {
	name := s.profile.Resource
	s.cluster.mu.Lock()
	s.cluster.parallel = s.cluster.parallel || s.cluster.running[name] != nil
	s.cluster.running[name] = s
	s.cluster.mu.Unlock()
	<-ctx.Done()
	time.Sleep(s.cluster.lingers)
	s.cluster.mu.Lock()
	delete(s.cluster.running, name)
	s.cluster.mu.Unlock()
	return nil
}

func (s *stream) RejudgeNamespace(name string) { s.note(name) }
func (s *stream) RejudgeAll()                  { s.note("*") }

func (s *stream) note(what string) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.judged = append(s.judged, what)
}

func (c *cluster) feed(resource string) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[resource]
}

// begin runs a registry until the test ends. Call it inside a synctest bubble.
func begin(t *testing.T, before ...func(*cluster, *Registry)) (*cluster, *Registry) {
	t.Helper()
	c := &cluster{
		profiles: newSource(), definitions: newSource(), runtimes: newSource(),
		missing: map[string][]string{}, broken: map[string]bool{}, running: map[string]*stream{},
	}
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{
		Builtin: builtin, Typed: []schema.GroupKind{policy.JobProfile.Kind.GroupKind()},
		Compiler: expression.NewCompiler(expression.DefaultCacheSize), Profiles: c.profiles, Definitions: c.definitions,
		Missing: func(_ context.Context, resource schema.GroupVersionResource) ([]string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.asked++
			return c.missing[resource.Resource], nil
		},
		Start: func(profile *expression.Profile) (Running, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.broken[profile.Resource] {
				return nil, errors.New("broken")
			}
			c.started = append(c.started, profile.Resource)
			return &stream{cluster: c, profile: profile}, nil
		},
		Forget: func(resource schema.GroupVersionResource) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.forgot = append(c.forgot, resource.Resource)
		},
		Runtime: func(schema.GroupVersionResource) follow.Source { return c.runtimes },
		Clock:   clock.RealClock{}, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, prepare := range before {
		prepare(c, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = r.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return c, r
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (c *cluster) expect(t *testing.T, started, forgot []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if fmt.Sprint(c.started) != fmt.Sprint(started) || fmt.Sprint(c.forgot) != fmt.Sprint(forgot) {
		t.Errorf("started %v and forgot %v, want %v and %v", c.started, c.forgot, started, forgot)
	}
	if c.parallel {
		t.Error("two feeds of one kind ran at once")
	}
}

// A kind that comes back while its feed has yet to end is not judged by two feeds at once.
func TestKindComesBackBeforeItsFeedHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := begin(t, func(c *cluster, _ *Registry) { c.lingers = 10 * time.Second })
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		c.definitions.remove("jobsets.jobset.x-k8s.io")
		after(2 * time.Second)
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		c.expect(t, []string{"jobsets"}, nil)
		after(10 * time.Second)
		c.expect(t, []string{"jobsets", "jobsets"}, nil)
		if len(r.ending) > 0 {
			t.Errorf("%d kinds are still ending", len(r.ending))
		}
	})
}

func TestKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t)
		c.profiles.mu.Lock()
		c.profiles.absent = true // Curfew's own CustomResourceDefinitions are not installed: built-in profiles hold.
		c.profiles.mu.Unlock()
		after(2 * time.Second)
		c.expect(t, nil, nil)
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		c.definitions.put(definition("example.com", "v1", "Unknown", "unknowns", 1))
		after(2 * time.Second)
		c.expect(t, []string{"jobsets"}, nil)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.TTL == nil {
			t.Fatalf("%v: want a feed with the native TTL", feed)
		}
		c.definitions.remove("jobsets.jobset.x-k8s.io")
		after(2 * time.Second)
		c.expect(t, []string{"jobsets"}, []string{"jobsets"})
		if c.feed("jobsets") != nil {
			t.Error("the feed of a kind that is gone still runs")
		}
	})
}

// A native field that the installed version lacks would drop what is written to it; once it has it, no restart is needed.
func TestSchemaChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t)
		c.definitions.put(jobSets(1))
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.TTL != nil {
			t.Fatal("want a feed without native TTL")
		}
		c.definitions.put(jobSets(2, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.TTL == nil {
			t.Fatal("want a feed with native TTL once the schema has it")
		}
		c.definitions.put(jobSets(2, "ttlSecondsAfterFinished")) // such as a status update
		after(2 * time.Second)
		c.expect(t, []string{"jobsets", "jobsets"}, nil) // What is tracked stays for the new feed.
	})
}

func TestPermissionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t)
		c.missing["jobsets"] = []string{"delete"}
		c.broken["workflows"] = true // One failing kind never delays another.
		c.definitions.put(jobSets(1))
		c.definitions.put(definition("argoproj.io", "v1alpha1", "Workflow", "workflows", 1))
		c.definitions.put(definition("ray.io", "v1", "RayJob", "rayjobs", 1))
		after(5 * time.Minute)
		c.expect(t, []string{"rayjobs"}, nil)
		c.mu.Lock()
		if c.asked > 14 {
			t.Errorf("asked %d times in 5 minutes, want a few times soon and then once a minute, for the kind that is skipped alone", c.asked)
		}
		delete(c.missing, "jobsets")
		c.mu.Unlock()
		after(2 * time.Minute)
		c.expect(t, []string{"rayjobs", "jobsets"}, nil)
	})
}

// An API server that has just started says no to everything for a moment. That is not held against it for a minute.
func TestPermissionThatComesLateIsNoticedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t)
		c.missing["jobsets"] = []string{"get", "list", "watch", "delete"}
		c.definitions.put(jobSets(1))
		after(2 * time.Second)
		c.expect(t, nil, nil)
		c.mu.Lock()
		delete(c.missing, "jobsets")
		c.mu.Unlock()
		after(5 * time.Second)
		c.expect(t, []string{"jobsets"}, nil)
	})
}

func TestClusterProfileReplacesBuiltin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := begin(t)
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		own := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"kind":  map[string]any{"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet", "resource": "jobsets"},
			"state": map[string]any{"finished": "false", "finishTime": "null", "outcome": `"Failed"`},
		}}}
		own.SetName("own")
		own.SetUID("own-1")
		c.profiles.put(own)
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.Name != "own" {
			t.Fatalf("%v: want the profile of the cluster", feed)
		}
		r.RejudgeNamespace("ci")
		r.RejudgeKinds(func(kind schema.GroupKind) bool { return kind.Kind == "JobSet" })
		r.RejudgeKinds(func(kind schema.GroupKind) bool { return kind.Kind == "Other" })
		if feed := c.feed("jobsets"); !slices.Equal(feed.judged, []string{"ci", "*"}) {
			t.Errorf("judged again: %v", feed.judged)
		}
		c.profiles.remove("own")
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.Name == "own" {
			t.Fatalf("%v: want the built-in profile back", feed)
		}
	})
}

// A profile that does not say what becomes of dependents leaves that to --propagation, those that come with Curfew included. Before the
// profiles of the cluster are known there is no answer.
func TestPropagationOfProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobSet := schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}
		c, r := begin(t, func(_ *cluster, r *Registry) {
			if got, err := r.Propagation(jobSet); err == nil {
				t.Errorf("%q before anything is known, want an error", got)
			}
		})
		after(2 * time.Second)
		for _, profile := range r.builtin {
			if got, err := r.Propagation(profile.Kind.GroupKind()); got != "" || err != nil {
				t.Errorf("%s: %q, %v; want it left to the flag", profile.Name, got, err)
			}
		}
		own := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"kind":              map[string]any{"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet", "resource": "jobsets"},
			"propagationPolicy": "Orphan",
		}}}
		own.SetName("own")
		c.profiles.put(own)
		after(2 * time.Second)
		if got, err := r.Propagation(jobSet); got != metav1.DeletePropagationOrphan || err != nil {
			t.Errorf("%q, %v; want what the profile of the cluster says", got, err)
		}
	})
}

// What objects refer to is what the profile that holds says; a profile of the cluster that knows no runtime takes the word from the one that
// comes with Curfew.
func TestRuntimeOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trainJob := schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainJob"}
		c, r := begin(t, func(_ *cluster, r *Registry) {
			if got, err := r.RuntimeOf(trainJob); err == nil {
				t.Errorf("%v before anything is known, want an error", got)
			}
		})
		after(2 * time.Second)
		for kind, has := range map[schema.GroupKind]bool{trainJob: true, {Group: "batch", Kind: "Job"}: false, {Kind: "ConfigMap"}: false} {
			if got, err := r.RuntimeOf(kind); (got != nil) != has || err != nil {
				t.Errorf("%s: %v, %v; want one: %v", kind, got, err, has)
			}
		}
		own := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"kind": map[string]any{"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob", "resource": "trainjobs"},
		}}}
		own.SetName("own")
		c.profiles.put(own)
		after(2 * time.Second)
		if got, err := r.RuntimeOf(trainJob); got != nil || err != nil {
			t.Errorf("%v, %v; want none, as the profile of the cluster has it", got, err)
		}
	})
}

func TestRuntimesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := begin(t)
		c.definitions.put(definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", 1))
		after(2 * time.Second)
		torch := &unstructured.Unstructured{Object: map[string]any{}}
		torch.SetName("torch")
		torch.SetNamespace("ci")
		c.runtimes.put(torch)
		after(time.Second)
		resource := schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes"}
		if r.Cached(resource, "ci/torch") == nil || r.Cached(resource, "ci/other") != nil {
			t.Error("the cache does not know the runtime, or one that does not exist")
		}
		if feed := c.feed("trainjobs"); feed == nil || !slices.Contains(feed.judged, "ci") {
			t.Errorf("%v: want namespace ci judged again for its runtime", feed)
		}
	})
}
