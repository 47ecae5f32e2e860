package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// paused is a DeletionPause in the cluster of testdata.
func paused(name, made string, spec map[string]any) *unstructured.Unstructured {
	spec["reason"] = "incident"
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "curfew.dev/v1alpha1", "kind": "DeletionPause", "spec": spec,
		"metadata": map[string]any{"name": name, "uid": name, "labels": map[string]any{"app.kubernetes.io/managed-by": made}},
	}}
}

// TestPauseShows: expiring and explain show a pause as the blocker of the objects that it names,
// and of no others.
func TestPauseShows(t *testing.T) {
	for name, test := range map[string]struct {
		spec   map[string]any
		blocks bool
	}{
		"everything":        {map[string]any{}, true},
		"its namespace":     {map[string]any{"namespaces": []any{"c*"}}, true},
		"another namespace": {map[string]any{"namespaces": []any{"foo"}}, false},
		"another trigger":   {map[string]any{"triggers": []any{"cleanup"}}, false},
		"one that ended":    {map[string]any{"until": "2026-12-24T11:59:59Z"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range []string{"expiring -n ci -o wide", "explain cm/labelled -n ci"} {
				cluster := newFakeCluster(t, append(objects(t), paused("stop", "", test.spec), labelled("labelled", "ci")))
				_, stdout, stderr, _ := executeIn(t, cluster, scene{}, words(line)...)
				if blocks := strings.Contains(stdout, "DeletionPause stop holds"); blocks != test.blocks || !strings.Contains(stdout, "labelled") {
					t.Errorf("%s: %t, want %t\n%s%s", line, blocks, test.blocks, stdout, stderr)
				}
			}
		})
	}
}

func labelled(name, namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-12-24T11:00:00Z", "labels": map[string]any{"curfew.dev/ttl": "2h"}},
	}}
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
		"by name":          {map[string]string{"gitops": "flux"}, "resume gitops", 0, "deletionpause.curfew.dev/gitops deleted"},
		"none of its own":  {map[string]string{"gitops": "flux"}, "resume", 2, "kubectl curfew pause made none of them: name one of gitops"},
		"all and one name": {map[string]string{"a": here}, "resume a --all", 2, "--all: leave it out, or the names"},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects(t)
			for name, made := range test.made {
				all = append(all, paused(name, made, map[string]any{}))
			}
			code, stdout, stderr, _ := executeIn(t, newFakeCluster(t, all), scene{}, words(test.line)...)
			if code != test.code || !strings.Contains(stdout+stderr, test.says) {
				t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// TestStatusOfPauses: status shows each pause, and how to end it.
func TestStatusOfPauses(t *testing.T) {
	in := healthy(t)
	cluster := in.cluster(t)
	if err := cluster.objects.Tracker().Add(paused("stop", "", map[string]any{})); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr, _ := executeIn(t, cluster, scene{}, "status")
	if want := "pauses        warning   DeletionPause stop holds all triggers, until it is deleted: incident (kubectl curfew resume stop ends it)"; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}
