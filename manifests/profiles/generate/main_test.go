package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/v1alpha1"
)

// A new profile is one file: everything else follows from it by make generate.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	manifests := filepath.Join("..", "..")
	files, err := generated(manifests)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(manifests, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != want {
			t.Errorf("%s is out of date: run make generate", name)
		}
	}
}

// What a profile has Curfew do is granted.
func TestRoleOfAProfile(t *testing.T) {
	text := func(s string) *v1alpha1.Expression { e := v1alpha1.Expression(s); return &e }
	child := &v1alpha1.Child{ProfiledKind: v1alpha1.ProfiledKind{Group: "example.com", Resource: "parts"}}
	got := role([]*v1alpha1.KindProfile{{Spec: v1alpha1.KindProfileSpec{
		Kind:    v1alpha1.ProfiledKind{Group: "example.com", Resource: "things"},
		State:   &v1alpha1.StateExpressions{Finished: *text("true")},
		Runtime: &v1alpha1.Runtime{Kinds: []v1alpha1.RuntimeKind{{ProfiledKind: v1alpha1.ProfiledKind{Group: "example.com", Resource: "runtimes"}}}},
		Deadline: &v1alpha1.DeadlineRules{Enforcement: []v1alpha1.Enforcement{{Stop: []v1alpha1.StopStep{
			{Action: v1alpha1.StopSuspend}, {Action: v1alpha1.StopMarkFailed, Child: child}, {Action: v1alpha1.StopDelete, Child: child}}}}},
	}}})
	for _, want := range []string{
		"resources: [parts, things]\n    verbs: [get, list, watch, delete]\n",
		"resources: [parts/status]\n    verbs: [patch]\n",
		"resources: [things]\n    verbs: [patch]\n",
		"resources: [runtimes]\n    verbs: [get, list, watch]\n",
		"resources: [runtimes]\n    verbs: [patch]\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no rule with %q in\n%s", want, got)
		}
	}
}
