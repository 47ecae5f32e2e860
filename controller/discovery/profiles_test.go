package discovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/test/builders"
)

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

// begin runs a Profiles until the test ends. Call it inside a synctest bubble.
func begin(t *testing.T, before ...func(*profiled, *Profiles)) (*profiled, *Profiles) {
	t.Helper()
	c := &profiled{
		profiles: builders.MakeSource(), definitions: builders.MakeSource(), runtimes: builders.MakeSource(),
		missing: map[string][]string{}, broken: map[string]bool{}, running: map[string]*stream{},
	}
	c.feeds = NewSet(SetOptions{Tracker: c, Lacks: c.Lacks, Clock: clock.RealClock{}})
	builtin, err := profiles.All()
	must(t, err)
	none := builders.MakeSource()
	c.platform, err = follow.NewPlatform(follow.Options{
		Builtin: builtin, Client: fake.NewSimpleDynamicClient(runtime.NewScheme()), Clock: clock.RealClock{}, Log: logr.Discard(),
		Source: func(resource schema.GroupVersionResource) follow.Source {
			switch resource.Resource {
			case "kindprofiles":
				return c.profiles
			case "customresourcedefinitions":
				return c.definitions
			case "lifecyclepolicies":
				return none
			default:
				return c.runtimes
			}
		},
	})
	must(t, err)
	r := NewProfiles(ProfilesOptions{Typed: Typed(), Watched: c.Watched, Deadlines: true, Platform: c.platform, Feeds: c.feeds, Make: c.Make, Clock: clock.RealClock{}, Log: logr.Discard()})
	for _, prepare := range before {
		prepare(c, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = c.feeds.Run(ctx) })
	group.Go(func() { _ = r.Run(ctx) })
	group.Go(func() { _ = c.platform.Start(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
	return c, r
}

func (c *profiled) expect(t *testing.T, started, forgot []string) {
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
func TestKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t, func(c *profiled, _ *Profiles) { c.lingers = 10 * time.Second })
		c.profiles.SetAbsent(true) // Curfew's own CustomResourceDefinitions are not installed: built-in profiles apply.
		after(2 * time.Second)
		c.expect(t, nil, nil)
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		c.definitions.Put(definition("example.com", "v1", "Unknown", "unknowns", 1))
		after(2 * time.Second)
		c.expect(t, []string{"jobsets"}, nil)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.TTL == nil {
			t.Fatalf("%v: want a feed with the native TTL", feed)
		}
		c.definitions.Remove("jobsets.jobset.x-k8s.io")
		after(2 * time.Second)
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished")) // It is back before its feed has ended.
		after(2 * time.Second)
		c.expect(t, []string{"jobsets"}, nil)
		after(10 * time.Second)
		c.expect(t, []string{"jobsets", "jobsets"}, nil)
		c.definitions.Remove("jobsets.jobset.x-k8s.io")
		after(12 * time.Second)
		c.expect(t, []string{"jobsets", "jobsets"}, []string{"jobsets"})
		if c.feed("jobsets") != nil {
			t.Error("the feed of a kind that is gone still runs")
		}
	})
}

// A native field that the installed version lacks would drop a written value; once it has it, no
// restart is needed.
func TestSchemaChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t)
		c.definitions.Put(jobSets(1))
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.TTL != nil {
			t.Fatal("want a feed without native TTL")
		}
		c.definitions.Put(jobSets(2, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.TTL == nil {
			t.Fatal("want a feed with native TTL once the schema has it")
		}
		c.definitions.Put(jobSets(2, "ttlSecondsAfterFinished")) // such as a status update
		after(2 * time.Second)
		c.expect(t, []string{"jobsets", "jobsets"}, nil) // Tracked objects stay for the new feed.
	})
}

func TestPermissionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t)
		c.missing["jobsets"] = []string{"watch"}
		c.broken["workflows"] = true // One failing kind never delays another.
		c.definitions.Put(jobSets(1))
		c.definitions.Put(definition("argoproj.io", "v1alpha1", "Workflow", "workflows", 1))
		c.definitions.Put(definition("ray.io", "v1", "RayJob", "rayjobs", 1))
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

func TestClusterProfileReplacesBuiltin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := begin(t, func(c *profiled, _ *Profiles) {
			if got, err := c.platform.Propagation(schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}); err == nil {
				t.Errorf("propagation %q before the profiles are known, want an error", got)
			}
		})
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		c.profiles.Put(ownProfile("own", 1))
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.Name != "own" {
			t.Fatalf("%v: want the profile of the cluster", feed)
		}
		c.feeds.RejudgeNamespace("ci")
		c.feeds.RejudgeKinds(func(kind schema.GroupKind) bool { return kind.Kind == "JobSet" })
		c.feeds.RejudgeKinds(func(kind schema.GroupKind) bool { return kind.Kind == "Other" })
		if feed := c.feed("jobsets"); !slices.Equal(feed.judged, []string{"ci", "*"}) {
			t.Errorf("judged again: %v", feed.judged)
		}
		c.profiles.Remove("own")
		after(2 * time.Second)
		if feed := c.feed("jobsets"); feed == nil || feed.profile.Name == "own" {
			t.Fatalf("%v: want the built-in profile back", feed)
		}
	})
}
