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

// A permission to patch, which finish times, deadlines and stamps of runtimes take, is asked for at
// the start. The kind that lacks it is reported, by log and metric, until it is granted. Its feed
// runs all the same.
func TestPermissionsToPatchAreAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		resource string // that ends in this may not be patched
		want     []string
		started  []string
	}{
		"everything": {"", []string{`"kind"="JobSet" "missing"="patch jobsets.jobset.x-k8s.io/status"`, `"kind"="Pod" "missing"="patch pods"`}, []string{"jobsets"}},
		"runtimes": {"runtimes", []string{
			`"kind"="TrainJob" "missing"="patch clustertrainingruntimes.trainer.kubeflow.org, patch trainingruntimes.trainer.kubeflow.org"`,
		}, []string{"jobsets", "trainjobs"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				granted, lines := false, []string{}
				c, r := begin(t, func(c *profiled, r *Profiles) {
					c.lacks = func(needs []permission.Need) []permission.Need {
						mu.Lock()
						defer mu.Unlock()
						return slices.DeleteFunc(slices.Clone(needs), func(need permission.Need) bool {
							return granted || !strings.HasSuffix(need.Resource.Resource, test.resource)
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
				if test.resource == "runtimes" {
					after(2 * time.Second)
					c.definitions.Put(definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", 1))
				}
				after(10 * time.Minute)
				c.expect(t, test.started, nil)
				if n := count(t, r.source.Skipped); n != len(test.want) {
					t.Errorf("%d kinds are said to lack a permission, want %d", n, len(test.want))
				}
				mu.Lock()
				slices.Sort(lines)
				for i, want := range test.want {
					if len(lines) != len(test.want) || !strings.Contains(lines[i], want) {
						t.Errorf("logged %q, want %q, once each", lines, test.want)
					}
				}
				granted = true
				mu.Unlock()
				after(2 * time.Minute)
				if n := count(t, r.source.Skipped); n != 0 {
					t.Errorf("%d kinds are said to lack a permission that was granted", n)
				}
			})
		})
	}
}
