package discovery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// beginHeld runs a Profiles. expect compares what it held, released and started since the last
// call.
func beginHeld(t *testing.T, starting func(*profiled)) (c *profiled, r *Profiles, expect func(want ...string)) {
	t.Helper()
	var log []string
	c, r = begin(t, func(c *profiled, r *Profiles) {
		add := func(line string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			log = append(log, line)
		}
		c.log = add
		c.making = func() {
			if starting != nil {
				starting(c)
			}
		}
		c.made = func(profile string) { add("start " + profile) }
		c.feeds.Apply(t.Context(), &Source{Make: c.Make, Log: logr.Discard(), Skipped: r.source.Skipped}, []*Spec{{
			Key:  Key{Resource: schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}, Purpose: Label},
			Kind: schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
		}}, nil)
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
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		after(2 * time.Second)
		expect("start jobsets.jobset.x-k8s.io", "release jobsets")

		c.profiles.Put(ownProfile("own", 1))
		synctest.Wait()
		expect("hold jobsets", "changed JobSet")
		after(2 * time.Second)
		expect("hold jobsets", "start own", "release jobsets")

		c.profiles.Put(ownProfile("own", 1)) // its status
		after(2 * time.Second)
		expect()

		c.profiles.Put(ownProfile("unheeded", 1)) // the first in the alphabet counts
		synctest.Wait()
		expect("hold jobsets", "changed JobSet")
		after(2 * time.Second)
		expect("release jobsets")

		// A second change while the first is carried out: the first feed does not release the kind.
		c.profiles.Put(ownProfile("own", 2))
		synctest.Wait()
		changed := c.feeds.Changes()
		wanted, err := r.wanted()
		must(t, err)
		c.profiles.Put(ownProfile("own", 3))
		synctest.Wait()
		expect("hold jobsets", "changed JobSet", "hold jobsets", "changed JobSet")
		c.feeds.Apply(t.Context(), r.source, wanted, changed)
		synctest.Wait()
		expect("hold jobsets", "start own", "hold jobsets")
		after(2 * time.Second)
		expect("hold jobsets", "start own", "release jobsets")

		// Curfew lacks a permission: the kind waits.
		c.mu.Lock()
		c.missing["jobsets"] = []string{"watch"}
		c.mu.Unlock()
		c.profiles.Remove("own")
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet", "hold jobsets")
		c.profiles.Put(ownProfile("unheeded", 2)) // the profile in effect, which no feed knows yet
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet", "hold jobsets")
		c.profiles.Put(ownProfile("zero", 1)) // which is not in effect: no feed has started since
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet")
		c.profiles.Put(ownProfile("zz-unheeded", 1)) // which does not let what the old rules judged be deleted
		after(10 * time.Second)
		expect("hold jobsets", "changed JobSet")
		c.mu.Lock()
		delete(c.missing, "jobsets")
		c.mu.Unlock()
		after(2 * time.Minute)
		expect("start unheeded", "release jobsets")
	})
}

// The profile changes while a feed with the old one is being made. Nothing that this feed judges is
// deleted.
func TestProfileChangesWhileAFeedStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		c, _, expect := beginHeld(t, func(c *profiled) {
			if !first {
				return
			}
			first = false
			c.profiles.Put(ownProfile("own", 1))
			time.Sleep(gatherFor / 2) // less than it takes until the change is acted on
		})
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		after(gatherFor + gatherFor*3/4)
		// Before the first feed there is nothing to hold.
		expect("changed JobSet", "start jobsets.jobset.x-k8s.io", "hold jobsets")
		after(2 * time.Second)
		expect("hold jobsets", "start own", "release jobsets")
	})
}
