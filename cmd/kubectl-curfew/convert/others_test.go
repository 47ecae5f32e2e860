package convert_test

import (
	"fmt"
	"slices"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

// run is a PipelineRun of a day of November 2026 that ended at once. Without a reason it still
// runs.
func run(name string, day int, reason string) string {
	at := fmt.Sprintf("2026-11-%02dT10:00:00Z", day)
	out := fmt.Sprintf("---\napiVersion: tekton.dev/v1\nkind: PipelineRun\nmetadata: {name: %s, namespace: ci, labels: {tekton.dev/pipeline: p}, creationTimestamp: %s}\n", name, at)
	if reason == "" {
		return out + "status: {startTime: " + at + "}\n"
	}
	status := map[bool]string{true: "True", false: "False"}[reason == "Succeeded"]
	return out + fmt.Sprintf("status: {startTime: %[1]s, completionTime: %[1]s, conditions: [{type: Succeeded, status: '%s', reason: %s}]}\n", at, status, reason)
}

// The policies of Tekton's two pruners and of kor's lists delete no object that these keep.
func TestOtherTools(t *testing.T) {
	objects := run("ok-20", 20, "Succeeded") + run("ok-10", 10, "Succeeded") + run("bad-20", 20, "Failed") + run("bad-05", 5, "Failed") + run("runs", 1, "")
	const pruner = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tekton-pruner-default-spec}\ndata: {global-config: '%s'}\n"
	const operator = "{apiVersion: operator.tekton.dev/v1alpha1, kind: TektonConfig, metadata: {name: config}, spec: {profile: all, pruner: {%s}}}"
	for _, name := range []string{"base", "root.crt", "other"} {
		objects += manifest("v1", "ConfigMap", "ci", name, "")
	}
	for source, want := range map[string][]string{
		fmt.Sprintf(pruner, "{enforcedConfigLevel: global, ttlSecondsAfterFinished: 864000}"):              {"bad-05", "ok-10"},
		fmt.Sprintf(pruner, "{enforcedConfigLevel: global, failedHistoryLimit: 1}"):                        {"bad-05"},
		fmt.Sprintf(pruner, "{enforcedConfigLevel: global, historyLimit: -1}"):                             nil,
		fmt.Sprintf(pruner, "{ttlSecondsAfterFinished: 1, namespaces: {ci: {successfulHistoryLimit: 1}}}"): {"ok-10"},
		fmt.Sprintf(operator, "schedule: '@daily', keep: 3"):                                               {"bad-05"},
		fmt.Sprintf(operator, "schedule: '@daily', keep: 1, disabled: true"):                               nil,
		fmt.Sprintf(pruner, "{enforcedConfigLevel: other, historyLimit: 0}"):                               nil,
		fmt.Sprintf(operator, "schedule: '@daily'"):                                                        nil,
		fmt.Sprintf(operator, "schedule: '@daily', keep: 1, resources: [pods]"):                            nil,
		`{"exceptionGadgets": []}`:                                        nil,
		`{"exceptionSecrets": [{"Namespace": "x", "ResourceName": "y"}]}`: nil,
		fmt.Sprintf(operator, "keep: 1"):                                  nil,
		`{"exceptionConfigMaps": [{"Namespace": "ci", "ResourceName": "base"}, {"Namespace": "^c", "ResourceName": "\\.crt$", "MatchRegex": true}]}`: {"other"},
		`{"exceptionConfigMaps": [{"Namespace": "(", "ResourceName": "x", "MatchRegex": true}]}`:                                                     nil,
	} {
		result := convert.Source("", []byte(source), options)
		for i := range result.Policies {
			usable(t, &result.Policies[i])
		}
		if have := runAll(t, result.Policies, objects); !slices.Equal(have, want) {
			t.Errorf("%s: deletes %q, want %q; %v", source, have, want, result.Findings)
		}
	}
}
