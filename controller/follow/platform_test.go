package follow

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// platformOver follows these LifecyclePolicies and nothing else. Runtimes are read from the
// objects.
func platformOver(t *testing.T, policies Source, objects ...runtime.Object) *Platform {
	t.Helper()
	return platformWith(t, policies, newSource(), objects...)
}

// platformWith follows KindProfiles, too.
func platformWith(t *testing.T, policies, profiles Source, objects ...runtime.Object) *Platform {
	t.Helper()
	return platformFrom(t, map[string]Source{v1alpha1.LifecyclePolicies: policies, v1alpha1.KindProfiles: profiles}, objects...)
}

// platformFrom follows these sources. All other kinds have no objects.
func platformFrom(t *testing.T, sources map[string]Source, objects ...runtime.Object) *Platform {
	t.Helper()
	out, err := NewPlatform(Options{
		Client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objects...), Clock: clock.RealClock{}, Log: logr.Discard(),
		Source: func(resource schema.GroupVersionResource) Source {
			if source := sources[resource.Resource]; source != nil {
				return source
			}
			return newSource()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// start follows until the test ends. Call it inside a synctest bubble.
func start(t *testing.T, p *Platform) {
	t.Helper()
	running(t, p.Start)
}

// running runs something until the test ends.
func running(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// deaf is a source whose watches report nothing.
type deaf struct{ *source }

func (deaf) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewRaceFreeFake(), nil
}

var thingKind = schema.GroupKind{Group: "example.com", Kind: "Thing"}

func thingProfile(kind string, generation int64, propagation string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"kind":  map[string]any{"group": thingKind.Group, "version": "v1", "kind": kind, "resource": strings.ToLower(kind) + "s"},
		"state": map[string]any{"finished": "false", "finishTime": "null", "outcome": `"Failed"`}, "propagationPolicy": propagation,
	}}}
	object.SetName(kind)
	object.SetUID("uid-1")
	object.SetGeneration(generation)
	return object
}

// What the cache has not heard of yet decides right before a deletion: policies, profiles, namespaces
// and runtimes are read live.
func TestLiveReadsPastTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies, profiles := deaf{newSource()}, deaf{newSource()}
		profiles.Put(thingProfile("Thing", 1, "Background"))
		profiles.Put(thingProfile("Other", 1, "Orphan"))
		torch := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Runtime", "metadata": map[string]any{"name": "torch"}}}
		p := platformWith(t, policies, profiles, torch)
		start(t, p)
		namespaces, api := stamped(t, namespace(map[string]string{wellknown.AnnotationMode: "dry-run"}, nil))
		namespaces.observe(seen(t, api))
		after(time.Second)
		policies.Put(lifecyclePolicy(`"30s"`, 1))
		profiles.Put(thingProfile("Thing", 2, "Orphan"))
		profiles.Remove("Other")
		if err := api.Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ci"}}); err != nil {
			t.Fatal(err)
		}
		cached := Cached{Platform: p, Namespaces: namespaces}
		reference := &expression.Reference{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Runtime"}, Resource: "runtimes", Name: "torch"}
		p.Runtimes.followed[resourceOf(reference)] = &followedRuntimes{mirror: &Mirror[map[string]any]{items: map[string]map[string]any{"torch": {"old": true}}}}
		for name, row := range map[string]struct {
			live     bool
			policies int
			mode     resolution.Mode
			profile  int64 // generation
			now      metav1.DeletionPropagation
		}{"cached": {false, 0, resolution.ModeDryRun, 1, "Background"}, "live": {true, 1, resolution.ModeEnforce, 2, "Orphan"}} {
			from := cached.Live()
			if !row.live {
				from = cached
			}
			snapshot, err := from.Snapshot(t.Context())
			if err != nil || len(snapshot.Policies) != row.policies || len(snapshot.Concerning(policy.JobProfile.Kind.GroupKind())) != row.policies {
				t.Errorf("%s: %d policies, %v; want %d", name, len(snapshot.Policies), err, row.policies)
			}
			now, _ := snapshot.Propagation(thingKind)
			if compiled := snapshot.Compiled(thingKind); compiled == nil || compiled.Generation != row.profile || now != row.now {
				t.Errorf("%s: %+v, %q; want generation %d, %s", name, compiled, now, row.profile, row.now)
			}
			if removed := snapshot.Compiled(schema.GroupKind{Group: thingKind.Group, Kind: "Other"}); (removed == nil) != row.live {
				t.Errorf("%s: a profile that was removed is %+v", name, removed)
			}
			if read, err := from.Namespace(t.Context(), "ci"); err != nil || read.Mode != row.mode {
				t.Errorf("%s: %v, %v; want mode %s", name, read, err, row.mode)
			}
			if read, err := from.Runtime(t.Context(), reference); err != nil || read["old"] == true == row.live {
				t.Errorf("%s: runtime %v, %v", name, read, err)
			}
			// A namespace that is gone takes its objects along. Right before a deletion that is an error.
			if read, err := from.Namespace(t.Context(), "gone"); read != nil || row.live != apierrors.IsNotFound(err) {
				t.Errorf("%s: %v, %v for a namespace that is gone", name, read, err)
			}
		}
	})
}

