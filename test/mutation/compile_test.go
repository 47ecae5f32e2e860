package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/test/harness"
)

// listed is a package, as `go list` describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// Each mutant compiles: one that does not would break no invariant, and no test would notice it.
func TestMutantsCompile(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	packages := packagesOf(t, root)
	set := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) })}
	for _, m := range mutants {
		of, ok := packages[filepath.Dir(filepath.Join(root, m.File))]
		if !ok || filepath.Ext(m.File) != ".go" {
			continue // TestMutantsFitTheCode reads it.
		}
		edited, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if err := check(&config, set, of, filepath.Base(m.File), edited); err != nil {
			t.Errorf("%s does not compile: %v", m.Name, err)
		}
	}
}

// packagesOf are the packages with mutants by their folder, and all that they import.
func packagesOf(t *testing.T, root string) map[string]listed {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, m := range mutants {
		args = append(args, "./"+filepath.Dir(m.File))
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var one listed
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages[one.Dir], packages[one.ImportPath] = one, one
	}
}

// check checks the types of a package after one of its files was edited.
func check(config *types.Config, set *token.FileSet, of listed, file string, edited []byte) error {
	var files []*ast.File
	for _, name := range of.GoFiles {
		var source any
		if name == file {
			source = edited
		}
		parsed, err := parser.ParseFile(set, filepath.Join(of.Dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, parsed)
	}
	_, err := config.Check(of.ImportPath, set, files, nil)
	return err
}
