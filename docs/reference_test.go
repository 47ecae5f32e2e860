package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

func parse(t *testing.T, set *token.FileSet, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// keys are the constants of policy/wellknown/keys.go that name annotations and labels, by value. The
// type checker evaluates them.
func keys(t *testing.T) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	file := parse(t, set, filepath.Join(root, "policy", "wellknown", "keys.go"))
	checked, err := (&types.Config{}).Check("keys", set, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range checked.Scope().Names() {
		value, ok := checked.Scope().Lookup(name).(*types.Const)
		if ok && (strings.HasPrefix(name, "Annotation") || strings.HasPrefix(name, "Label") || strings.HasPrefix(name, "Finalizer")) {
			out[constant.StringVal(value.Val())] = name
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d keys found", len(out))
	}
	return out
}

func TestEveryKeyIsInTheReference(t *testing.T) {
	text := reference(t)
	for key, name := range keys(t) {
		// What belongs to others is told where it matters.
		if strings.HasPrefix(key, wellknown.Prefix) && !strings.Contains(text, "`"+key+"`") && !strings.Contains(text, "`"+key+": ") {
			t.Errorf("the reference does not tell of %s (%s)", key, name)
		}
	}
}

// keyInText is not part of a longer name, such as podtally.curfew.dev/NAME in the output of kubectl.
var keyInText = regexp.MustCompile(`(?:^|[^.\w-])(curfew\.dev/[a-z][a-z-]*[a-z])`)

// misspelt is the example of a key that the code does not know.
const misspelt = "curfew.dev/defualt-ttl"

// TestNoKeyIsMadeUp: a key in a page is one that the code knows.
func TestNoKeyIsMadeUp(t *testing.T) {
	known := keys(t)
	for name, text := range pages(t) {
		for _, found := range keyInText.FindAllStringSubmatch(text, -1) {
			match := found[1]
			if _, ok := known[match]; !ok && match != "curfew.dev/curfew" && match != misspelt && !strings.HasPrefix(name, "test/") {
				t.Errorf("%s names %s, which the code does not know", name, match)
			}
		}
	}
}

// flags are the names that cmd/curfew gives to its flag set.
func flags(t *testing.T) []string {
	t.Helper()
	var out []string
	set := token.NewFileSet()
	for _, path := range sources(t, "cmd/curfew") {
		ast.Inspect(parse(t, set, path), func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !(strings.HasSuffix(method.Sel.Name, "Var") || strings.HasSuffix(method.Sel.Name, "VarP")) {
				return true
			}
			if literal, ok := call.Args[1].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				name, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, name)
			}
			return true
		})
	}
	if len(out) < 15 {
		t.Fatalf("only %d flags found: %v", len(out), out)
	}
	return out
}

var flagRow = regexp.MustCompile("(?m)^\\| (?:`-\\w`, )?`--([a-z-]+)` \\|")

func TestFlags(t *testing.T) {
	sameRows(t, flagRow, reference(t), flags(t))
}

var (
	metricName = regexp.MustCompile(`^curfew_[a-z0-9_]+$`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(curfew_[a-z0-9_]+)` \\|")
)

// metrics are the names in the code: string literals that look like one.
func metrics(t *testing.T) []string {
	t.Helper()
	var out []string
	set := token.NewFileSet()
	for _, path := range sources(t, "cmd", "policy", "webhook", "controller", "certs") {
		ast.Inspect(parse(t, set, path), func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if name, err := strconv.Unquote(literal.Value); err == nil && metricName.MatchString(name) {
				out = append(out, name)
			}
			return true
		})
	}
	if len(out) < 10 {
		t.Fatalf("only %d metrics found: %v", len(out), out)
	}
	return out
}

func TestMetrics(t *testing.T) {
	sameRows(t, metricRow, reference(t), metrics(t))
}

// sameRows compares what the code has with the rows of a text.
func sameRows(t *testing.T, row *regexp.Regexp, text string, known []string) {
	t.Helper()
	var rows []string
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		rows = append(rows, match[1])
	}
	for _, name := range known {
		if !slices.Contains(rows, name) {
			t.Errorf("the reference has no row for %s", name)
		}
	}
	for _, name := range rows {
		if !slices.Contains(known, name) {
			t.Errorf("the reference has a row for %s, which the code does not have", name)
		}
	}
}

func ruleNames() []string {
	names := append(rules.PlatformRules(), rules.TallyRules()...)
	for _, rule := range rules.All() {
		names = append(names, rule.Name)
	}
	return names
}

// TestRules: messages.md has a section for each rule and each other refusal, under its name: what it
// applies to, cause and fix.
func TestRules(t *testing.T) {
	known := slices.AppendSeq(ruleNames(), maps.Keys(refusals(t)))
	slices.Sort(known)
	var headings []string
	for _, section := range strings.Split(pages(t)["docs/messages.md"], "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		headings = append(headings, name)
		for _, part := range []string{"**Applies to:** ", "**Cause:** ", "**Fix:** "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("messages.md does not say once %q of rule %s", part, name)
			}
		}
	}
	if !slices.Equal(headings, slices.Compact(known)) {
		t.Errorf("messages.md has sections %q, and the rules are %q", headings, known)
	}
}

// The ResourceQuota that bounds CleanupPolicies counts resources by their real names.
func TestQuotaOfCleanupPolicies(t *testing.T) {
	text := pages(t)["docs/how-to-cleanup.md"]
	for _, resource := range []string{v1alpha1.CleanupPolicies, v1alpha1.CleanupApprovals} {
		if counted := "count/" + v1alpha1.GroupVersion.WithResource(resource).GroupResource().String() + ": "; !strings.Contains(text, counted) {
			t.Errorf("no quota has %q", counted)
		}
	}
}
