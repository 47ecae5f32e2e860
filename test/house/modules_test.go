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

// A package is compiled once for two modules if all that it is made of has the same versions in
// both. One module that differs, low down, and the newest Trainer and JobSet compile client-go, and
// with it minutes of everybody's first make test, a second time.
func TestPeersAreMadeOfWhatTheControlPlaneIsMadeOf(t *testing.T) {
	peers, cluster := versions(t, "test", "peers"), versions(t, "test", "cluster")
	same := 0
	for path, version := range peers {
		theirs, both := cluster[path]
		switch {
		case both && theirs != version:
			t.Errorf("test/peers builds with %s %s and test/cluster with %s: require that in test/peers, or replace it there", path, version, theirs)
		case both:
			same++
		}
	}
	if same < 50 {
		t.Errorf("test/peers and test/cluster share %d modules, want 50 or more: has one of them been read wrongly?", same)
	}
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
