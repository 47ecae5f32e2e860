package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// constant is a time that is made of numbers and of units.
var constant = regexp.MustCompile(`^([\d\s()*+-]|time\.(Duration|(Nano|Micro|Milli)?[sS]econd|Minute|Hour))+$`)

// fixedWaits are the sleeps of a file, and its timers for a constant time, unless a test fails when
// they end.
func fixedWaits(file *ast.File) (waits []ast.Node) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CommClause:
			return !slices.ContainsFunc(n.Body, fails)
		case *ast.CallExpr:
			switch types.ExprString(n.Fun) {
			case "time.Sleep":
				waits = append(waits, n)
			case "time.After", "time.NewTimer", "time.Tick":
				if constant.MatchString(types.ExprString(n.Args[0])) {
					waits = append(waits, n)
				}
			}
		}
		return true
	})
	return waits
}

// fails reports whether a statement lets a test fail.
func fails(statement ast.Stmt) (found bool) {
	ast.Inspect(statement, func(node ast.Node) bool {
		if called, ok := node.(*ast.SelectorExpr); ok {
			found = found || strings.HasPrefix(called.Sel.Name, "Fatal") || strings.HasPrefix(called.Sel.Name, "Error")
		}
		return true
	})
	return found
}

func TestFixedWaitsAreFound(t *testing.T) {
	for body, want := range map[string]int{
		"time.Sleep(d)":                    1,
		"<-time.After(2 * time.Minute)":    1,
		"<-time.Tick(time.Duration(5))":    1,
		"time.NewTimer((30))":              1,
		"<-time.After(time.Until(begins))": 0,
		"<-time.After(d)":                  0,
		"select {\ncase <-time.After(time.Minute):\n\tidle = true\n}":           1,
		"select {\ncase <-time.After(time.Minute):\n\tt.Fatal(\"no event\")\n}": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package a\nfunc f() {\n"+body+"\n}", parser.SkipObjectResolution)
		must(t, err)
		if found := fixedWaits(file); len(found) != want {
			t.Errorf("%s: found %d fixed waits, want %d", body, len(found), want)
		}
	}
}
