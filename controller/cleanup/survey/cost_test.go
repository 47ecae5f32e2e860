package survey

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// costly is an expression that exceeds the cost limit of one evaluation on any ConfigMap.
const costly = `object.kind != "ConfigMap" || [1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c,
	[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))`

// All expressions for an object have a limit together, and all for a page (S10). What they cannot
// decide is kept, and the next page is judged as if nothing had happened.
func TestExpressionsAreLimited(t *testing.T) {
	before := pageCost
	pageCost = 3 * expression.CostLimit
	defer func() { pageCost = before }()
	w := newWorld()
	for i := range 5 {
		w.add("configmaps", "prod", fmt.Sprint("c", i), map[string]any{})
		w.add("secrets", "prod", fmt.Sprint("s", i), map[string]any{})
	}
	yields, kept, deleted := 0, []string(nil), 0
	options := w.options()
	options.Yield = func(_ context.Context, inPage bool) error {
		if inPage {
			yields++
		}
		return nil
	}
	s := open(t, policyOf(t, v1alpha1.CleanupSpec{}, []string{"configmaps", "secrets"}, costly, costly, costly), w, options)
	err := s.Choose(t.Context(), func(_ *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict == cleanup.Delete {
			deleted++
			return nil
		}
		_, why, _ := strings.Cut(decision.Message, "(c")
		kept = append(kept, decision.Reason+" (c"+why)
		return nil
	})
	must(t, err)
	const hint = ": use a smaller object, or cheaper expressions"
	const forOne = "EvaluationFailed (c0): evaluating: operation cancelled: actual cost limit exceeded" + hint + "\n" +
		"spec.conditions[1] (c1): the expressions cost more than they may for one object" + hint
	const forPage = "EvaluationFailed (c0): the expressions cost more than they may for the objects of one page of a list" + hint
	if want := []string{forOne, forOne, forOne, forPage, forPage}; !slices.Equal(kept, want) || deleted != 5 || yields != 10 {
		t.Errorf("kept %q, want %q; %d deleted, want 5; others could work %d times within pages", kept, want, deleted, yields)
	}
}

func here(_ context.Context, f func() error) error { return f() }

// Those for the live judgements of a batch have a limit, too.
func TestLiveExpressionsAreLimited(t *testing.T) {
	before := pageCost
	pageCost = 2 * expression.CostLimit
	defer func() { pageCost = before }()
	w := newWorld()
	w.add("configmaps", "prod", "c", map[string]any{})
	s := open(t, policyOf(t, v1alpha1.CleanupSpec{}, []string{"configmaps"}, costly), w, w.options())
	budget := NewBudget()
	for i, want := range []string{"actual cost limit exceeded", "actual cost limit exceeded", "the objects of one batch"} {
		decision, err := s.JudgeLive(t.Context(), &cleanup.Target{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true}, w.objects["configmaps"][0], w, budget, here)
		if err != nil || decision.Verdict != cleanup.Skip || !strings.Contains(decision.Message, want) {
			t.Errorf("judgement %d: %+v %v, want %s", i+1, decision, err, want)
		}
	}
}
