package main

import (
	"slices"
	"testing"
)

// A preview lists as the account of the policy where the user may impersonate it, and otherwise as
// the user. It writes nothing (S10).
func TestPreviewActsAsTheAccount(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		notMine []string
		want    []string
	}{
		"may impersonate":     {line: "preview config -n foo", want: []string{"system:serviceaccount:foo:janitor"}},
		"may not impersonate": {line: "preview config -n foo", notMine: []string{"impersonate serviceaccounts"}},
		"no account":          {line: "preview nightly", want: []string{"system:serviceaccount:curfew-system:curfew-cleanup"}},
		"of a file":           {line: "preview -f testdata/cleanup/limited.yaml", want: []string{"system:serviceaccount:ci:janitor"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, objects(t))
			_, stdout, stderr, patched := executeIn(t, cluster, scene{notMine: c.notMine}, words(c.line)...)
			if !slices.Equal(cluster.actedAs, c.want) || stdout == "" {
				t.Errorf("acted as %q, want %q: %s", cluster.actedAs, c.want, stderr)
			}
			for _, fake := range cluster.actions() {
				if verb := fake.GetVerb(); !slices.Contains([]string{"get", "list"}, verb) && fake.GetResource().Resource != "selfsubjectaccessreviews" {
					t.Errorf("preview sent %s %s, want only reads", verb, fake.GetResource().Resource)
				}
			}
			expectCount(t, "patches", patched, 0)
		})
	}
}
