package expression

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

// wide is an object with n items of every form that expressions loop over.
func wide(n int) map[string]any {
	items, conditions, annotations := make([]any, n), make([]any, n), make(map[string]any, n)
	for i := range n {
		items[i] = map[string]any{"image": "a"}
		conditions[i] = map[string]any{"type": "", "status": ""}
		annotations[fmt.Sprintf("%x", i)] = ""
	}
	return map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"items": items}, "status": map[string]any{"conditions": conditions}}
}

// loopsOverAll are loops of the forms that people write.
var loopsOverAll = map[string]string{
	"exists over conditions":  `has(object.status) && has(object.status.conditions) && object.status.conditions.exists(c, c.type == "Complete" && c.status == "True")`,
	"exists over annotations": `!has(object.metadata.annotations) || !object.metadata.annotations.exists(k, k.startsWith("exempt/"))`,
	"all over items":          `object.spec.items.all(c, c.image != "bad")`,
	"all has":                 `object.spec.items.all(c, has(c.image))`,
	"optional":                `object.?spec.?items.orValue([]).all(c, c.?image.orValue("") != "bad")`,
	"filter and map":          `object.spec.items.filter(c, c.image == "a").map(c, c.image).size() > 0`,
	"exists_one":              `!object.spec.items.exists_one(c, c.image == "bad" || c.image == "worse")`,
	"two variables":           `object.metadata.annotations.all(k, v, k != "x" && v != "y")`,
	"nested":                  `object.spec.items.all(c, [1, 2].exists(i, i == 2 || c.image == "x"))`,
	"conditional":             `object.spec.items.all(c, has(c.x) ? c.x == "a" : c.image == "a")`,
}

// S9: the time of a loop is proportional to its cost. CEL's cost tracker searches its stack of
// values for each step, so the stack must not grow with the items. It did: 80,000 items took ten
// seconds.
func TestLoopsAreLinear(t *testing.T) {
	const most = 64 // entries, for any number of items
	for name, source := range loopsOverAll {
		program := mustCompile(t, source, ScopeProfile, ResultBool)
		_, details, err := program.program.Eval(activation{&Variables{Object: wide(2_000)}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tracker := reflect.ValueOf(details).Elem().FieldByName("costTracker").Elem()
		if height := tracker.FieldByName("stack").Cap(); height < 1 || height > most {
			t.Errorf("%s: the stack has grown to %d entries in 2,000 iterations, want at most %d", name, height, most)
		}
	}
}

func policyUndecided(err error) *lifetime.UndecidedError {
	out := (*lifetime.UndecidedError)(nil)
	errors.As(err, &out)
	return out
}

// The cost of a loop is the cost that CEL counts, give or take one for each iteration.
func TestLoopsCostTheSame(t *testing.T) {
	const n = 200
	env, err := environments[ScopeProfile]()
	must(t, err)
	for name, source := range loopsOverAll {
		ast, issues := env.Compile(source)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		cost := func(options ...cel.ProgramOption) (string, int64) {
			program, err := env.Program(ast, append(options, cel.CostLimit(CostLimit))...)
			must(t, err)
			value, details, err := program.Eval(activation{&Variables{Object: wide(n)}})
			return fmt.Sprint(value, err), int64(*details.ActualCost())
		}
		want, cel := cost()
		got, ours := cost(linear(ast))
		// The nested loop has three iterations, two of its own, for each of the outer one.
		if got != want || ours < cel-3*n || ours > cel+3*n {
			t.Errorf("%s: %s at a cost of %d, want %s at %d", name, got, ours, want, cel)
		}
	}
}

// The expressions of one review share a limit.
func TestLimitedEvaluations(t *testing.T) {
	program := mustCompile(t, loopsOverAll["all over items"], ScopeProfile, ResultBool)
	ctx, evaluated, object := Limited(context.Background(), 3*CostLimit, "they cost more than one review may"), 0, wide(50_000)
	for range 100 {
		_, err := program.Bool(ctx, &Variables{Object: object})
		if err == nil {
			evaluated++
			continue
		}
		if undecided := policyUndecided(err); undecided == nil || undecided.Retry || !strings.Contains(err.Error(), "cost more than one review may") {
			t.Fatalf("error %v, want one about the cost of a review, without a retry", err)
		}
	}
	if evaluated < 3 || evaluated > 20 {
		t.Errorf("%d evaluations of 350,000 or so within 3,000,000", evaluated)
	}
	// One that exceeds its own limit counts fully.
	costly := mustCompile(t, cubic, ScopeProfile, ResultBool)
	ctx = Limited(context.Background(), 2*CostLimit, "they cost more than one review may")
	for i := range 3 {
		_, err := costly.Bool(ctx, &Variables{Object: numbers(120)})
		if undecided := policyUndecided(err); undecided == nil || (i == 2) != strings.Contains(err.Error(), "one review") {
			t.Errorf("evaluation %d: %v", i, err)
		}
	}
	if _, err := program.Bool(context.Background(), &Variables{Object: wide(1)}); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// All expressions of a state have the limit of one: it is read for each change of an object.
func TestStatesAreLimited(t *testing.T) {
	expression := v1alpha1.Expression(loopsOverAll["all over items"])
	spec := &v1alpha1.KindProfile{Spec: v1alpha1.KindProfileSpec{
		Kind: v1alpha1.ProfiledKind{Group: "a.example.com", Version: "v1", Kind: "A", Resource: "as"},
		State: &v1alpha1.StateExpressions{Suspended: &expression, Finished: expression,
			Outcome: "object.spec.items.all(c, c.image == 'a') ? 'Failed' : 'Succeeded'", FinishTime: "object.spec.items.all(c, c.image == 'a') ? '2026-01-01T00:00:00Z' : ''"},
	}}
	profile, errs := NewCompiler(16).Profile(spec)
	must(t, errs.ToAggregate())
	_, err := profile.State(context.Background(), map[string]any{"spec": wide(10)["spec"]})
	must(t, err)
	spec.Spec.State.Suspended = nil
	if profile, errs = NewCompiler(16).Profile(spec); len(errs) > 0 {
		t.Fatal(errs)
	}
	if _, err := profile.State(context.Background(), wide(120_000)); policyUndecided(err) == nil {
		t.Errorf("a state of 120,000 items, three times: got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := profile.State(ctx, wide(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("the context of the caller: got %v", err)
	}
}
