package discovery

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"curfew.dev/curfew/controller/permission"
)

// A kind that no trigger judges has no feed. Where deadlines are switched off Curfew does not ask
// for their permissions.
func TestTriggersThatAreSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		c, _ := begin(t, func(c *profiled, p *Profiles) {
			c.unwatched, p.options.Deadlines = []string{"pods", "trainjobs"}, false
			c.lacks = func(needs []permission.Need) []permission.Need {
				mu.Lock()
				defer mu.Unlock()
				for _, need := range needs {
					asked = append(asked, need.String())
				}
				return nil
			}
		})
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		c.definitions.Put(definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", 1))
		after(10 * time.Minute)
		c.expect(t, []string{"jobsets"}, nil)
		if len(asked) > 0 {
			t.Errorf("asked for %q", asked)
		}
	})
}

// A runtime that Curfew may not stamp is reported by log and metric until it may, and so is no
// other kind.
func TestPermissionToStampRuntimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		granted, lines := false, []string{}
		c, r := begin(t, func(c *profiled, r *Profiles) {
			c.lacks = func(needs []permission.Need) []permission.Need {
				mu.Lock()
				defer mu.Unlock()
				return slices.DeleteFunc(slices.Clone(needs), func(need permission.Need) bool {
					return granted || need.Verb != "patch" || !strings.HasSuffix(need.Resource.Resource, "runtimes")
				})
			}
			r.source.Log = funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(args, "lacks a permission") {
					lines = append(lines, args)
				}
			}, funcr.Options{})
		})
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		c.definitions.Put(definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", 1))
		after(10 * time.Minute)
		if n := count(t, r.source.Skipped); n != 1 {
			t.Errorf("%d kinds are said to lack a permission, want TrainJob", n)
		}
		mu.Lock()
		for _, want := range []string{`"kind"="TrainJob"`, "patch clustertrainingruntimes.trainer.kubeflow.org", "patch trainingruntimes.trainer.kubeflow.org", "deletes nothing without backfill"} {
			if len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("logged %q, want %q, once", lines, want)
			}
		}
		granted = true
		mu.Unlock()
		after(2 * time.Minute)
		if n := count(t, r.source.Skipped); n != 0 {
			t.Errorf("%d kinds are said to lack a permission that was granted", n)
		}
	})
}

// A permission that finish times or deadlines take is asked for at the start. What lacks it is
// said, by log and metric, until it is granted; what does not take it goes on.
func TestPermissionsToPatchAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		granted, lines := false, []string{}
		c, r := begin(t, func(c *profiled, r *Profiles) {
			c.lacks = func(needs []permission.Need) []permission.Need {
				mu.Lock()
				defer mu.Unlock()
				if granted {
					return nil
				}
				return needs
			}
			r.source.Log = funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(args, "lacks a permission") {
					lines = append(lines, args)
				}
			}, funcr.Options{})
		})
		c.definitions.Put(jobSets(1, "ttlSecondsAfterFinished"))
		after(10 * time.Minute)
		c.expect(t, []string{"jobsets"}, nil)
		if n := count(t, r.source.Skipped); n != 2 {
			t.Errorf("%d kinds are said to lack a permission, want Pods and JobSets", n)
		}
		mu.Lock()
		slices.Sort(lines)
		want := []string{`"kind"="JobSet" "missing"="patch jobsets.jobset.x-k8s.io/status"`, `"kind"="Pod" "missing"="patch pods"`}
		if len(lines) != len(want) || !strings.Contains(lines[0], want[0]) || !strings.Contains(lines[1], want[1]) {
			t.Errorf("logged %q, want %q, once each", lines, want)
		}
		granted = true
		mu.Unlock()
		after(2 * time.Minute)
		if n := count(t, r.source.Skipped); n != 0 {
			t.Errorf("%d kinds are said to lack a permission that was granted", n)
		}
	})
}
