package house

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// versions are those that a module is built from, whether it requires or replaces them. A folder
// that stands for a module has none.
func versions(t *testing.T, folder ...string) map[string]string {
	t.Helper()
	file := filepath.Join(append([]string{"..", ".."}, append(folder, "go.mod")...)...)
	out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	type version struct{ Path, Version string }
	var module struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatalf("parse %s: %v", file, err)
	}
	built := map[string]string{}
	for _, each := range module.Require {
		built[each.Path] = each.Version
	}
	for _, each := range module.Replace {
		if _, required := built[each.Old.Path]; required && (each.Old.Version == "" || each.Old.Version == built[each.Old.Path]) {
			built[each.Old.Path] = each.New.Version
		}
	}
	return built
}

// The module that makes releases is tested with every change, and needs client-go for Helm's
// engine. The control plane is the largest part of a first make demo. Both share the packages of
// Kubernetes' libraries with Curfew, which are compiled once if their versions are the same.
func TestModulesShareVersions(t *testing.T) {
	curfew := versions(t)
	delete(curfew, "github.com/go-errors/errors")    // kustomize's, which a large part of Curfew is not made of.
	delete(curfew, "go.opentelemetry.io/proto/otlp") // Helm needs a newer one than Kubernetes does.
	for folder, atLeast := range map[string]int{"manifests/release": 40, "test/cluster": 70} {
		same := 0
		for path, version := range versions(t, folder) {
			ours, both := curfew[path]
			if both && ours != version {
				t.Errorf("%s builds with %s %s and Curfew with %s: use the same in both", folder, path, version, ours)
			} else if both {
				same++
			}
		}
		if same < atLeast {
			t.Errorf("%s and Curfew share %d modules, want %d or more: has one of them been read wrongly?", folder, same, atLeast)
		}
	}
}
