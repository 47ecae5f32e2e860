package house

import (
	"go/ast"
	"path"
	"testing"
)

// limits bound the hand-written code that is shipped, and the files of tests and their tools.
var limits = map[string]struct {
	most    int
	fix     string
	measure func([]source) map[string]int
}{
	"lines of a file":      {400, "split it", func(all []source) map[string]int { return fileLines(all, true) }},
	"lines of a test file": {450, "split it", func(all []source) map[string]int { return fileLines(all, false) }},
	"lines of a function":  {60, "split it", functionLines},
	"files of a package":   {15, "merge files of one topic, or split the package", packageFiles},
	"exported names":       {60, "unexport some, or split the package", exportedNames},
}

func TestLimits(t *testing.T) {
	all := sources(t)
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			found := limit.measure(all)
			if len(found) == 0 {
				t.Fatal("measures nothing")
			}
			for text, size := range found {
				if size > limit.most {
					t.Errorf("%s: %d, at most %d: %s", text, size, limit.most, limit.fix)
				}
			}
		})
	}
}

func fileLines(all []source, product bool) map[string]int {
	found := map[string]int{}
	for _, s := range all {
		if s.product() == product && !ast.IsGenerated(s.file) {
			found[s.path] = len(s.lines)
		}
	}
	return found
}

func functionLines(all []source) map[string]int {
	found := map[string]int{}
	for _, s := range all {
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && s.product() {
				first, last := s.set.Position(function.Pos()), s.set.Position(function.End())
				found[first.String()+": "+function.Name.Name] = last.Line - first.Line + 1
			}
		}
	}
	return found
}

// packageFiles leaves out policy/rules, where each rule has a file.
func packageFiles(all []source) map[string]int {
	found := map[string]int{}
	for _, s := range all {
		if dir := path.Dir(s.path); s.product() && dir != "policy/rules" {
			found[dir]++
		}
	}
	return found
}

// exportedNames counts types, functions, constants and variables; not methods. policy/v1alpha1 is
// the API and left out.
func exportedNames(all []source) map[string]int {
	found := map[string]int{}
	for _, s := range all {
		dir := path.Dir(s.path)
		if !s.product() || dir == "policy/v1alpha1" {
			continue
		}
		count := func(name *ast.Ident) {
			if name.IsExported() {
				found[dir]++
			}
		}
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				count(function.Name)
			}
			general, _ := declaration.(*ast.GenDecl)
			for i := 0; general != nil && i < len(general.Specs); i++ {
				switch spec := general.Specs[i].(type) {
				case *ast.TypeSpec:
					count(spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						count(name)
					}
				}
			}
		}
	}
	return found
}
