package main

import (
	"encoding/json"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/explain"
)

const plans = `apiVersion: batch/v1
kind: Job
metadata: {name: plain, namespace: ci}
---
apiVersion: batch/v1
kind: Job
metadata: {name: long, namespace: ci}
spec: {ttlSecondsAfterFinished: 864000, activeDeadlineSeconds: 60}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: demo, namespace: foo, labels: {curfew.dev/ttl: 1d}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: outcomes, namespace: here, annotations: {curfew.dev/ttl-after-failed: never}}
status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-12-01T00:00:00Z"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: other, namespace: here}
---
apiVersion: v1
kind: Namespace
metadata: {name: here, annotations: {curfew.dev/default-ttl-succeeded: 1h, curfew.dev/default-ttl-failed: 3d, curfew.dev/default-deadline: 2h}}
`

// summaries are the first lines of each explanation.
func summaries(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, " (-:") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestExplainFile(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		want []string
	}{
		"by the cluster": {"explain -f -", []string{
			`job.batch/plain in namespace ci (-:1) expires 1d after it has finished, by the TTL from namespace "ci"`,
			"job.batch/long in namespace ci (-:5) would be rejected by admission",
			"configmap/demo in namespace foo (-:10) expires 2026-12-25 13:00:00 CET, created now, by label curfew.dev/ttl=1d",
			"job.batch/outcomes in namespace here (-:14) stays after it has failed, by its own TTL; is stopped once it was active for 2h, by the deadline from namespace \"here\"",
			`job.batch/other in namespace here (-:19) expires 1h after it has succeeded, by the TTL from namespace "here"; expires 3d after it has failed, by the TTL from namespace "here"; ` +
				`is stopped once it was active for 2h, by the deadline from namespace "here"`,
			"namespace/here (-:23) stays: nothing gives it a TTL, a TTL label or a deadline",
		}},
		"by the manifests alone": {"explain -f - --offline", []string{
			"job.batch/plain in namespace ci (-:1) stays: nothing gives it a TTL, a TTL label or a deadline",
			"job.batch/long in namespace ci (-:5) expires 10d after it has finished, by its own TTL; is stopped once it was active for 1m, by its own deadline",
			"configmap/demo in namespace foo (-:10) expires 2026-12-25 13:00:00 CET, created now, by label curfew.dev/ttl=1d",
			"job.batch/outcomes in namespace here (-:14) stays after it has failed, by its own TTL; is stopped once it was active for 2h, by the deadline from namespace \"here\"",
			`job.batch/other in namespace here (-:19) expires 1h after it has succeeded, by the TTL from namespace "here"; expires 3d after it has failed, by the TTL from namespace "here"; ` +
				`is stopped once it was active for 2h, by the deadline from namespace "here"`,
			"namespace/here (-:23) stays: nothing gives it a TTL, a TTL label or a deadline",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, patched := execute(t, scene{stdin: plans}, words(test.args)...)
			if have := strings.Join(summaries(stdout), "\n"); code != 0 || have != strings.Join(test.want, "\n") {
				t.Errorf("exit status %d, %s\nhave\n%s\nwant\n%s", code, stderr, have, strings.Join(test.want, "\n"))
			}
			expectCount(t, "patches", patched, 0)
			// The settings of an unknown namespace may change the answer.
			if offline := strings.Contains(test.args, "offline"); strings.Contains(stderr, `note: namespace "ci" is not known: its defaults and bounds may change the answer`) != offline ||
				strings.Contains(stderr, `namespace "here"`) {
				t.Errorf("notes: %s", stderr)
			}
		})
	}
}

// TestExplainFileWith: --with applies a policy to manifests, with its TTL and its default label.
func TestExplainFileWith(t *testing.T) {
	const labels = "---\napiVersion: curfew.dev/v1alpha1\nkind: LifecyclePolicy\nmetadata: {name: previews}\nspec: {match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {value: 2d}}}\n"
	const plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: foo}\n"
	code, stdout, stderr, _ := execute(t, scene{stdin: plain + labels}, words("explain -f -")...)
	want := "configmap/a in namespace foo (-:1) expires 2026-12-26 13:00:00 CET, created now, by label curfew.dev/ttl=2d\n\n" +
		"Filled in\n   curfew.dev/ttl defaulted to 2d from policy \"previews\"\n"
	expectExit(t, "the command", code, 0, stdout+stderr)
	expectStart(t, "stdout", stdout, want)
}

func TestExplainFileForPrograms(t *testing.T) {
	_, stdout, _, _ := execute(t, scene{stdin: plans}, words("explain -f - -o json")...)
	var data struct{ Items []explain.ForecastItem }
	if err := json.Unmarshal([]byte(stdout), &data); err != nil {
		t.Fatal(err)
	}
	first, second := data.Items[0], data.Items[1]
	expectSame(t, "line of the first object", first.Line, 1)
	expectSame(t, "name of the first object", first.Object.Name, "plain")
	if first.Succeeded == nil {
		t.Fatalf("the first object has no TTL after success, want 1d of namespace ci: %+v", first)
	}
	expectSame(t, "source of its TTL", first.Succeeded.Source, "namespace/ci")
	expectSame(t, "its TTL", first.Succeeded.Value, "1d")
	expectStart(t, "filled field", strings.Join(first.Filled, ", "), "ttlSecondsAfterFinished defaulted to 86400 (1d)")
	expectCount(t, "fields that are filled in", first.Filled, 1)
	expectCount(t, "reasons to reject the second object", second.Rejected, 1)
	expectPart(t, "reason to reject the second object", strings.Join(second.Rejected, ", "), "curfew.dev/max-ttl 7d", true)
}

func TestExplainFileRefuses(t *testing.T) {
	for name, test := range map[string]struct{ args, stdin, want string }{
		"with a kind":     {"explain job/build -f -", plans, "-f explains the objects of manifests: leave KIND, -l, --all and -A out"},
		"nothing in it":   {"explain -f -", "# nothing\n", "there is no object in what -f names: give at least one"},
		"unreadable":      {"explain -f -", "kind: Job\n", "document 1 (line 1): apiVersion is absent: give one, such as batch/v1"},
		"offline, with":   {"explain -f - --offline --with testdata/policy.yaml", plans, "--with needs a cluster: with --offline, name the file with -f as well"},
		"offline, no -f":  {"explain job/build --offline", "", "--offline and -R need -f"},
		"a missing file":  {"explain -f testdata/absent.yaml", "", "-f testdata/absent.yaml: no such file or directory"},
		"policies, alone": {"explain -f testdata/policy.yaml", "", "there is no object in what -f names: give at least one"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr, _ := execute(t, scene{stdin: test.stdin}, words(test.args)...)
			expectExit(t, "the command", code, console.ExitUsage, stderr)
			expectPart(t, "stderr", stderr, test.want+"\n", true)
		})
	}
}
