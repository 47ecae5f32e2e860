package main

import (
	"strings"
	"testing"
)

// TestHeldByPolicyInDryRun: Curfew keeps objects with defaults from a policy whose mode is now
// DryRun. The kind's own controller still deletes by the native field.
func TestHeldByPolicyInDryRun(t *testing.T) {
	const (
		trial = `{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: trial, uid: trial}, spec: {mode: DryRun, priority: 1000,
			match: {kinds: [{group: batch, kind: Job}, {kind: Secret}]}, defaults: {ttl: {value: 2h}, deadline: {value: 3h}, ttlLabel: {value: 5h}}}}`
		held = `policy "trial" is in mode DryRun: what its defaults make due is only reported`
		edit = "kubectl edit lifecyclepolicy trial   # its mode is DryRun"
	)
	labelled := func(more string) string {
		return secret(`creationTimestamp: "2026-12-24T10:00:00Z", labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/ttl-label-source: policy/trial 5h` + more + `}`)
	}
	finished := func(metadata, spec string) string {
		return strings.Replace(job(`creationTimestamp: "2026-12-24T10:00:00Z", `+metadata, "2026-12-24T11:30:00Z"), "status: {", "spec: {"+spec+"}, status: {", 1)
	}
	outcomes(t, map[string]outcome{
		"annotation": {objects: []string{trial, finished("annotations: {curfew.dev/ttl-source: policy/trial, curfew.dev/ttl-after-finished: 2h}", "")},
			summary: `stays, although it is due 2026-12-24 14:30:00 CET, in 1h30m, by its TTL of 2h from policy "trial": see what blocks it`,
			row:     "1h30m ttl policy/trial dry-run", says: []string{"Blocked by\n   dry-run   " + held, edit}},
		"native field": {objects: []string{trial, finished("annotations: {curfew.dev/ttl-source: policy/trial}", "ttlSecondsAfterFinished: 7200")},
			summary: `expires 2026-12-24 14:30:00 CET, in 1h30m: Kubernetes' TTL-after-finished controller deletes it by ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it`,
			row:     "1h30m ttl policy/trial -", says: []string{"Curfew alone is blocked by\n   dry-run   " + held, "kubectl patch job.batch/a -n foo --type=merge"}, lacks: []string{"\nBlocked by"}},
		"another value": {objects: []string{trial, finished("annotations: {curfew.dev/ttl-source: policy/trial, curfew.dev/ttl-after-finished: 3h}", "")},
			summary: `expires 2026-12-24 15:30:00 CET, in 2h30m, by its TTL of 3h from policy "trial"`,
			row:     "2h30m ttl policy/trial -", lacks: []string{held}},
		"label": {objects: []string{trial, labelled("")},
			summary: `stays, although it is due 2026-12-24 16:00:00 CET, in 3h, by its label curfew.dev/ttl=5h from policy "trial": see what blocks it`,
			row:     "3h label policy/trial dry-run", says: []string{held, edit}},
		"its own TTL is later": {objects: []string{trial, finished("labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/ttl-label-source: policy/trial 5h, curfew.dev/ttl-after-finished: 9h}", "")},
			summary: "expires 2026-12-24 21:30:00 CET, in 8h30m, by its own TTL of 9h",
			row:     "8h30m ttl object -", lacks: []string{held}},
	})
}

// TestObstaclesOfTheControllerAlone: obstacles do not stop a deletion by the kind's own controller,
// for programs neither.
func TestObstaclesOfTheControllerAlone(t *testing.T) {
	const protect = `, annotations: {curfew.dev/protect: "true"}`
	finished := strings.Replace(job("creationTimestamp: 2026-12-24T10:00:00Z"+protect, "2026-12-24T11:30:00Z"), "status: {", "spec: {ttlSecondsAfterFinished: 7200}, status: {", 1)
	for object, want := range map[string]string{
		finished: "false",
		strings.Replace(finished, "ttlSecondsAfterFinished: 7200", "", 1): "true",
	} {
		if object != finished {
			object = strings.Replace(object, `"true"}`, `"true", curfew.dev/ttl-after-finished: 2h}`, 1)
		}
		_, stdout, stderr, _ := executeIn(t, clusterOf(t, object), scene{}, "explain", "job/a", "-n", "foo", "-o", "jsonpath={.items[0].obstacles[0].stops}")
		if stdout != want {
			t.Errorf("stops is %q, want %s\n%s\n%s", stdout, want, object, stderr)
		}
	}
}
