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

// An account that may list nothing is reported as that, and the user sees what the policy matches.
func TestPreviewOfAnAccountWithoutRights(t *testing.T) {
	for lack, want := range map[string]string{
		"list deployments":   "may not list deployments.apps: the policy deletes nothing until it may. This shows what you may list",
		"delete deployments": "may not delete deployments.apps: the policy deletes nothing until it may. This shows what you may list",
		"list jobs":          "clustercleanuppolicy/nightly: would delete 3 of 4 objects",
	} {
		cluster := newFakeCluster(t, objects(t))
		cluster.account = newFakeCluster(t, objects(t))
		cluster.account.notMine[lack] = true
		stdout, _, _ := expectRun(t, cluster, scene{}, "preview nightly", 0, want)
		expectPart(t, lack, stdout, "nightly, if its service account had the rights: would delete 3 of 4 objects", lack != "list jobs")
	}
}
