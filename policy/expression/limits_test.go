package expression

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/v1alpha1"
)

func nested(open, inner, closing string, depth int) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(closing, depth)
}

// hostile are expressions that took seconds to minutes, and up to 25 GB, before there were limits.
var hostile = map[string]struct{ source, err string }{
	"optMap in a chain":          {"object.?a" + strings.Repeat(".optMap(v,v)", 12) + ".hasValue()", "expression count exceeds limit of 1500"},
	"optMap within optMap":       {nested("object.?a.optMap(v,", "v", ")", 200) + ".hasValue()", "recursion"},
	"maps that double the type":  {"[1]" + strings.Repeat(".map(x,[x]).map(x,{x:x})", 15) + "==[]", "nested too deep"},
	"entries that double":        {"{1:1}" + strings.Repeat(".transformMap(k,v,{v:v})", 20) + "=={}", "nested too deep"},
	"optionals that double":      {"optional.of(1)" + strings.Repeat(".optMap(v,{v:v})", 6) + ".hasValue()", "nested too deep"},
	"optional of optional":       {nested("optional.of(", "1", ")", 200) + ".hasValue()", "recursion"},
	"lists":                      {nested("[", "1", "]", 200) + "==[]", "recursion"},
	"many errors":                {nested("nope.least(1,", "1", ")", 38) + strings.Repeat("||nope.least(1,nope)", 150), "undeclared reference"},
	"comprehensions":             {strings.Repeat("[object].all(x,x==x)&&", 180) + "true", "expression count exceeds limit of 1500"},
	"a regular expression":       {"'a'.matches('" + strings.Repeat(".{1000}", 580) + "')", "regular expression is too large"},
	"a regular expression, find": {"'a'.find('(.{100}){9}(.{100}){9}(.{100}){9}')==''", "regular expression is too large"},
	"parentheses":                {nested("(", "true", ")", 2000), "recursion"},
	"a sum":                      {"1" + strings.Repeat("+1", 2000) + "==2", "recursion"},
	"garbage":                    {strings.Repeat("[(", 2000), "recursion"},
	"too long":                   {strings.Repeat("true||", 1<<20) + "true", "the expression has 6291460 characters, and may have 4096"},
}

// S9: every expression is compiled or refused in a moment and in little memory, by whatever path it
// came.
func TestHostileExpressions(t *testing.T) {
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			compiler := NewCompiler(16)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			instant := time.Now()
			_, err := compiler.Compile(test.source, ScopePolicy, ResultBool)
			took := time.Since(instant)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), test.err) || len(err.Error()) > maxErrorMessage+50 {
				t.Errorf("got %.300v, want %q", err, test.err)
			}
			// Each takes tens of milliseconds. The limit leaves room for a busy machine.
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 20*time.Second || allocated > 100 {
				t.Errorf("took %v and %d MB", took, allocated)
			}
		})
	}
}

// The limits leave room for what people write.
func TestLimitsLeaveRoom(t *testing.T) {
	for name, source := range map[string]string{
		"a dozen conditions": strings.Repeat(`(object.metadata.?labels["team"].orValue("") == "red" && object.spec.template.spec.containers.exists(c, c.image.startsWith("x/"))) || `, 12) + "true",
		"optMap thrice":      `object.?spec.optMap(s, s.template).optMap(t, t.spec).optMap(p, p.containers.size() > 1).orValue(false)`,
		"nested loops":       `object.spec.a.all(x, x.b.all(y, y.c.exists(z, z.d.map(w, {"k": w}).size() > 1)))`,
		"a long chain":       `object.a.b.c.d.e.f.g.h.i.j.k == 1`,
		"a long choice":      strings.Repeat(`object.x == "a" ? true : `, 12) + "false",
		"a regexp":           `object.name.matches("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$")`,
	} {
		if _, err := NewCompiler(1).Compile(source, ScopePolicy, ResultBool); err != nil {
			t.Errorf("%s: error %v, want it within the limits", name, err)
		}
	}
	all, err := profiles.All()
	must(t, err)
	for _, profile := range all {
		if _, errs := NewCompiler(16).Profile(profile); len(errs) > 0 {
			t.Errorf("built-in profile %s is not within the limits: %v", profile.Name, errs)
		}
	}
}

// The expressions of one object have a limit together, so that a review of it takes no longer than
// one of a few expressions.
func TestExpressionsOfOneObject(t *testing.T) {
	object := &v1alpha1.LifecyclePolicy{}
	for i := range 64 {
		source := fmt.Sprintf("object.a%d == %q", i, strings.Repeat("x", 1000))
		object.Spec.Match.MatchConditions = append(object.Spec.Match.MatchConditions, v1alpha1.MatchCondition{Name: fmt.Sprint(i), Expression: v1alpha1.Expression(source)})
	}
	compiler := NewCompiler(128)
	_, errs := compiler.Policy(object)
	if len(errs) != 48 || compiler.Len() != 16 {
		t.Fatalf("%d errors, %d compiled", len(errs), compiler.Len())
	}
	want := "spec.match.matchConditions[16].expression: line 1, column 1: the expressions of one object may have 16384 characters together: use fewer, or several objects"
	if got := errs[0].Field + ": " + errs[0].Detail; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Another object begins anew, and so does the same one.
	if _, errs := compiler.Policy(object); len(errs) != 48 {
		t.Errorf("%d errors the second time", len(errs))
	}
}

// A failure is remembered, unless it is one of length: that costs nothing, and a long text would
// stay in memory.
func TestFailuresAreRemembered(t *testing.T) {
	compiler := NewCompiler(16)
	for range 3 {
		_, _ = compiler.Compile("object.?a"+strings.Repeat(".optMap(v,v)", 12)+".hasValue()", ScopePolicy, ResultBool)
		_, _ = compiler.Compile(strings.Repeat("a", MaxSource+1), ScopePolicy, ResultBool)
	}
	if compiler.Len() != 1 {
		t.Errorf("%d expressions are remembered, want 1", compiler.Len())
	}
}
