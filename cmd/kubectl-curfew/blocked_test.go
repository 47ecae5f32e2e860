package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// explain shows the Event that the controller writes on a due object which it cannot delete, if the
// user may list Events.
func TestWhatTheControllerReportsBlocksAnObject(t *testing.T) {
	due := job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 1h}", "2026-12-20T12:00:00Z")
	waits := strings.ReplaceAll(job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 30d}", "2026-12-20T12:00:00Z"),
		"name: a, namespace: foo, uid: a", "name: b, namespace: foo, uid: b")
	const refusal = "due since 2026-12-20T13:00:00Z, but the API server refuses to delete it: 403 Forbidden: no; Curfew keeps trying"
	event := func(name, text, reason, value, message string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name, "namespace": "foo"}, "reason": reason, "message": message,
			"eventTime": value, "involvedObject": map[string]any{"kind": "Job", "namespace": "foo", "name": text, "uid": text},
		}}
	}
	elsewhere := func(event runtime.Object) runtime.Object {
		event.(*unstructured.Unstructured).SetNamespace("ci")
		return event
	}
	for name, test := range map[string]struct {
		events  []runtime.Object
		notMine []string
		blocker string
		summary string
	}{
		"refused": {
			events: []runtime.Object{
				event("a.1", "a", "DeleteRefused", "2026-12-24T10:00:00Z", "an older one"),
				event("a.2", "a", "DeleteRefused", "2026-12-24T11:00:00Z", refusal),
				event("a.3", "a", "Stuck", "2026-12-24T11:30:00Z", "another reason"), event("b.1", "b", "DeleteRefused", "2026-12-24T11:30:00Z", refusal),
			},
			blocker: "refused", summary: "stays, although it was due",
		},
		"changes all the time":          {events: []runtime.Object{event("a.1", "a", "DeleteConflict", "2026-12-24T11:00:00Z", refusal)}, blocker: "conflict", summary: "stays, although it was due"},
		"kept by its owner":             {events: []runtime.Object{event("a.1", "a", "Kept", "2026-12-24T11:00:00Z", refusal)}, blocker: "value", summary: "was due"},
		"no Event":                      {blocker: "-", summary: "was due"},
		"the user may see none":         {events: []runtime.Object{event("a.1", "a", "DeleteRefused", "2026-12-24T11:00:00Z", refusal)}, notMine: []string{"list events"}, blocker: "-", summary: "was due"},
		"an Event of another namespace": {events: []runtime.Object{elsewhere(event("a.1", "a", "DeleteRefused", "2026-12-24T11:00:00Z", refusal))}, blocker: "-", summary: "was due"},
		"an Event on another one":       {events: []runtime.Object{event("b.1", "b", "DeleteRefused", "2026-12-24T11:00:00Z", refusal)}, blocker: "-", summary: "was due"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, slices.Concat(objects(t), manifests(t, due, waits), test.events))
			s := scene{notMine: test.notMine}
			stdout, _, _ := expectRun(t, cluster, s, "expiring jobs -n foo --within 60d", console.ExitOK)
			blockers := map[string]string{}
			for line := range strings.Lines(stdout) {
				fields := strings.Fields(line)
				blockers[fields[0]] = fields[len(fields)-1]
			}
			expectSame(t, "blocker of a", blockers["job.batch/a"], test.blocker)
			expectSame(t, "blocker of b", blockers["job.batch/b"], "-")
			stdout, _, _ = expectRun(t, cluster, s, "explain job/a -n foo", console.ExitOK)
			expectPart(t, "stdout", stdout, test.summary, true)
			expectPart(t, "stdout", stdout, refusal, test.blocker != "-")
			expectPart(t, "stdout", stdout, "an older one", false)
		})
	}
}

// An Event StopRefused blocks the stop of an object and not its deletion, DeleteRefused the other way
// round, and DeleteConflict both.
func TestStopIsRefused(t *testing.T) {
	const late, refusal = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a,
		creationTimestamp: "2026-12-24T07:00:00Z", annotations: {curfew.dev/active-deadline: 1h%s}}, spec: {}}`,
		"it cannot be stopped: 422 Invalid: spec.managedBy: field is immutable"
	for reason, want := range map[string]bool{"StopRefused": true, "DeleteConflict": true, "DeleteRefused": false} {
		for _, more := range []string{"", ", curfew.dev/ttl-after-finished: 30d"} {
			event := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "a.1", "namespace": "foo"}, "reason": reason,
				"message": refusal, "eventTime": "2026-12-24T11:00:00Z", "involvedObject": map[string]any{"uid": "a"},
			}}
			cluster := newFakeCluster(t, append(append(objects(t), event), manifests(t, fmt.Sprintf(late, more))...))
			stdout, _, _ := expectRun(t, cluster, scene{}, "explain jobset/a -n foo", console.ExitOK)
			expectPart(t, reason, stdout, "nothing stops it: "+refusal, want)
			stdout, _, _ = expectRun(t, cluster, scene{}, "expiring jobset -n foo --within 60d -o json", console.ExitOK)
			expectPart(t, reason+more, stdout, refusal, want)
		}
	}
}
