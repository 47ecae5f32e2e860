package house

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// limits bound hand-written code that is shipped, and the wording of all code and docs. What
// exceeds one of them today is in ratchet.json.
var limits = []limit{
	{"lines of a file", 400, "split it", func(_ *testing.T, all []source) findings { return fileLines(all, true) }},
	{"lines of a test file", 450, "split it", func(_ *testing.T, all []source) findings { return fileLines(all, false) }},
	{"lines of a function", 60, "split it", functionLines},
	{"comments over 100 columns", 0, "wrap them", func(_ *testing.T, all []source) findings { return wideLines(all, true, 100) }},
	{"code over 140 columns", 0, "wrap it", func(_ *testing.T, all []source) findings { return wideLines(all, false, 140) }},
	{"files of a package", 15, "merge files of one topic, or split the package", packageFiles},
	{"exported names of a package", 60, "unexport some, or split the package", exportedNames},
	{"files with methods of a type", 6, "merge files of one topic, or split the type", methodFiles},
	{"arrows back up in a package", 10, "move declarations beside their users", backArrows},
	{"files of a way", 0, "make the way shorter", wayFiles},
	{"what is, those of", 0, "name the thing", wording(`what[ ]is|those[ ]of`)},
	{"of which, for which", 0, "write two sentences", wording(`(of|for)[ ]which`)},
	{"nobody, somebody", 0, "say who acts", wording(`no[b]ody|some[b]ody`)},
	{"sentences over 35 words", 0, "split them", prose(long)},
	{"British spelling in pages", 0, "write labeled, judgment, honored as Kubernetes does", prose(british.MatchString)},
	{"words that readers stumble over in pages", 0, "use the terms of the Kubernetes documentation", prose(stumble.MatchString)},
}

func fileLines(all []source, product bool) findings {
	found := findings{}
	for _, s := range all {
		if s.product() == product && !ast.IsGenerated(s.file) {
			found.add(s.path, len(s.lines), s.path)
		}
	}
	return found
}

func functionLines(_ *testing.T, all []source) findings {
	found := findings{}
	for _, s := range all {
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && s.product() {
				first, last := s.set.Position(function.Pos()), s.set.Position(function.End())
				found.add(s.path+": "+receiver(function)+function.Name.Name, last.Line-first.Line+1, first.String())
			}
		}
	}
	return found
}

// Tools need these on one line.
var directive = regexp.MustCompile(`^\s*//(go:| ?\+|nolint)`)

// wideLines counts a folder's lines of comment or of code that are too wide. A tab is one column.
func wideLines(all []source, comments bool, columns int) findings {
	found := findings{}
	for _, s := range all {
		if !s.product() {
			continue
		}
		found.add(path.Dir(s.path), 0, "")
		for i, line := range s.lines {
			if strings.HasPrefix(strings.TrimSpace(line), "//") == comments && utf8.RuneCountInString(line) > columns && !directive.MatchString(line) {
				found.add(path.Dir(s.path), 1, fmt.Sprintf("%s:%d", s.path, i+1))
			}
		}
	}
	return found
}

// packageFiles leaves out policy/rules, where each rule has a file.
func packageFiles(_ *testing.T, all []source) findings {
	found := findings{}
	for _, s := range all {
		if dir := path.Dir(s.path); s.product() && dir != "policy/rules" {
			found.add(dir, 1, dir)
		}
	}
	return found
}

// exportedNames counts types, functions, constants and variables; not methods. policy/v1alpha1 is
// the API and left out.
func exportedNames(_ *testing.T, all []source) findings {
	found := findings{}
	for _, s := range all {
		dir := path.Dir(s.path)
		if !s.product() || dir == "policy/v1alpha1" {
			continue
		}
		found.add(dir, 0, dir)
		for _, name := range declared(s.file) {
			if ast.IsExported(name) {
				found.add(dir, 1, dir)
			}
		}
	}
	return found
}

// declared lists the top-level names of a file; a method has a dot before its name.
func declared(file *ast.File) (names []string) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				names = append(names, "."+d.Name.Name)
				continue
			}
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// receiver is the type of a method with a dot behind it, or empty for a function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	of := function.Recv.List[0].Type
	for {
		switch typed := of.(type) {
		case *ast.StarExpr:
			of = typed.X
		case *ast.IndexExpr:
			of = typed.X
		case *ast.IndexListExpr:
			of = typed.X
		case *ast.Ident:
			return typed.Name + "."
		default:
			return "?."
		}
	}
}

func methodFiles(_ *testing.T, all []source) findings {
	found, seen := findings{}, map[string]bool{}
	for _, s := range all {
		for _, declaration := range s.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv == nil || !s.product() {
				continue
			}
			of := path.Dir(s.path) + "." + strings.TrimSuffix(receiver(function), ".")
			if at := of + " " + s.path; !seen[at] {
				seen[at] = true
				found.add(of, 1, s.path)
			}
		}
	}
	return found
}

// wording counts the lines of Go and Markdown in each top folder that match a pattern. These
// phrases hide who does what to which thing.
func wording(pattern string) func(*testing.T, []source) findings {
	phrase := regexp.MustCompile(`(?i)` + pattern)
	return func(t *testing.T, all []source) findings {
		found := findings{}
		count := func(at string, lines []string) {
			top, _, inside := strings.Cut(at, "/")
			if !inside {
				top = "."
			}
			found.add(top, 0, "")
			for i, line := range lines {
				if phrase.MatchString(line) {
					found.add(top, 1, fmt.Sprintf("%s:%d", at, i+1))
				}
			}
		}
		for _, s := range all {
			if !ast.IsGenerated(s.file) {
				count(s.path, s.lines)
			}
		}
		eachFile(t, ".md", func(relative, at string) {
			data, err := os.ReadFile(filepath.Clean(at))
			if err != nil {
				t.Fatal(err)
			}
			count(relative, strings.Split(string(data), "\n"))
		})
		return found
	}
}
