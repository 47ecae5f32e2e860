package expression

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/test/builders"
)

func mustCompile(t testing.TB, source string, scope Scope, result Result) *Program {
	t.Helper()
	program, err := compile(source, scope, result, CostLimit)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return program
}

func TestCompileErrorsPointAtTheColumn(t *testing.T) {
	for source, want := range map[string]string{
		`objekt.spec.ttl`:                   "line 1, column 1: undeclared reference to 'objekt'",
		`object.spec.x > 1 && foo(1)`:       "line 1, column 25: undeclared reference to 'foo'",
		"object.spec.x > 1\n  && nowhere.a": "line 2, column 6: undeclared reference to 'nowhere'",
		`object.spec.x >`:                   "line 1, column 16: Syntax error: mismatched input '<EOF>'",
		`1 + "a" == 2`:                      "line 1, column 3: found no matching overload for '_+_' applied to '(int, string)'",
		`"yes"`:                             "line 1, column 1: the result is of type string, and must be true or false",
		`now > timestamp(0)`:                "line 1, column 1: undeclared reference to 'now'",
		`"a".matches("(")`:                  "line 1, column 13: invalid matches argument",
	} {
		_, err := compile(source, ScopePolicy, ResultBool, CostLimit)
		var located *CompileError
		if !errors.As(err, &located) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", source, err, want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", source, err)
		}
	}
}

func TestResultTypesAreCheckedWhenCompiled(t *testing.T) {
	type accepted map[Result]bool
	for source, want := range map[string]accepted{
		`true`:             {ResultBool: true},
		`"x"`:              {ResultTime: true, ResultOutcome: true, ResultTTL: true, ResultDuration: true, ResultLabel: true},
		`1`:                {ResultTTL: true, ResultDuration: true},
		`duration("1h")`:   {ResultTTL: true, ResultDuration: true, ResultLabel: true},
		`timestamp(0)`:     {ResultTime: true, ResultLabel: true},
		`[1]`:              {},
		`quantity("1Gi")`:  {},
		`optional.of(1)`:   {ResultTTL: true, ResultDuration: true},
		`optional.of([1])`: {},
		`object.a`:         {ResultBool: true, ResultTime: true, ResultOutcome: true, ResultTTL: true, ResultDuration: true, ResultLabel: true},
	} {
		for result := ResultBool; result <= ResultLabel; result++ {
			_, err := compile(source, ScopePolicy, result, CostLimit)
			if got := err == nil; got != want[result] {
				t.Errorf("%s as %s: accepted %v (%v)", source, result, got, err)
			}
		}
	}
}

func TestTTLResults(t *testing.T) {
	variables := &Variables{Object: map[string]any{"float": 3600.0, "half": 0.5, "number": json.Number("90"), "text": "1d", "bad": "soon", "list": []any{}, "none": nil, "huge": int64(1) << 40}}
	for source, want := range map[string]string{
		`duration("90m")`:                  "1h30m",
		`7 * 24 * 3600`:                    "7d",
		`object.float`:                     "1h",
		`object.number > 60 ? "1h" : "2h"`: "1h",
		`object.none`:                      "nothing",
		`null`:                             "nothing",
		`object.?missing`:                  "nothing",
		`object.text == "1d" ? optional.of("2d") : optional.none()`: "2d",
		`0`:                             "0s",
		`object.bad`:                    `the result "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`,
		`object.list`:                   `the result is list "[]", and must be a duration, a string such as "1d" or "never", whole seconds or null`,
		`duration("-1h")`:               "the result is -1h0m0s, and must be a whole number of seconds, 0 or more",
		`duration("1500ms")`:            "the result is 1.5s, and must be a whole number of seconds, 0 or more",
		`-5`:                            `the result "-5" is negative: a duration is 0 or more, or never`,
		`object.huge`:                   `the result "1099511627776" is too long: at most 2147483647s (68 years), or never`,
		`namespaceObject.metadata.name`: "evaluating: no such key: metadata",
		`runtime == null ? "1h" : "2h"`: "1h",
	} {
		ttl, _, err := mustCompile(t, source, ScopePolicy, ResultTTL).TTL(context.Background(), variables)
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
		case ttl != nil:
			got = ttl.String()
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", source, got, want)
		}
	}
}

func TestOtherResults(t *testing.T) {
	ctx, variables := context.Background(), &Variables{Object: map[string]any{"at": "2026-03-01T08:00:00+02:00", "bad": "noon", "seven": int64(7)}, Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	instant, err := mustCompile(t, `object.at`, ScopeProfile, ResultTime).Time(ctx, variables)
	if want := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC); err != nil || !instant.Equal(want) {
		t.Errorf("time %v, %v", instant, err)
	}
	if _, err := mustCompile(t, `object.bad`, ScopeProfile, ResultTime).Time(ctx, variables); err == nil {
		t.Error("noon is a time")
	}
	if _, err := mustCompile(t, `object.seven`, ScopeProfile, ResultBool).Bool(ctx, variables); err == nil {
		t.Error("7 is true or false")
	}
	if _, _, err := mustCompile(t, `object.at`, ScopeProfile, ResultOutcome).Outcome(ctx, variables); err == nil {
		t.Error("a time is an outcome")
	}
	if past, err := mustCompile(t, `now > timestamp(object.at)`, ScopeCleanup, ResultBool).Bool(ctx, variables); err != nil || !past {
		t.Errorf("now: %v, %v", past, err)
	}
	for source, want := range map[string]string{
		`duration("36h")`:                        "1d12h",
		`timestamp("2026-12-24T00:30:00.5Z")`:    "2026-12-24T003001Z", // never sooner than computed (S6)
		`timestamp("2026-12-24T01:30:00+01:00")`: "2026-12-24T003000Z",
		`null`:                                   "",
		`"soon"`:                                 "error",
		`duration("30s")`:                        "30s",
		`duration("1.5s")`:                       "error",
		`duration("0s")`:                         "error",
		`dyn(7)`:                                 "error",
	} {
		got, err := mustCompile(t, source, ScopePolicy, ResultLabel).Label(ctx, variables)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q (%v), want %q", source, got, err, want)
		}
	}
}

