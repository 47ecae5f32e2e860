package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// paused is a DeletionPause in the cluster of testdata.
func paused(t *testing.T, name, made, more string) runtime.Object {
	t.Helper()
	return manifests(t, "{apiVersion: curfew.dev/v1alpha1, kind: DeletionPause, metadata: {name: "+name+", uid: "+name+", labels: {app.kubernetes.io/managed-by: \""+made+"\"}}, spec: {reason: incident"+more+"}}")[0]
}

// TestPauseShows: expiring and explain show a pause as the blocker of the objects that it names,
// and of no others.
func TestPauseShows(t *testing.T) {
	for name, test := range map[string]struct {
		more   string
		blocks bool
	}{
		"everything":        {"", true},
		"its namespace":     {", namespaces: [c*]", true},
		"another namespace": {", namespaces: [foo]", false},
		"another trigger":   {", triggers: [cleanup]", false},
		"one that ended":    {`, until: "2026-12-24T11:59:59Z"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range []string{"expiring -n ci -o wide", "explain cm/labelled -n ci"} {
				labelled := manifests(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: ci, uid: l, creationTimestamp: "2026-12-24T11:00:00Z", labels: {curfew.dev/ttl: 2h}}}`)
				cluster := newFakeCluster(t, append(objects(t), paused(t, "stop", "", test.more), labelled[0]))
				stdout, _, _ := expectRun(t, cluster, scene{}, line, console.ExitOK, "labelled")
				expectPart(t, line, stdout, "DeletionPause stop holds", test.blocks)
				expectPart(t, line, stdout, "To change it\n   kubectl curfew resume stop\n", test.blocks && strings.HasPrefix(line, "explain"))
			}
		})
	}
}

// TestResume: without a name it ends the one pause that kubectl curfew pause made.
func TestResume(t *testing.T) {
	const here = "kubectl-curfew"
	for name, test := range map[string]struct {
		made map[string]string // by name
		line string
		code int
		says string
	}{
		"the only one":     {map[string]string{"a": here, "gitops": "flux"}, "resume", 0, "deletionpause.curfew.dev/a deleted\nnote: DeletionPause gitops holds all triggers, until it is deleted: incident"},
		"several":          {map[string]string{"a": here, "b": here}, "resume", 2, "there are several: name one of a, b, or give --all"},
		"all":              {map[string]string{"a": here, "b": here}, "resume --all", 0, "deletionpause.curfew.dev/a deleted\ndeletionpause.curfew.dev/b deleted"},
		"all, as objects":  {map[string]string{"a": here, "b": here}, "resume --all -o jsonpath={.kind}:{.items[*].spec.reason}", 0, "List:incident incident"},
		"one, as object":   {map[string]string{"a": here}, "resume -o jsonpath={.kind}:{.metadata.uid}", 0, "DeletionPause:a"},
		"names":            {map[string]string{"a": here, "b": here}, "resume --all -o name", 0, "deletionpause.curfew.dev/a\ndeletionpause.curfew.dev/b\n"},
		"by name":          {map[string]string{"gitops": "flux"}, "resume gitops", 0, "deletionpause.curfew.dev/gitops deleted"},
		"none of its own":  {map[string]string{"gitops": "flux"}, "resume", 2, "kubectl curfew pause made none of them: name one of gitops"},
		"all and one name": {map[string]string{"a": here}, "resume a --all", 2, "--all: leave it out, or the names"},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects(t)
			for name, made := range test.made {
				all = append(all, paused(t, name, made, ""))
			}
			expectRun(t, newFakeCluster(t, all), scene{}, test.line, test.code, test.says)
		})
	}
}

// TestStatusOfPauses: status shows each pause, and how to end it.
func TestStatusOfPauses(t *testing.T) {
	cluster := healthy(t).cluster(t)
	must(t, cluster.objects.Tracker().Add(paused(t, "stop", "", "")))
	expectRun(t, cluster, scene{}, "status", 0, "pauses        warning   DeletionPause stop holds all triggers, until it is deleted: incident (kubectl curfew resume stop ends it)")
}
