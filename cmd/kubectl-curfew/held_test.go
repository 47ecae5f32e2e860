package main

import (
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
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
	for name, test := range map[string]struct {
		object  string
		summary string
		row     string
		has     []string
		lacks   []string
	}{
		"annotation": {finished("annotations: {curfew.dev/ttl-source: policy/trial, curfew.dev/ttl-after-finished: 2h}", ""),
			`stays, although it is due 2026-12-24 14:30:00 CET, in 1h30m, by its TTL of 2h from policy "trial": see what blocks it`,
			"1h30m ttl policy/trial dry-run", []string{"Blocked by\n   dry-run   " + held, edit}, nil},
		"native field": {finished("annotations: {curfew.dev/ttl-source: policy/trial}", "ttlSecondsAfterFinished: 7200"),
			`expires 2026-12-24 14:30:00 CET, in 1h30m: Kubernetes' TTL-after-finished controller deletes it by ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it`,
			"1h30m ttl policy/trial -", []string{"Curfew alone is blocked by\n   dry-run   " + held, "kubectl patch job.batch/a -n foo --type=merge"}, []string{"\nBlocked by"}},
		"another value": {finished("annotations: {curfew.dev/ttl-source: policy/trial, curfew.dev/ttl-after-finished: 3h}", ""),
			`expires 2026-12-24 15:30:00 CET, in 2h30m, by its TTL of 3h from policy "trial"`, "2h30m ttl policy/trial -", nil, []string{held}},
		"label": {labelled(""), `stays, although it is due 2026-12-24 16:00:00 CET, in 3h, by its label curfew.dev/ttl=5h from policy "trial": see what blocks it`,
			"3h label policy/trial dry-run", []string{held, edit}, nil},
		"its own TTL is later": {finished("labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/ttl-label-source: policy/trial 5h, curfew.dev/ttl-after-finished: 9h}", ""),
			"expires 2026-12-24 21:30:00 CET, in 8h30m, by its own TTL of 9h", "8h30m ttl object -", nil, []string{held}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, kind := clusterOf(t, trial, test.object), "job"
			if strings.Contains(test.object, "kind: Secret") {
				kind = "secret"
			}
			code, stdout, stderr, _ := executeIn(t, cluster, scene{}, "explain", kind+"/a", "-n", "foo")
			summary, _, _ := strings.Cut(stdout, "\n")
			if _, have, _ := strings.Cut(summary, " in namespace foo "); code != console.ExitOK || have != test.summary {
				t.Errorf("exit status %d: it\n%s\nwant\n%s%s", code, have, test.summary, stderr)
			}
			for _, want := range test.has {
				expectPart(t, "stdout", stdout, want, true)
			}
			for _, unwanted := range test.lacks {
				expectPart(t, "stdout", stdout, unwanted, false)
			}
			_, stdout, stderr, _ = executeIn(t, cluster, scene{}, words("expiring "+kind+"s -n foo --no-headers")...)
			row := ""
			for line := range strings.Lines(stdout) {
				if fields := strings.Fields(line); strings.HasSuffix(fields[0], "/a") {
					row = strings.Join(fields[4:], " ")
				}
			}
			if row != test.row {
				t.Errorf("the row is %q, want %q\n%s", row, test.row, stderr)
			}
		})
	}
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
