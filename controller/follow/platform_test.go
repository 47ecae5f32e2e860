package follow

import (
	"context"
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
	"curfew.dev/curfew/policy/v1alpha1"
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
	out, err := NewPlatform(Options{
		Client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objects...), Clock: clock.RealClock{}, Log: logr.Discard(),
		Source: func(resource schema.GroupVersionResource) Source {
			switch resource.Resource {
			case v1alpha1.LifecyclePolicies:
				return policies
			case v1alpha1.KindProfiles:
				return profiles
			default:
				return newSource()
			}
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
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = p.Start(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

// A CRD that is not installed is no reason to wait: its kind has no objects, until it is installed.
// Until policies are known nothing is judged, since a bound among them could keep an object (S6).
func TestPlatformWithoutItsCRDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies := newSource()
		policies.SetAbsent(true)
		p := platformOver(t, policies)
		cached := Cached{Platform: p}
		if _, err := cached.Snapshot(t.Context()); err == nil || p.Ready() == nil {
			t.Errorf("ready before anything is known: %v", err)
		}
		start(t, p)
		synctest.Wait()
		if err := p.Ready(); err != nil {
			t.Errorf("not ready without the CRDs: %v", err)
		}
		policies.SetAbsent(false)
		policies.Put(lifecyclePolicy(`"30s"`, 1))
		after(time.Minute)
		if snapshot, err := cached.Snapshot(t.Context()); err != nil || len(snapshot.Policies) != 1 {
			t.Errorf("%v, %v; want the policy", snapshot.Policies, err)
		}
		policies.Remove("platform")
		after(time.Second)
		if snapshot, err := cached.Snapshot(t.Context()); err != nil || len(snapshot.Policies) != 0 {
			t.Errorf("%v, %v after the deletion", snapshot.Policies, err)
		}
	})
}

// deaf is a source whose watches report nothing.
type deaf struct{ *source }

func (deaf) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewRaceFreeFake(), nil
}

// What the cache has not heard of yet decides right before a deletion: policies, namespaces and
// runtimes are read live.
func TestLiveReadsPastTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies := deaf{newSource()}
		torch := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Runtime", "metadata": map[string]any{"name": "torch"}}}
		p := platformOver(t, policies, torch)
		start(t, p)
		namespaces, api := stamped(t, namespace(map[string]string{policy.AnnotationMode: "dry-run"}, nil))
		namespaces.observe(seen(t, api))
		after(time.Second)
		policies.Put(lifecyclePolicy(`"30s"`, 1))
		if err := api.Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ci"}}); err != nil {
			t.Fatal(err)
		}
		cached := Cached{Platform: p, Namespaces: namespaces}
		reference := &expression.Reference{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Runtime"}, Resource: "runtimes", Name: "torch"}
		p.Runtimes.followed[resourceOf(reference)] = &followedRuntimes{mirror: &Mirror[map[string]any]{items: map[string]map[string]any{"torch": {"old": true}}}}
		for name, row := range map[string]struct {
			live     bool
			policies int
			mode     policy.Mode
		}{"cached": {false, 0, policy.ModeDryRun}, "live": {true, 1, policy.ModeEnforce}} {
			from := cached.Live()
			if !row.live {
				from = cached
			}
			snapshot, err := from.Snapshot(t.Context())
			if err != nil || len(snapshot.Policies) != row.policies || len(snapshot.Concerning(policy.JobProfile.Kind.GroupKind())) != row.policies {
				t.Errorf("%s: %d policies, %v; want %d", name, len(snapshot.Policies), err, row.policies)
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

// A missing CRD is not an error. A 404 for a kind that has objects, which a proxy may send, is one:
// it does not say that no bound applies.
func TestLiveReadsWithoutCRDs(t *testing.T) {
	policies, profiles := newSource(), newSource()
	p := platformWith(t, policies, profiles)
	policies.SetAbsent(true)
	profiles.SetAbsent(true)
	live := func() (ofPolicies, ofProfiles error) {
		_, ofPolicies = p.Policies.Live(t.Context())
		_, ofProfiles = p.Profiles.Live(t.Context())
		return ofPolicies, ofProfiles
	}
	if a, b := live(); a != nil || b != nil {
		t.Errorf("without CRDs: %v, %v", a, b)
	}
	p.Policies.mirror.items["platform"] = compiledPolicy{}
	p.Profiles.mirror.items["things"] = compiledProfile{}
	if a, b := live(); a == nil || b == nil {
		t.Errorf("a 404 although there are objects: %v, %v; want errors", a, b)
	}
}

// Nor does a profile count that was corrected, added or removed since the watch last reported.
func TestLiveReadsProfilesPastTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thing := schema.GroupKind{Group: "example.com", Kind: "Thing"}
		profile := func(generation int64, propagation string) *unstructured.Unstructured {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"kind":  map[string]any{"group": thing.Group, "version": "v1", "kind": thing.Kind, "resource": "things"},
				"state": map[string]any{"finished": "false", "finishTime": "null", "outcome": `"Failed"`}, "propagationPolicy": propagation,
			}}}
			object.SetName("things")
			object.SetUID("uid-1")
			object.SetGeneration(generation)
			return object
		}
		profiles := deaf{newSource()}
		profiles.Put(profile(1, "Background"))
		p := platformWith(t, newSource(), profiles)
		start(t, p)
		after(time.Second)
		cached := Cached{Platform: p}
		live := cached.Live()
		expect := func(when string, from platform.Source, generation int64, propagation string) {
			t.Helper()
			snapshot, err := from.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			has, _ := snapshot.Propagation(thing)
			if compiled := snapshot.Compiled(thing); (compiled == nil) != (generation == 0) || compiled != nil && compiled.Generation != generation || string(has) != propagation {
				t.Errorf("%s: %+v, %q; want generation %d, %s", when, compiled, has, generation, propagation)
			}
		}
		expect("unchanged", live, 1, "Background")
		profiles.Put(profile(2, "Orphan"))
		expect("corrected, cached", cached, 1, "Background")
		expect("corrected, live", live, 2, "Orphan")
		profiles.Remove("things")
		expect("removed, cached", cached, 1, "Background")
		expect("removed, live", live, 0, "")
	})
}

func TestBoundedNamespaces(t *testing.T) {
	n, _ := stamped(t)
	for name, annotations := range map[string]map[string]string{
		"b": {policy.AnnotationMinTTL: "1h"}, "a": {policy.AnnotationMaxDeadline: "?"}, "c": {policy.AnnotationDefaultTTL: "1h"}, "d": nil,
	} {
		meta := NamespaceMeta()
		meta.Name, meta.Annotations = name, annotations
		n.observe(meta)
	}
	if got := n.Bounded(); len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("%v; want a and b", got)
	}
	if got := n.InUse(); len(got) != 3 {
		t.Errorf("%v are in use; want a, b and c", got)
	}
}
