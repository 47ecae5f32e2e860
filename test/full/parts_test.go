package main

import (
	"path/filepath"
	"testing"
)

// All releases that test/cluster pins have parts, and names find them.
func TestChoose(t *testing.T) {
	pinned, err := filepath.Glob("../cluster/kubernetes-*.mod")
	if err != nil || len(pinned)+1 != len(releases) { // The newest is in go.mod.
		t.Errorf("%v are pinned, %v have parts, %v", pinned, releases, err)
	}
	for names, want := range map[string]int{"": 0, "race": 1, "kubernetes": len(releases) * len(suites), "kubernetes-1.37": len(suites), "sook": 0} {
		if some, err := choose([]string{names}); len(some) != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v", names, some, err)
		}
	}
}
