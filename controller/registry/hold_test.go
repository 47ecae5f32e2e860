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

// From the moment a profile changes until a feed knows the change, nothing of its kind is deleted.
func TestChangedProfileHoldsItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		c, r := begin(t, func(c *cluster, r *Registry) {
			r.options.Hold = func(resource schema.GroupVersionResource, on bool) {
				c.mu.Lock()
				defer c.mu.Unlock()
				log = append(log, map[bool]string{true: "hold ", false: "release "}[on]+resource.Resource)
			}
			started := r.options.Start
			r.options.Start = func(profile *expression.Profile) (Running, error) {
				feed, err := started(profile)
				c.mu.Lock()
				defer c.mu.Unlock()
				log = append(log, "start "+profile.Name)
				return feed, err
			}
			r.OnProfile(func(kind schema.GroupKind) {
				c.mu.Lock()
				defer c.mu.Unlock()
				log = append(log, "changed "+kind.Kind)
			})
		})
		expect := func(want ...string) {
			t.Helper()
			c.mu.Lock()
			defer c.mu.Unlock()
			if !slices.Equal(log, want) {
				t.Errorf("%q\nwant %q", log, want)
			}
			log = nil
		}
		c.definitions.put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		expect("start jobsets.jobset.x-k8s.io", "release jobsets")

		c.profiles.put(ownProfile("own", 1))
		synctest.Wait()
		expect("hold jobsets", "changed JobSet")
		after(2 * time.Second)
		expect("start own", "release jobsets")

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
		changed := r.takeChanged()
		wanted, err := r.wanted()
		if err != nil {
			t.Fatal(err)
		}
		c.profiles.put(ownProfile("own", 3))
		synctest.Wait()
		expect("hold jobsets", "changed JobSet", "hold jobsets", "changed JobSet")
		r.reconcile(t.Context(), wanted, changed)
		synctest.Wait()
		expect("start own")
		after(2 * time.Second)
		expect("start own", "release jobsets")

		// Curfew lacks a permission: the kind waits.
		c.mu.Lock()
		c.missing["jobsets"] = []string{"delete"}
		c.mu.Unlock()
		c.profiles.remove("own")
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
