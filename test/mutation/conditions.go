package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The conditions of these files are switched off one at a time. The tests of these packages notice
// it, the cheapest first.
var (
	conditionFiles    = []string{"policy/judging/judge.go", "policy/judging/deadline.go"}
	conditionPackages = []string{"./policy/judging", "./policy", "./policy/rules", "./policy/platform", "./policy/lint", "./policy/expression"}
)

// equivalent is a condition without which the same is decided: the next one keeps the object too.
const equivalent = "value.Unreached()"

// switchSource is added to the package. The variable names the condition that is off.
const switchSource = "package judging\n\nimport \"os\"\n\nfunc conditionOn(name string) bool { return name != os.Getenv(\"CONDITION_OFF\") }\n"

// conditions reports the conditions that no test needs. All tests are compiled once, with a switch at
// each condition.
func conditions(ctx context.Context, root, dir string) error {
	var names []string
	edits := map[string][]byte{"policy/judging/condition_on.go": []byte(switchSource)}
	for _, file := range conditionFiles {
		source, found, err := withSwitches(filepath.Join(root, file))
		if err != nil {
			return err
		}
		edits[file], names = source, append(names, found...)
	}
	overlay, err := writeOverlay(root, dir, edits)
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", dir + "/"}
	build := exec.CommandContext(ctx, "go", append(args, conditionPackages...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the tests with switches: %w\n%s", err, out)
	}
	if by := noticedBy(ctx, root, dir, ""); by != "" {
		return fmt.Errorf("%s fails with all conditions on", by)
	}
	var missed []error
	for _, name := range names {
		by := noticedBy(ctx, root, dir, name)
		if by == "" && strings.HasSuffix(name, " "+equivalent) {
			by = "nothing: without it, the same is decided"
		}
		if by == "" {
			missed = append(missed, fmt.Errorf("no test notices that this condition is off: %s", name))
		}
		fmt.Printf("| condition | %s | %s |\n", name, cmp.Or(by, "**nothing**"))
	}
	return errors.Join(append(missed, ctx.Err())...)
}

// noticedBy returns the first package and test that fail while the named condition is off.
func noticedBy(ctx context.Context, root, dir, name string) string {
	for _, pkg := range conditionPackages {
		args := []string{"-test.failfast", "-test.timeout=3m"}
		if usesRapid(root, pkg) {
			args = append(args, "-rapid.nofailfile")
		}
		command := exec.CommandContext(ctx, filepath.Join(dir, filepath.Base(pkg)+".test"), args...)
		command.Dir, command.Env = filepath.Join(root, pkg), append(os.Environ(), "CONDITION_OFF="+name)
		if out, err := command.CombinedOutput(); err != nil {
			return strings.TrimSpace(pkg + " " + strings.Join(failedTests(string(out)), ", "))
		}
	}
	return ""
}

// withSwitches returns the source of a file with a switch at each condition, and their names.
func withSwitches(path string) (source []byte, names []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	add := func(condition ast.Expr) ast.Expr {
		name := fmt.Sprintf("%s:%d %s", filepath.Base(path), set.Position(condition.Pos()).Line, types.ExprString(condition))
		names = append(names, name)
		on := &ast.CallExpr{Fun: ast.NewIdent("conditionOn"), Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: fmt.Sprintf("%q", name)}}}
		return &ast.BinaryExpr{X: &ast.ParenExpr{X: condition}, Op: token.LAND, Y: on}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.IfStmt:
			n.Cond = add(n.Cond)
		case *ast.SwitchStmt:
			for _, clause := range n.Body.List {
				for i, value := range clause.(*ast.CaseClause).List {
					if n.Tag == nil {
						clause.(*ast.CaseClause).List[i] = add(value)
					}
				}
			}
		}
		return true
	})
	var out strings.Builder
	err = format.Node(&out, set, file)
	return []byte(out.String()), names, err
}
