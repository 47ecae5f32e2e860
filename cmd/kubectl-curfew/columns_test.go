package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// TestColumnsFile: custom-columns-file reads a line of headers and one of paths.
func TestColumnsFile(t *testing.T) {
	for text, want := range map[string]string{
		"NAME        WHY\n.object.name .source\n": "NAME   WHY\ndata   object\n",
		"NAME WHY\n.object.name\n":                "",
		"":                                        "",
	} {
		file := filepath.Join(t.TempDir(), "columns")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		code, stdout, stderr, _ := execute(t, scene{}, words("expiring pvc -n foo -o custom-columns-file="+file)...)
		if refused := strings.HasSuffix(stderr, "give one line of headers and one of as many paths\n"); stdout != want || refused != (want == "") || (code == console.ExitOK) != (want != "") {
			t.Errorf("%q: exit status %d: %s%s", text, code, stdout, stderr)
		}
	}
}
