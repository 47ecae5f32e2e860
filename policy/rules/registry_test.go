package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// A rule is one file, named after it, and its line in the registry.
func TestOneRuleAFile(t *testing.T) {
	registered := map[string]bool{}
	for _, rule := range All() {
		registered[strings.ReplaceAll(rule.Name, "-", "_")+".go"] = true
		if len(rule.Fields)+len(rule.InUse) == 0 || rule.Check == nil && rule.Transition == nil && rule.Review == nil {
			t.Errorf("rule %s has no fields, or does nothing", rule.Name)
		}
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range files {
		if strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		rules := rulesIn(file)
		switch {
		case registered[entry.Name()] && rules != 1:
			t.Errorf("%s holds %d rules, want one", entry.Name(), rules)
		case !registered[entry.Name()] && rules > 0:
			t.Errorf("%s holds a rule that is not in the registry, or has another name", entry.Name())
		}
		delete(registered, entry.Name())
	}
	for name := range registered {
		t.Errorf("there is no file %s", name)
	}
}

// rulesIn counts the variables of type Rule.
func rulesIn(file *ast.File) int {
	count := 0
	for _, declaration := range file.Decls {
		variables, ok := declaration.(*ast.GenDecl)
		if !ok || variables.Tok != token.VAR {
			continue
		}
		for _, spec := range variables.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				if literal, ok := value.(*ast.CompositeLit); ok {
					if name, ok := literal.Type.(*ast.Ident); ok && name.Name == "Rule" {
						count++
					}
				}
			}
		}
	}
	return count
}
