package main

import (
	"maps"
	"slices"
	"testing"
)

func init() {
	const offline = "preview -f testdata/cleanup/nightly.yaml --manifests testdata/cleanup/cluster --at 2026-12-24T01:00:00Z "
	maps.Copy(clusterGoldens, map[string]golden{
		"preview":            {args: words("preview nightly")},
		"preview-account":    {args: words("preview config -n foo -o wide")},
		"preview-own-rights": {args: words("preview config -n foo"), scene: scene{notMine: []string{"impersonate serviceaccounts"}}},
		"preview-may-not":    {args: words("preview config -n foo"), scene: scene{notMine: []string{"list configmaps", "list cleanupapprovals", "get configmaps"}}},
		"preview-suspended":  {args: words("preview cleanuppolicy/fresh -o json")},
		"preview-file":       {args: words("preview -f testdata/cleanup/nightly.yaml --at 2026-12-24T01:00:00Z")},
		"preview-selector":   {args: words("preview -f testdata/cleanup/selector.yaml")},
		"preview-namespaces": {args: words("preview -f testdata/cleanup/selector.yaml"), scene: scene{notMine: []string{"list namespaces"}}, code: 2},
		"preview-broken":     {args: words("preview broken"), code: 2},
		"preview-missing":    {args: words("preview weekly"), code: 2},
		"preview-nothing":    {args: words("preview"), code: 2},
		"preview-two":        {args: words("preview -f testdata/cleanup/nightly.yaml -f testdata/cleanup/limited.yaml"), code: 2},
		"preview-no-policy":  {args: words("preview -f testdata/cleanup/cluster"), code: 2},
		"preview-bad-time":   {args: words("preview nightly --at soon"), code: 2},
		"preview-unusable":   {args: words("preview -f testdata/cleanup/unusable.yaml"), code: 2},

		"preview-offline":      {args: words(offline)},
		"preview-offline-wide": {args: words(offline + "-o wide")},
		"preview-offline-json": {args: words(offline + "-o json")},
		"preview-offline-name": {args: words(offline + "-o name")},
		"preview-stalled":      {args: words("preview -f testdata/cleanup/limited.yaml --manifests testdata/cleanup/cluster -o wide"), code: 1},
		"preview-truncated":    {args: words("preview -f testdata/cleanup/truncated.yaml --manifests testdata/cleanup/cluster -o wide")},
		"preview-consecutive":  {args: words("preview -f testdata/cleanup/consecutive.yaml --manifests testdata/cleanup/cluster -o wide")},
		"preview-mounted":      {args: words("preview -f testdata/cleanup-volumes/unmounted.yaml --manifests testdata/cleanup-volumes/cluster -o wide")},

		"test":         {args: words("test testdata/cleanup")},
		"test-failing": {args: words("test testdata/cleanup testdata/cleanup-failing"), code: 1},
		"test-json":    {args: words("test testdata/cleanup-failing -o json"), code: 1},
		"test-stdin":   {args: words("test -"), scene: scene{stdin: "apiVersion: cli.curfew.dev/v1alpha1\nkind: CleanupTest\nname: from stdin\npolicies: [testdata/cleanup/limited.yaml]\nmanifests: [testdata/cleanup/cluster]\nnow: 2026-12-24T01:00:00Z\nexpect: {stalled: TooManyMatches}\n"}},
		"test-none":    {args: words("test testdata/manifests"), code: 2},
		"test-nothing": {args: words("test"), code: 2},
		"test-unknown": {args: words("test testdata/cleanup-misspelt"), code: 2},
	})
}

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
