package feed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// TestUnfinishedPods: the feed of Pods asks for finished ones alone, unless a trigger that applies
// to Pods is Unfinished. That trigger then judges a running Pod.
func TestUnfinishedPods(t *testing.T) {
	for name, test := range map[string]struct {
		unfinished, applies bool
		want                string
	}{
		"finished Pods are enough":      {applies: true, want: finishedPods},
		"one trigger needs running":     {unfinished: true, applies: true},
		"it does not apply to the kind": {unfinished: true, want: finishedPods},
	} {
		t.Run(name, func(t *testing.T) {
			defer judging.RegisterTrigger(judging.TriggerInfo{Name: "stuck", Verb: "deletes", Unfinished: test.unfinished})()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.pods = true
				running := finished("ci", "running", "uid-running", -1)
				running.Status.Conditions = nil
				w.put(running)

				kind, selector, judged := w.kind(), "", 0
				kind.FieldSelector = Pods(fake.NewClientset()).FieldSelector
				kind.Watch = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					selector = options.FieldSelector
					return w.watch(ctx, options)
				}
				if test.applies {
					kind.Triggers = append(kind.Triggers, &Trigger{Name: "stuck", Judge: func(state *State) (policy.Verdict, any, error) {
						judged++
						return policy.Kept("runs"), nil, nil
					}})
				}
				options := Options{Clock: clock.RealClock{}, Log: logr.Discard()}
				all := triggers(w)
				all = append(all, expire.Trigger{Name: "stuck", Action: all[0].Action, Deletes: true})
				var err error
				if options.Engine, err = expire.New(expire.Options{Triggers: all, Clock: clock.RealClock{}}); err != nil {
					t.Fatal(err)
				}
				over(&options, func(r *reads) { r.namespaces = none() })
				run(t, kind, options, w.cut)
				at(time.Second)
				if selector != test.want || judged > 0 != test.applies {
					t.Errorf("field selector %q, want %q; judged %d times", selector, test.want, judged)
				}
			})
		})
	}
}
