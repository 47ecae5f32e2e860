package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// timed is a store that records when it is asked to delete which object.
type timed struct {
	*store
	mu sync.Mutex
	at map[string]time.Time
}

func (s *timed) Delete(ctx context.Context, r deletion.Request) deletion.Response {
	s.mu.Lock()
	s.at[r.Name] = time.Now()
	s.mu.Unlock()
	return s.store.Delete(ctx, r)
}

// Labels that existing objects were given are due all at once where they are a date: they are
// deleted at the backfill rate, on their policy's account. All other labels are on time.
func TestBackfilledLabelsAreDeletedAtTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perMinute = 10
		s := &timed{store: newStore(), at: map[string]time.Time{}}
		due := time.Now().Add(10 * time.Second)
		label := in(10 * time.Second)
		for i := range 21 {
			for name, stamp := range map[string]string{"given": "policy/p " + label + " backfill", "new": "policy/p " + label, "own": "", "changed": "policy/p 1h backfill"} {
				object := config(fmt.Sprintf("%s%02d", name, i), policy.LabelTTL, label)
				object.Annotations = map[string]string{policy.AnnotationLabelSource: stamp}
				s.put(object)
			}
		}
		sources := map[string]int{}
		engine, err := engine.New(engine.Options{Triggers: triggers(s), Clock: clock.RealClock{}, BackfillPerMinute: perMinute, OnSummary: func(all []engine.Summary) {
			for _, one := range all {
				sources[one.Source] += one.Deleted
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		kind := Labelled(nothing{}, nil, LabelledKind{Kind: configMap, Resource: "configmaps"})
		kind.List, kind.Watch, kind.Get, kind.Whole = s.list, s.watch, s.get, s.whole
		feed, err := New(kind, Options{Engine: engine, Cached: &reads{namespaces: none()}, Live: &reads{namespaces: none(), live: true}, Clock: clock.RealClock{}, Log: logr.Discard()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = engine.Run(ctx) })
		group.Go(func() { _ = feed.Run(ctx) })
		at(10 * time.Minute)
		cancel()
		s.cut()
		group.Wait()
		var given []time.Time
		for i := range 21 {
			given = append(given, s.at[fmt.Sprintf("given%02d", i)])
			for _, name := range []string{"new", "own", "changed"} {
				if late := s.at[fmt.Sprintf("%s%02d", name, i)].Sub(due); late < 0 || late > time.Second {
					t.Errorf("%s%02d was deleted %s after its expiry", name, i, late)
				}
			}
		}
		slices.SortFunc(given, time.Time.Compare)
		for i := range len(given) - perMinute {
			if took := given[i+perMinute].Sub(given[i]); given[i].IsZero() || took < time.Minute {
				t.Errorf("%d backfilled labels were deleted within %s", perMinute+1, took)
			}
		}
		if sources["policy/p"] != 42 || sources["object"] != 42 {
			t.Errorf("deleted by source: %v, want 42 of policy/p and 42 of object", sources)
		}
	})
}

// A policy that the cache does not have yet asks for the whole object: its label is not carried out
// until then, which is no evidence against its source.
func TestPolicyThatIsNewerThanTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, policies := newStore(), &lagging{}
		s.put(config("a", policy.LabelTTL, "5m"))
		feeds, _ := stock(t, s, none(), func(o *Options) { over(o, func(r *reads) { r.policies = policies }) }, LabelledKind{})
		limit := v1alpha1.Duration("1m")
		policies.live = []*expression.Policy{lifecycle(t, v1alpha1.LifecyclePolicySpec{
			Match:  v1alpha1.Match{MatchConditions: []v1alpha1.MatchCondition{{Name: "a", Expression: "has(object.spec)"}}},
			Bounds: &v1alpha1.Bounds{MaxTTLLabel: &limit},
		})}
		if got, err := feeds[0].Judge(t.Context(), engine.Object{Namespace: "ci", Name: "a"}); !errors.Is(err, engine.ErrRulesChanged) {
			t.Errorf("%+v, %v; want %v", got, err, engine.ErrRulesChanged)
		}
	})
}