// slow is a source whose lists take a second, and which counts them.
type slow struct {
	*source
	lists *atomic.Int64
}

func (s slow) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.lists.Add(1)
	<-time.After(time.Second)
	return s.source.List(ctx, options)
}

// However many objects are judged live, policies and profiles are listed once a second, at the same
// time. That their CRD is not installed is known from its watch, and costs no request.
func TestLiveRulesAreSharedAndReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ofPolicies, ofProfiles, ofDefinitions atomic.Int64
		policies, profiles := slow{newSource(), &ofPolicies}, slow{newSource(), &ofProfiles}
		policies.SetAbsent(true)
		profiles.SetAbsent(true)
		p := platformFrom(t, map[string]Source{
			v1alpha1.LifecyclePolicies: policies, v1alpha1.KindProfiles: profiles,
			definitionResource.Resource: slow{newSource(), &ofDefinitions},
		})
		start(t, p)
		after(40 * time.Second) // The followers do not list for a while now.
		before := [3]int64{ofPolicies.Load(), ofProfiles.Load(), ofDefinitions.Load()}
		began := time.Now()
		var asking sync.WaitGroup
		for _, from := range []platform.Source{Cached{Platform: p}.Live(), Cached{Platform: p}.Live()} { // one for cleanups
			for range 100 {
				asking.Go(func() {
					if _, err := from.Snapshot(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		asking.Wait()
		lists := [3]int64{ofPolicies.Load() - before[0], ofProfiles.Load() - before[1], ofDefinitions.Load() - before[2]}
		// The second list of each is for those who asked during the first one.
		if took := time.Since(began); lists != [3]int64{2, 2, 0} || took != 2*time.Second {
			t.Errorf("%v lists of policies, profiles and CRDs in %s, want [2 2 0] in 2s", lists, took)
		}
	})
}

// A missing CRD is not an error. A 404 while the CRD is there, which a proxy may send, is one: it
// does not say that no bound applies.
func TestLiveReadsWithoutCRDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies, profiles, definitions := newSource(), newSource(), newSource()
		p := platformFrom(t, map[string]Source{v1alpha1.LifecyclePolicies: policies, v1alpha1.KindProfiles: profiles, definitionResource.Resource: deaf{definitions}})
		policies.SetAbsent(true)
		profiles.SetAbsent(true)
		live := func() (ofPolicies, ofProfiles error) {
			_, _, ofPolicies = p.Policies.Live(t.Context())
			_, _, ofProfiles = p.Profiles.Live(t.Context())
			return ofPolicies, ofProfiles
		}
		if a, b := live(); a != nil || b != nil {
			t.Errorf("without CRDs: %v, %v", a, b)
		}
		own := []*unstructured.Unstructured{ownCRD(v1alpha1.LifecyclePolicies), ownCRD(v1alpha1.KindProfiles)}
		for _, crd := range own {
			definitions.Put(crd)
		}
		if a, b := live(); a == nil || b == nil {
			t.Errorf("a 404 while CRDs are not watched: %v, %v; want errors", a, b)
		}
		definitions.Remove(own[0].GetName())
		definitions.Remove(own[1].GetName())
		start(t, p)
		after(time.Second)
		for _, crd := range own {
			definitions.Put(crd)
		}
		if a, b := live(); a != nil || b != nil {
			t.Errorf("without CRDs, as far as the open watch of CRDs has shown: %v, %v", a, b)
		}
		p.definitions.Again()
		after(time.Second)
		if a, b := live(); a == nil || b == nil {
			t.Errorf("a 404 although there are CRDs: %v, %v; want errors", a, b)
		}
		definitions.SetAbsent(true)
		p.definitions.Again()
		after(time.Second)
		if a, b := live(); a == nil || b == nil {
			t.Errorf("a 404 for everything: %v, %v; want errors", a, b)
		}
	})
}

