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
// engine.
func TestReleaseIsMadeOfWhatCurfewIsMadeOf(t *testing.T) {
	release, curfew := versions(t, "manifests", "release"), versions(t)
	same := 0
	for path, version := range release {
		ours, both := curfew[path]
		switch {
		case both && ours != version:
			t.Errorf("manifests/release builds with %s %s and Curfew with %s: replace it in manifests/release", path, version, ours)
		case both:
			same++
		}
	}
	if same < 40 {
		t.Errorf("manifests/release and Curfew share %d modules, want 40 or more: has one of them been read wrongly?", same)
	}
}

// The control plane is the largest part of a first make demo. It and Curfew share the packages of
// Kubernetes' libraries, which are compiled once if their versions are the same.
func TestControlPlaneIsMadeOfWhatCurfewIsMadeOf(t *testing.T) {
	cluster, curfew := versions(t, "test", "cluster"), versions(t)
	delete(curfew, "github.com/go-errors/errors") // kustomize's, which a large part of Curfew is not made of.
	same := 0
	for path, version := range cluster {
		ours, both := curfew[path]
		switch {
		case both && ours != version:
			t.Errorf("test/cluster builds with %s %s and Curfew with %s: require the same in both", path, version, ours)
		case both:
			same++
		}
	}
	if same < 70 {
		t.Errorf("test/cluster and Curfew share %d modules, want 70 or more: has one of them been read wrongly?", same)
	}
}