// TestLibraries holds the environment to what a ValidatingAdmissionPolicy can say.
func TestLibraries(t *testing.T) {
	for _, source := range []string{
		`[3, 1, 2].max() == 3 && [1, 2].sum() == 3 && [1, 2].isSorted()`,
		`"a12b".find("[0-9]+") == "12"`,
		`quantity("1Gi").isGreaterThan(quantity("1Mi"))`,
		`ip("10.0.0.1").family() == 4 && cidr("10.0.0.0/8").containsIP("10.0.0.1")`,
		`url("https://example.com/x").getHost() == "example.com"`,
		`semver("1.2.3").isLessThan(semver("2.0.0"))`,
		`"a-b".split("-").size() == 2`,
		`sets.contains([1, 2], [1])`,
		`!format.dns1123Label().validate("ok").hasValue()`,
		`{"a": 1}.all(k, v, v == 1)`,
	} {
		if ok, err := mustCompile(t, source, ScopePolicy, ResultBool).Bool(context.Background(), &Variables{}); err != nil || !ok {
			t.Errorf("%s is %v, error %v; want true", source, ok, err)
		}
	}
}

func numbers(n int) map[string]any {
	items := make([]any, n)
	for i := range items {
		items[i] = int64(i)
	}
	return map[string]any{"items": items}
}

const cubic = `object.items.all(a, object.items.all(b, object.items.all(c, a + b + c >= 0)))`

func TestCostLimit(t *testing.T) {
	program := mustCompile(t, cubic, ScopeProfile, ResultBool)
	if ok, err := program.Bool(context.Background(), &Variables{Object: numbers(5)}); err != nil || !ok {
		t.Errorf("a small object: %v, %v", ok, err)
	}
	// Some millions of steps: over the limit, and soon over without one, so that the test fails and
	// does not hang.
	_, err := program.Bool(context.Background(), &Variables{Object: numbers(120)})
	if err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("got %v, want the cost limit", err)
	}
}

// done is a context that is done, and says so only from the second time on that it is asked: the
// point just after an evaluation has begun.
type done struct {
	context.Context
	asked atomic.Int32
}

func (*done) Done() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

func (d *done) Err() error {
	if d.asked.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}

func TestInterrupt(t *testing.T) {
	program := mustCompile(t, `object.items.all(a, a >= 0)`, ScopeProfile, ResultBool)
	_, err := program.Bool(&done{Context: context.Background()}, &Variables{Object: numbers(1000)})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("in the middle: got %v, want an interrupt", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := program.Bool(ctx, &Variables{Object: numbers(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("before it began: got %v, want %v", err, context.Canceled)
	}
}

func TestCacheIsBoundedAndRemembersFailures(t *testing.T) {
	compiler := NewCompiler(8)
	first, err := compiler.Compile(`true`, ScopePolicy, ResultBool)
	must(t, err)
	again, _ := compiler.Compile(`true`, ScopePolicy, ResultBool)
	if first != again {
		t.Error("compiled twice")
	}
	_, failed := compiler.Compile(`nope`, ScopePolicy, ResultBool)
	_, same := compiler.Compile(`nope`, ScopePolicy, ResultBool)
	if failed == nil || failed != same {
		t.Errorf("the failure was not remembered: %v, %v", failed, same)
	}
	if other, err := compiler.Compile(`true`, ScopeProfile, ResultBool); err != nil || other == first {
		t.Errorf("another scope got the same program (%v)", err)
	}
	if _, err := compiler.Compile(`true`, ScopePolicy, ResultTTL); err == nil {
		t.Error("another result got the same program")
	}
	for i := range 100 {
		if _, err := compiler.Compile(fmt.Sprintf(`%d == 1`, i), ScopePolicy, ResultBool); err != nil {
			t.Fatal(err)
		}
		if compiler.Len() > 8 {
			t.Fatalf("%d remembered, the bound is 8", compiler.Len())
		}
	}
	if later, _ := compiler.Compile(`true`, ScopePolicy, ResultBool); later == first {
		t.Error("the one not asked for the longest was not forgotten")
	}
}

func FuzzCompile(f *testing.F) {
	for _, source := range []string{`object.?a.orValue("1d")`, cubic, `namespaceObject.metadata.labels["x"]`, `duration("1h")`, `"`, `[][0]`, `1/0`} {
		f.Add(source)
	}
	variables := &Variables{Object: numbers(3)}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 4096 {
			return
		}
		program, err := compile(source, ScopePolicy, ResultTTL, 10000)
		var located *CompileError
		if err != nil {
			if !errors.As(err, &located) || located.Line < 1 || located.Column < 1 {
				t.Fatalf("%q: %v has no place", source, err)
			}
			return
		}
		ttl, _, err := program.TTL(context.Background(), variables)
		if ttl != nil && (err != nil || ttl.After < 0 || ttl.After > lifetime.MaxDuration) {
			t.Fatalf("%q gives %v, error %v; want an error or a TTL in range", source, ttl, err)
		}
	})
}

var must = builders.Must
