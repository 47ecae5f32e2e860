package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/v1alpha1"
)

// unusedSince is the policy and the report page of [unused], with minUnused in the place of
// consecutiveRuns: demo is unused since a day, plain since the last run.
func unusedSince(t *testing.T, least string) []runtime.Object {
	t.Helper()
	policy, page := unusedBy(t, "minUnused: "+least)
	return append(objects(t), policy, page)
}

// A preview, explain and expiring show since when an object is unused, and which run deletes it.
func TestMinUnusedIsShown(t *testing.T) {
	const (
		title = "SKIPPED     COUNT   FOR EXAMPLE\nMinUnused   "
		since = ": unused since 2026-12-23T02:00:00Z, deleted at about 2026-12-26T02:00:00Z: see minUnused\n"
	)
	for name, c := range map[string]struct {
		least, line, want string
	}{
		"preview":  {"3d", "preview unused", "would delete 0 of 3 objects\n\n" + title + "3       ConfigMap default/demo" + since},
		"object":   {"2d", "preview unused -o wide", "ConfigMap   default     plain    Skipped   unused since 2026-12-24T02:00:00Z, deleted at about 2026-12-26T02:00:00Z: see minUnused\n"},
		"at":       {"2d", "preview unused --at 2026-12-25T02:00:00Z", "would delete 1 of 3 objects\n"},
		"too soon": {"2d", "preview unused --at 2026-12-25T01:59:00Z", "would delete 0 of 3 objects\n"},
		"new":      {"36h", "preview unused --at 2026-12-24T12:00:00Z -o wide", "ConfigMap   default     demo-2   Skipped   unused since 2026-12-24T12:00:00Z, deleted at about 2026-12-26T02:00:00Z: see minUnused\n"},
		"explain":  {"3d", "explain cm/demo -n default", "cleanup/unused   may delete it 2026-12-26 03:00:00 CET, in 1d14h" + since},
		"expiring": {"3d", "expiring cm -n default --within 3d --no-headers",
			"configmap/demo    2026-12-26 03:00:00 CET   1d14h   cleanup   cleanup/unused   ?\nconfigmap/plain   2026-12-27 03:00:00 CET   2d14h   cleanup   cleanup/unused   ?\n"},
		"deleted sooner": {"2d", "expiring cm -n default --within 1d --no-headers", "configmap/demo   2026-12-25 03:00:00 CET"},
	} {
		t.Run(name, func(t *testing.T) {
			expectRun(t, newFakeCluster(t, unusedSince(t, c.least)), scene{}, c.line, console.ExitOK, c.want)
		})
	}
}

// The time of the file's policy, and of one whose page is lost, begins with the previewed run.
func TestMinUnusedBegins(t *testing.T) {
	policy, page := unusedBy(t, "minUnused: 3d")
	page.SetLabels(map[string]string{v1alpha1.LabelCleanupRun: "x"})
	all := append(objects(t), policy, page)
	const want = "unused since 2026-12-24T12:00:00Z, deleted at about 2026-12-28T02:00:00Z: see minUnused\n"
	expectRun(t, newFakeCluster(t, all), scene{}, "preview unused", console.ExitOK, want)
	text := strings.Replace(unusedPolicy, "consecutiveRuns: 3", "minUnused: 3d", 1)
	_, stderr, _ := expectRun(t, newFakeCluster(t, objects(t)), scene{stdin: text}, "preview -f -", console.ExitOK, want)
	expectSame(t, "stderr", stderr, "note: the policy is read from a file: this is its first run, and minUnused keeps all that it matches\n")
}
