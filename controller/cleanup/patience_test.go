package cleanup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A kind whose DELETEs a breaker holds costs a run the long patience of its first pages alone.
func TestPausedKindDoesNotHoldARunForDays(t *testing.T) {
	defer small(1)()
	c := newCluster(t)
	for i := range 40 {
		object := c.objects["tmp-1"].DeepCopy()
		object.Name = fmt.Sprintf("tmp-x%02d", i)
		object.UID = types.UID(object.Name)
		c.objects[object.Name] = object
	}
	c.answer, c.cause = func(string) *expire.Ending { return new(expire.Held) }, expire.ErrPaused
	must(t, c.work(t.Context(), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})))
	if run := c.status.LastRun; run.Phase != v1alpha1.RunCompleted || run.Deleted != 0 || run.Lost != 0 {
		t.Errorf("run %+v", run)
	}
	if c.waited < 20*time.Minute || c.waited > 3*time.Hour {
		t.Errorf("45 pages waited %s", c.waited)
	}
}

// Where it cannot be confirmed for a moment that a run may still delete, it sends nothing, waits,
// and goes on. It lists nothing again for that.
func TestConfirmationFailsForAMoment(t *testing.T) {
	for name, c := range map[string]struct {
		times  int
		policy bool
	}{
		"the account":           {times: 3},
		"the policy":            {times: 3, policy: true},
		"the account, for long": {times: 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(1)()
			api, long := newCluster(t), c.times > 3
			trouble := errors.New("etcdserver: leader changed")
			fails := func() error {
				if api.deletedAlready() {
					if c.times--; c.times >= 0 {
						return trouble
					}
				}
				return nil
			}
			if c.policy {
				api.policy = fails
			} else {
				api.account = func() (types.UID, error) { return "account", fails() }
			}
			err := api.work(t.Context(), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {}))
			if long {
				if sent := len(api.sent); !errors.Is(err, trouble) || sent > inFlight {
					t.Errorf("%v, %d deleted", err, sent)
				}
				return
			}
			must(t, err)
			if api.check(name); api.lists != 1 || api.waited == 0 {
				t.Errorf("%d lists, waited %s", api.lists, api.waited)
			}
		})
	}
}

// A policy that is suspended or edited deletes nothing more at once, or after a few seconds while
// the watch of the policies is silent (S12).
func TestSuspendedWhileTheWatchIsSilent(t *testing.T) {
	for name, c := range map[string]struct {
		page, most int
		shown      bool // by the watch
	}{
		"between two pages":  {page: 1, most: inFlight},
		"within a page":      {page: 5, most: 3},
		"the watch shows it": {page: 2, most: 2, shown: true}, // Two batches have a request each under way.
	} {
		t.Run(name, func(t *testing.T) {
			defer small(c.page)()
			api := newCluster(t)
			process := api.controller()
			if c.shown {
				process.unchanged = func(*cleanup.Policy) bool {
					api.mu.Lock()
					defer api.mu.Unlock()
					return !api.deletedAlready()
				}
			}
			api.answer = func(string) *expire.Ending {
				process.options.Clock.(hasty).Step(confirmedFor / 3)
				return nil
			}
			api.policy = func() error {
				if api.deletedAlready() && !c.shown {
					return errChanged
				}
				return nil
			}
			err := process.start(t.Context(), api.cur(tmpPolicy(t, nothing), start), start)
			if sent := len(api.sent); !errors.Is(err, errChanged) || sent == 0 || sent > c.most {
				t.Errorf("WRONG DELETE: %v after %d", err, sent)
			}
		})
	}
}
