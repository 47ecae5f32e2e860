package main

import (
	"fmt"
	"slices"
	"testing"
)

// Each of the invariants S1 to S12 is broken by a mutant.
func TestEveryInvariantIsBroken(t *testing.T) {
	for i := range 12 {
		invariant := fmt.Sprint("S", i+1)
		if !slices.ContainsFunc(mutants, func(m Mutant) bool { return m.Invariant == invariant }) {
			t.Errorf("no mutant breaks %s", invariant)
		}
	}
}

// A condition gets a switch wherever it decides.
func TestSwitches(t *testing.T) {
	for _, file := range conditionFiles {
		if _, names, err := withSwitches("../../" + file); err != nil || len(names) < 10 {
			t.Errorf("%s: %q, %v", file, names, err)
		}
	}
}