// MultiKueue's label counts until it is known that Kueue's CRD is absent, and at once when it is
// installed. Right before a deletion the API server is asked, once a second: a watch may be silent.
func TestMultiKueueLabelCountsUnlessKueueIsAbsent(t *testing.T) {
	crd := ownCRD("workloads")
	crd.SetName(kueue.GroupResource().String())
	copied := policy.FactsOfJob(builders.MakeJob("ci", "a").Label(wellknown.LabelMultiKueueOrigin, "hub").Obj())
	for name, test := range map[string]struct {
		before, change func(definitions *source)
		of             func(*source) Source
		want           string // cached, live
		told           int
	}{
		"absent":                {want: "absent absent", told: 1},
		"installed":             {before: func(d *source) { d.Put(crd) }, want: "counts counts"},
		"another one is":        {before: func(d *source) { d.Put(ownCRD("others")) }, want: "absent absent", told: 1},
		"installed now":         {change: func(d *source) { d.Put(crd) }, want: "counts counts", told: 1},
		"… and no watch tells":  {change: func(d *source) { d.Put(crd) }, of: func(d *source) Source { return deaf{d} }, want: "absent counts", told: 1},
		"uninstalled":           {before: func(d *source) { d.Put(crd) }, change: func(d *source) { d.Remove(crd.GetName()) }, want: "absent absent", told: 1},
		"CRDs cannot be listed": {before: func(d *source) { d.SetAbsent(true) }, want: "counts error"},
		"… any more":            {change: func(d *source) { d.SetAbsent(true); d.EndWatches() }, want: "counts error", told: 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			definitions, i := newSource(), 0
			var from Source = definitions
			if test.of != nil {
				from = test.of(definitions)
			}
			if test.before != nil {
				test.before(definitions)
			}
			p := platformFrom(t, map[string]Source{definitionResource.Resource: from})
			p.OnNoKueue = func() { i++ }
			if absent, _ := p.store.Snapshot().WithoutMultiKueue(t.Context(), copied); absent {
				t.Error("absent before anything is known")
			}
			start(t, p)
			after(time.Second)
			cached := Cached{Platform: p}
			live := cached.Live()
			found := func(from platform.Source) string {
				snapshot, err := from.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				switch absent, err := snapshot.WithoutMultiKueue(t.Context(), copied); {
				case err != nil:
					return "error"
				case absent:
					return "absent"
				}
				return "counts"
			}
			found(live)
			if test.change != nil {
				test.change(definitions)
			}
			synctest.Wait()
			atOnce := found(cached)
			after(recentFor)
			if got := found(cached) + " " + found(live); got != test.want || !strings.HasPrefix(test.want, atOnce) {
				t.Errorf("%s, and at once %s; want %s", got, atOnce, test.want)
			}
			definitions.Put(ownCRD("others"))
			after(time.Second)
			if i != test.told {
				t.Errorf("told %d times that no copy has to be kept, want %d", i, test.told)
			}
		})
	}
}

