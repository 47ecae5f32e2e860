package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Policy decides and does nothing else: no client, no clock, no logger, here and in all packages
// below.
func TestPolicyIsPure(t *testing.T) {
	forbidden := []string{
		"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/klog", "k8s.io/utils/clock", "github.com/go-logr",
		"go.uber.org/zap", "github.com/prometheus", "log", "os", "net", "io/fs", "os/exec", "math/rand", "syscall",
	}
	clock := map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true}
	files := token.NewFileSet()
	for _, name := range sources(t) {
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			for _, bad := range forbidden {
				if path == bad || strings.HasPrefix(path, bad+"/") {
					t.Errorf("%s imports %s", name, path)
				}
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.SelectorExpr)
			if !ok || !clock[call.Sel.Name] {
				return true
			}
			if ident, ok := call.X.(*ast.Ident); ok && (ident.Name == "time" || ident.Name == "metav1") {
				t.Errorf("%s reads the clock: %s.%s", files.Position(call.Pos()), ident.Name, call.Sel.Name)
			}
			return true
		})
	}
}

// sources lists the Go files of package policy and of all packages below, without tests.
func sources(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 50 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	return names
}
