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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
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

// Labels that existing objects were given may be due all at once: they are deleted at the backfill
// rate, on their policy's account. So are those whose stamp nothing proves,
// as their policy was edited or never existed: after the others, and on no policy's account. All
// other labels are on time. The same holds where a condition of the policy takes the whole object.
func TestBackfilledLabelsAreDeletedAtTheirRate(t *testing.T) {
	t.Run("a policy that does not exist", func(t *testing.T) { backfilledLabels(t, "made-up") })
	t.Run("a policy that does not match", func(t *testing.T) {
		backfilledLabels(t, "platform", v1alpha1.MatchCondition{Name: "a", Expression: "!object.metadata.name.matches('forged|blamed')"})
	})
}

func backfilledLabels(t *testing.T, named string, conditions ...v1alpha1.MatchCondition) {
	synctest.Test(t, func(t *testing.T) {
		const perMinute = 10
		s := &timed{store: newStore(), at: map[string]time.Time{}}
		due := time.Now().Add(10 * time.Second)
		const label = "10s"
		policy := lifecycle(t, v1alpha1.LifecyclePolicySpec{
			Match:    v1alpha1.Match{MatchConditions: conditions, Kinds: []v1alpha1.GroupKind{{Kind: "ConfigMap"}}, ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: wellknown.LabelTTL, Operator: metav1.LabelSelectorOpDoesNotExist}}}},
			Defaults: &v1alpha1.Defaults{TTLLabel: &v1alpha1.LabelValue{Value: new(v1alpha1.LabelTTL(label))}},
		})
		for i := range 16 {
			for name, stamp := range map[string]string{
				"given": "policy/platform " + label + " backfill", "new": "policy/platform " + label, "own": "", "changed": "policy/platform 1h backfill",
				"forged": "policy/" + named + " " + label + " backfill", "blamed": "policy/" + named + " " + label,
			} {
				object := config(fmt.Sprintf("%s%02d", name, i), wellknown.LabelTTL, label)
				object.Annotations = map[string]string{wellknown.AnnotationLabelSource: stamp}
				if name == "forged" { // They are due first.
					object.CreationTimestamp = metav1.NewTime(object.CreationTimestamp.Add(-5 * time.Second))
				}
				s.put(object)
			}
		}
		sources := map[string]int{}
		engine, err := expire.New(expire.Options{Triggers: triggers(s), Clock: clock.RealClock{}, BackfillPerMinute: perMinute, OnSummary: func(all []expire.Summary) {
			for _, summary := range all {
				sources[summary.Source] += summary.Deleted
			}
		}})
		must(t, err)
		stock(t, s.store, none(), func(o *Options) {
			o.Engine = engine
			over(o, func(r *reads) { r.policies = said(policy) })
		}, LabelledKind{})
		at(10 * time.Minute)
		deleted := func(name string) (out []time.Time) {
			for i := range 16 {
				out = append(out, s.at[fmt.Sprintf("%s%02d", name, i)])
			}
			slices.SortFunc(out, time.Time.Compare)
			return out
		}
		given, forged := deleted("given"), deleted("forged")
		for _, instant := range forged {
			if instant.After(due) && instant.Before(given[15]) {
				t.Errorf("one that is only claimed to be backfilled was deleted at %s, before all that were: %s", instant, given[15])
			}
		}
		for _, name := range []string{"new", "own", "changed", "blamed"} {
			for _, instant := range deleted(name) {
				if late := instant.Sub(due); late < 0 || late > time.Second {
					t.Errorf("%s: deleted %s after its expiry", name, late)
				}
			}
		}
		limited := slices.Concat(given, forged)
		slices.SortFunc(limited, time.Time.Compare)
		for i := range len(limited) - perMinute {
			if took := limited[i+perMinute].Sub(limited[i]); limited[i].IsZero() || took < time.Minute {
				t.Errorf("%d backfilled labels were deleted within %s", perMinute+1, took)
			}
		}
		if sources["policy/platform"] != 32 || sources["object"] != 64 || len(sources) != 2 {
			t.Errorf("deleted by source: %v, want 32 of policy/platform and 64 of object", sources)
		}
	})
}

// A policy that the cache does not have yet asks for the whole object: its label is not carried out
// until then, which is no evidence against its source.
func TestPolicyThatIsNewerThanTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, policies := newStore(), &lagging{}
		s.put(config("a", wellknown.LabelTTL, "5m"))
		feeds, _ := stock(t, s, none(), func(o *Options) { over(o, func(r *reads) { r.policies = policies }) }, LabelledKind{})
		limit := v1alpha1.Duration("1m")
		policies.live = []*expression.Policy{lifecycle(t, v1alpha1.LifecyclePolicySpec{
			Match:  v1alpha1.Match{MatchConditions: []v1alpha1.MatchCondition{{Name: "a", Expression: "has(object.spec)"}}},
			Bounds: &v1alpha1.Bounds{MaxTTLLabel: &limit},
		})}
		if got, err := feeds[0].Judge(t.Context(), expire.Entry{Namespace: "ci", Name: "a"}); !errors.Is(err, expire.ErrRulesChanged) {
			t.Errorf("%+v, %v; want %v", got, err, expire.ErrRulesChanged)
		}
	})
}
