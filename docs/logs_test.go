package docs_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// more stands, in the table and here, for what the code puts behind a message's beginning.
const more = "…"

// composed are messages that are made elsewhere than in the call that logs them, by the argument of
// that call.
var composed = map[string][]string{
	"ev.Message": {"deletions are paused: ", "deletions resumed: ", "the clock is off ", "the clock jumped by "},
}

// logger tells whether an expression is one, and whether it logs only with -v.
func logger(expr ast.Expr) (is, verbose bool) {
	switch of := expr.(type) {
	case *ast.Ident:
		return of.Name == "log", false
	case *ast.SelectorExpr:
		return slices.Contains([]string{"log", "Log", "Logger"}, of.Sel.Name), false
	case *ast.CallExpr:
		called, ok := of.Fun.(*ast.SelectorExpr)
		if !ok {
			return false, false
		}
		if called.Sel.Name == "V" {
			is, _ := logger(called.X)
			return is, true
		}
		return called.Sel.Name == "FromContext", false
	}
	return false, false
}

// message is what a call logs, or what it begins with and an ellipsis.
func message(t *testing.T, set *token.FileSet, expr ast.Expr) []string {
	t.Helper()
	switch of := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(of.Value)
		if err != nil {
			t.Fatal(err)
		}
		return []string{text}
	case *ast.BinaryExpr:
		if begin, ok := of.X.(*ast.BasicLit); ok && of.Op == token.ADD {
			return []string{message(t, set, begin)[0] + more}
		}
	case *ast.SelectorExpr:
		if from, ok := of.X.(*ast.Ident); ok && composed[from.Name+"."+of.Sel.Name] != nil {
			var out []string
			for _, begin := range composed[from.Name+"."+of.Sel.Name] {
				out = append(out, begin+more)
			}
			return out
		}
	}
	t.Errorf("%s: a message that this test cannot read: begin it with a literal", set.Position(expr.Pos()))
	return nil
}

// logged are the messages of all that is logged without -v, and all that is written in the code.
func logged(t *testing.T) (out, literals []string) {
	t.Helper()
	set := token.NewFileSet()
	for _, path := range sources(t, false, "cmd/curfew", "policy", "webhook", "controller", "certs") {
		ast.Inspect(parse(t, set, path), func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				literals = append(literals, strings.Trim(literal.Value, "`\""))
			}
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "Info" && method.Sel.Name != "Error" {
				return true
			}
			if of, ok := method.X.(*ast.Ident); ok && of.Name == "http" {
				return true // http.Error
			}
			is, verbose := logger(method.X)
			switch {
			case !is:
				t.Errorf("%s: a logger that this test does not know", set.Position(call.Pos()))
			case verbose:
			case method.Sel.Name == "Error":
				out = append(out, message(t, set, call.Args[1])...)
			default:
				out = append(out, message(t, set, call.Args[0])...)
			}
			return true
		})
	}
	if len(out) < 40 {
		t.Fatalf("only %d log lines found: %v", len(out), out)
	}
	return out, literals
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestLogLines: the tables have every line that is logged without -v, and no other.
func TestLogLines(t *testing.T) {
	_, section, _ := strings.Cut(reference(t), "\n## Log\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || cells[0] == "| `msg`" {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[0], -1) {
			rows = append(rows, match[1])
		}
	}
	known, literals := logged(t)
	for _, one := range known {
		if !slices.Contains(rows, one) {
			t.Errorf("the reference has no row for the log line %q", one)
		}
	}
	for _, row := range rows {
		if !slices.Contains(known, row) {
			t.Errorf("the reference has a row for the log line %q, which nothing logs", row)
		}
	}
	for _, begins := range composed {
		for _, begin := range begins {
			if !slices.ContainsFunc(literals, func(text string) bool { return strings.HasPrefix(text, begin) }) {
				t.Errorf("no message begins with %q any more", begin)
			}
		}
	}
}
