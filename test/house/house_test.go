package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "curfew.dev/curfew"

// source is one Go file of the product's module.
type source struct {
	path  string // from the top folder, with slashes
	lines []string
	file  *ast.File
	set   *token.FileSet
}

// product reports whether a file is hand-written code that is shipped.
func (s *source) product() bool {
	return !strings.HasSuffix(s.path, "_test.go") && !strings.HasPrefix(s.path, "test/") && !ast.IsGenerated(s.file)
}

// eachFile calls visit for each file with a suffix, in order: with its path from the top folder, and
// with its path from here.
func eachFile(t *testing.T, suffix string, visit func(relative, name string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			if name != root && (strings.HasPrefix(entry.Name(), ".") || relative == "bin" || relative == "dist" || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(relative, suffix) {
			visit(relative, name)
		}
		return nil
	})
	must(t, err)
}

// all is what sources has read.
var all []source

func sources(t *testing.T) []source {
	t.Helper()
	if len(all) > 0 {
		return all
	}
	eachFile(t, ".go", func(relative, name string) {
		data, err := os.ReadFile(name)
		must(t, err)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, relative, data, parser.ParseComments)
		must(t, err)
		all = append(all, source{relative, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), file, set})
	})
	if len(all) == 0 {
		t.Fatal("found no source")
	}
	return all
}

// layers lists what the packages of each top folder may import: cmd → webhook | controller | certs
// → policy. The three in the middle never import each other.
var layers = map[string][]string{
	"cmd":        {"cmd", "webhook", "controller", "certs", "policy", "manifests", "docs"},
	"webhook":    {"webhook", "policy"},
	"controller": {"controller", "policy"},
	"certs":      {"certs", "policy"},
	"manifests":  {"manifests", "policy"},
	"policy":     {"policy"},
	"docs":       {},
}

func TestImportsRunOneWay(t *testing.T) {
	for _, s := range sources(t) {
		layer, _, _ := strings.Cut(s.path, "/")
		allowed, ok := layers[layer]
		if !ok {
			if s.product() {
				t.Errorf("%s: no layer has top folder %s: say in layers what it may import", s.path, layer)
			}
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			must(t, err)
			inner, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			top, _, _ := strings.Cut(inner, "/")
			if strings.HasSuffix(s.path, "_test.go") && (top == "test" || top == "manifests" || layer == "manifests" || layer == "docs") {
				continue // test objects, and tests of what manifests and docs say
			}
			if top == "test" && s.lines[0] == "//go:build e2e" {
				continue // in no release
			}
			if !slices.Contains(allowed, top) {
				t.Errorf("%s imports %s: %s may import %v", s.set.Position(spec.Pos()), imported, layer, allowed)
			}
		}
	}
}

// policy is pure: no client, no clock, no logger, so that webhook, controller, CLI and HTTP API can
// all use it.
func TestPolicyIsPure(t *testing.T) {
	forbidden := []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/klog", "k8s.io/utils/clock",
		"github.com/go-logr", "log", "log/slog", "net", "net/http", "os"}
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.path, "policy/") || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			must(t, err)
			for _, prefix := range forbidden {
				if imported == prefix || strings.HasPrefix(imported, prefix+"/") {
					t.Errorf("%s imports %s: policy is pure", s.set.Position(spec.Pos()), imported)
				}
			}
		}
		eachCall(s, func(pkg, name string, position token.Position) {
			if pkg == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After"}, name) {
				t.Errorf("%s calls time.%s: in policy time is an argument", position, name)
			}
		})
	}
}

// excusedWaits are files that wait for a fixed time all the same.
var excusedWaits = map[string]string{
	"controller/expire/breaker_test.go": "its server is used in synthetic time",
	"controller/expire/slots_test.go":   "its server is used in synthetic time",
	"controller/expire/queue_test.go":   "its server is used in synthetic time",
	"controller/expire/rules_test.go":   "its server is used in synthetic time",
	"test/bench/process.go":             "a process that does not end in time is killed",
	"test/e2e/serving/feeds_test.go":    "only time shows that no more watches are opened",
	"test/harness/api.go":               "it asks again every second",
	"test/world/run.go":                 "it runs in synthetic time",
}

// A test that sleeps is slow when it passes and wrong when the machine is busy. A fixed wait sleeps.
func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		isTest := strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.path, "test/") && !strings.HasPrefix(s.path, "test/cluster/")
		if !isTest || bubbled(s) || excusedWaits[s.path] != "" {
			continue
		}
		for _, wait := range fixedWaits(s.file) {
			t.Errorf("%s waits for a fixed time: wait for a condition, or use testing/synctest", s.set.Position(wait.Pos()))
		}
	}
}

// bubbled says whether a file tests in synthetic time, where sleeping takes none.
func bubbled(s source) bool {
	return slices.ContainsFunc(s.file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing/synctest"` })
}

// Only main ends a process, and nothing panics on purpose. What recovers may pass on a panic that
// is not its own.
func TestOnlyMainExits(t *testing.T) {
	for _, s := range sources(t) {
		if s.file.Name.Name == "main" || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		recovers := false
		eachCall(s, func(pkg, name string, _ token.Position) { recovers = recovers || pkg == "" && name == "recover" })
		eachCall(s, func(pkg, name string, position token.Position) {
			if pkg == "os" && name == "Exit" || pkg == "log" && strings.HasPrefix(name, "Fatal") || pkg == "" && name == "panic" && !recovers {
				t.Errorf("%s calls %s: return an error", position, strings.TrimPrefix(pkg+"."+name, "."))
			}
		})
	}
}

// Every package has a comment that says what it does. Packages and variables have names that say
// what they are.
func TestPackagesAreDocumentedAndNamed(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		dir := path.Dir(s.path)
		if strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		documented[dir] = documented[dir] || s.file.Doc != nil && len(strings.TrimSpace(s.file.Doc.Text())) > 0
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "manager", "misc"}, s.file.Name.Name) {
			t.Errorf("%s: package %s: name it after what it does", s.path, s.file.Name.Name)
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			id, named := node.(*ast.Ident)
			if named && id.Obj != nil && id.Obj.Kind == ast.Var && !ast.IsGenerated(s.file) && slices.Contains([]string{"of", "in", "at", "one", "said", "told"}, id.Name) {
				t.Errorf("%s: variable %s: name it after what it is", s.set.Position(id.Pos()), id.Name)
			}
			_, fields := node.(*ast.StructType)
			return !fields
		})
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}

// eachCall calls tell for each call of a package's function by its name, or of a plain function
// with pkg "".
func eachCall(s source, tell func(pkg, name string, position token.Position)) {
	ast.Inspect(s.file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch called := call.Fun.(type) {
		case *ast.Ident:
			tell("", called.Name, s.set.Position(call.Pos()))
		case *ast.SelectorExpr:
			if pkg, ok := called.X.(*ast.Ident); ok {
				tell(pkg.Name, called.Sel.Name, s.set.Position(call.Pos()))
			}
		}
		return true
	})
}
