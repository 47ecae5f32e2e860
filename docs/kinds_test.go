package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/manifests/profiles"
)

// The README names each built-in kind that Curfew deletes, and the Kubeflow ones together.
func TestReadmeNamesBuiltinKinds(t *testing.T) {
	all, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, known, _ := strings.Cut(string(text), "\nCurfew knows ")
	known, _, _ = strings.Cut(known, "\n\n")
	for _, profile := range all {
		kind := profile.Spec.Kind
		named := kind.Kind
		switch kind.Group {
		case "", "batch":
			continue // the README is about them from the beginning
		case "kubeflow.org":
			named = "the Kubeflow training jobs"
		case "batch.volcano.sh":
			named = "Volcano Job"
		}
		if profile.Spec.State != nil && !strings.Contains(known, named) {
			t.Errorf("README.md: the sentence that begins \"Curfew knows\" does not name %s", named)
		}
	}
}
