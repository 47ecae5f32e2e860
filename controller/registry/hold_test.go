package registry

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/expression"
)

// ownProfile is a KindProfile of the cluster for JobSets.
func ownProfile(name string, generation int64) *unstructured.Unstructured {
	own := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"kind":  map[string]any{"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet", "resource": "jobsets"},
		"state": map[string]any{"finished": "false", "finishTime": "null", "outcome": `"Failed"`},
	}}}
	own.SetName(name)
	own.SetUID("uid-1")
	own.SetGeneration(generation)
	return own
}

// beginHeld runs a registry. expect compares what it held, released and started since the last call.
func beginHeld(t *testing.T, starting func(*cluster)) (c *cluster, r *Registry, expect func(want ...string)) {
	t.Helper()
	var log []string
	c, r = begin(t, func(c *cluster, r *Registry) {
		add := func(line string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			log = append(log, line)
		}
		r.options.Hold = func(resource schema.GroupVersionResource, on bool) {
			add(map[bool]string{true: "hold ", false: "release "}[on] + resource.Resource)
		}
		started := r.options.Start
		r.options.Start = func(profile *expression.Profile) (Running, error) {
			if starting != nil {
				starting(c)
			}
			feed, err := started(profile)
			add("start " + profile.Name)
			return feed, err
		}
		r.OnProfile(func(kind schema.GroupKind) { add("changed " + kind.Kind) })
	})
	return c, r, func(want ...string) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Equal(log, want) {
			t.Errorf("%q\nwant %q", log, want)
		}
		log = nil
	}
}

// From the moment a profile changes until a feed knows the change, nothing of its kind is deleted.
func TestChangedProfileHoldsItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, expect := beginHeld(t, nil)
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		expect("start jobsets.jobset.x-k8s.io", "release jobsets")

		c.profiles.put(ownProfile("own", 1))
		synctest.Wait()
		expect("hold jobsets", "changed JobSet")
		after(2 * time.Second)
		expect("hold jobsets", "start own", "release jobsets")

		c.profiles.put(ownProfile("own", 1)) // its status
		after(2 * time.Second)
		expect()

		c.profiles.put(ownProfile("unheeded", 1)) // the first in the alphabet counts
		synctest.Wait()
		expect("hold jobsets", "changed JobSet")
		after(2 * time.Second)
		expect("release jobsets")

		// A second change while the first is carried out: the first feed does not release the kind.
		c.profiles.put(ownProfile("own", 2))
		synctest.Wait()
		changed := r.pendingChanges()
		wanted, err := r.wanted()
		if err != nil {
			t.Fatal(err)
		}
		c.profiles.put(ownProfile("own", 3))
		synctest.Wait()
		expect("hold jobsets", "changed JobSet", "hold jobsets", "changed JobSet")
		r.reconcile(t.Context(), wanted, changed)
		synctest.Wait()
		expect("hold jobsets", "start own", "hold jobsets")
		after(2 * time.Second)
		expect("hold jobsets", "start own", "release jobsets")

		// Curfew lacks a permission: the kind waits.
		c.mu.Lock()
		c.missing["jobsets"] = []string{"delete"}
		c.mu.Unlock()
		c.profiles.remove("own")
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet", "hold jobsets")
		c.profiles.put(ownProfile("unheeded", 2)) // the profile in effect, of which no feed knows yet
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet", "hold jobsets")
		c.profiles.put(ownProfile("zero", 1)) // which is not in effect: no feed has started since
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet")
		c.profiles.put(ownProfile("zz-unheeded", 1)) // which does not let what the old rules judged be deleted
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet")
		c.mu.Lock()
		delete(c.missing, "jobsets")
		c.mu.Unlock()
		after(2 * time.Minute)
		expect("start unheeded", "release jobsets")
	})
}

// The profile changes while a feed with the old one is being made. Nothing that this feed judges is deleted.
func TestProfileChangesWhileAFeedStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		c, _, expect := beginHeld(t, func(c *cluster) {
			if !first {
				return
			}
			first = false
			c.profiles.put(ownProfile("own", 1))
			time.Sleep(settle / 2) // less than it takes until the change is acted on
		})
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(settle + settle*3/4)
		expect("hold jobsets", "changed JobSet", "start jobsets.jobset.x-k8s.io", "hold jobsets")
		after(2 * time.Second)
		expect("hold jobsets", "start own", "release jobsets")
	})
}