// ownCRD is the CustomResourceDefinition of one of Curfew's own kinds.
func ownCRD(resource string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"group": v1alpha1.GroupVersion.Group, "scope": "Cluster", "names": map[string]any{"kind": resource, "plural": resource},
			"versions": []any{map[string]any{"name": v1alpha1.GroupVersion.Version, "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	object.SetName(resource + "." + v1alpha1.GroupVersion.Group)
	return object
}

// A 404 for a list empties nothing, and makes nothing known, while the CRD is there: a proxy may
// have sent it. Without the CRD there are no objects.
func TestNotFoundIsNoEmptyList(t *testing.T) {
	for name, change := range map[string]struct {
		change  func(definitions *source)
		want    int // policies
		unknown bool
	}{
		"the CRD is there":               {func(*source) {}, 1, true},
		"nor can CRDs be listed":         {func(definitions *source) { definitions.SetAbsent(true) }, 1, true},
		"the CRD is not installed":       {func(definitions *source) { definitions.Remove("lifecyclepolicies.curfew.dev") }, 0, false},
		"the CRD serves another version": {func(definitions *source) { definitions.Put(other(ownCRD(v1alpha1.LifecyclePolicies))) }, 0, false},
		"the CRD of another kind is there": {func(definitions *source) {
			definitions.Remove("lifecyclepolicies.curfew.dev")
			definitions.Put(ownCRD(v1alpha1.KindProfiles))
		}, 0, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			policies, definitions := newSource(), newSource()
			sources := map[string]Source{v1alpha1.LifecyclePolicies: policies, definitionResource.Resource: definitions}
			definitions.Put(ownCRD(v1alpha1.LifecyclePolicies))
			policies.Put(lifecyclePolicy(`"30s"`, 1))
			p := platformFrom(t, sources)
			start(t, p)
			after(time.Second)
			policies.SetAbsent(true)
			change.change(definitions)
			policies.EndWatches()
			after(time.Minute)
			if snapshot, err := (Cached{Platform: p}).Snapshot(t.Context()); err != nil || len(snapshot.Policies) != change.want {
				t.Errorf("%v, %v; want %d policies", snapshot.Policies, err, change.want)
			}
			late := platformFrom(t, sources) // as after a restart
			if late.Ready() == nil {
				t.Error("ready before anything is known")
			}
			start(t, late)
			after(time.Minute)
			if err := late.Ready(); (err != nil) != change.unknown {
				t.Errorf("ready after a restart: %v, want an error: %t", err, change.unknown)
			}
			if _, err := (Cached{Platform: late}).Snapshot(t.Context()); (err != nil) != change.unknown {
				t.Errorf("after a restart: %v, want an error: %t", err, change.unknown)
			}
			definitions.SetAbsent(false)
			policies.SetAbsent(false)
			after(time.Minute)
			if snapshot, err := (Cached{Platform: late}).Snapshot(t.Context()); err != nil || len(snapshot.Policies) != 1 {
				t.Errorf("in the end: %v; want the policy", err)
			}
		})
	}
}

// other is a CustomResourceDefinition that serves another version alone.
func other(definition *unstructured.Unstructured) *unstructured.Unstructured {
	definition.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["name"] = "v2"
	return definition
}

func TestNamespacesInUse(t *testing.T) {
	n, _ := stamped(t)
	for name, annotations := range map[string]map[string]string{
		"b": {wellknown.AnnotationMinTTL: "1h"}, "a": {wellknown.AnnotationMaxDeadline: "?"}, "c": {wellknown.AnnotationDefaultTTL: "1h"}, "d": nil,
	} {
		meta := NamespaceMeta()
		meta.Name, meta.Annotations = name, annotations
		n.observe(meta)
	}
	if got := n.InUse(); len(got) != 3 {
		t.Errorf("%v are in use; want a, b and c", got)
	}
}
