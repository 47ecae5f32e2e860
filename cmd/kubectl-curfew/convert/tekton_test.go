package convert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
)

// run is a PipelineRun or TaskRun of a day of November 2026 that ended at once. Without a reason it
// still runs.
func run(kind, namespace, name string, day int, reason, metadata string) string {
	at := fmt.Sprintf("2026-11-%02dT10:00:00Z", day)
	out := fmt.Sprintf("---\napiVersion: tekton.dev/v1\nkind: %s\nmetadata: {name: %s, namespace: %s, creationTimestamp: %s%s}\n",
		kind, name, namespace, at, metadata)
	if reason == "" {
		return out + "status: {startTime: " + at + "}\n"
	}
	status := "False"
	if reason == "Succeeded" {
		status = "True"
	}
	return out + fmt.Sprintf("status: {startTime: %[1]s, completionTime: %[1]s, conditions: [{type: Succeeded, status: '%s', reason: %s}]}\n", at, status, reason)
}

// pruned returns the runs that are deleted by the policies of a global-config and of an ns-config of
// namespace shop.
func pruned(t *testing.T, global, shop, objects string) []string {
	t.Helper()
	source := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tekton-pruner-default-spec}\ndata: {global-config: '" + global + "'}\n"
	if shop != "" {
		source += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: n, namespace: shop}\ndata: {ns-config: '" + shop + "'}\n"
	}
	result := convert.Source("", []byte(source), options)
	for i := range result.Policies {
		usable(t, &result.Policies[i])
	}
	return runAll(t, result.Policies, objects)
}

// The limits of a level delete what Tekton Pruner deletes, and nothing else.
func TestPrunerLimits(t *testing.T) {
	objects := run("PipelineRun", "ci", "ok-20", 20, "Succeeded", "") + run("PipelineRun", "ci", "ok-10", 10, "Completed", "") +
		run("PipelineRun", "ci", "ok-05", 5, "Succeeded", "") + run("PipelineRun", "ci", "bad-20", 20, "Failed", "") +
		run("PipelineRun", "ci", "bad-05", 5, "Cancelled", "") + run("PipelineRun", "ci", "runs", 1, "", "") +
		run("PipelineRun", "ci", "no-ttl", 1, "Succeeded", ", annotations: {pruner.tekton.dev/ttlSecondsAfterFinished: '-1'}") +
		run("TaskRun", "ci", "task", 5, "Succeeded", "") +
		run("TaskRun", "ci", "part", 1, "Succeeded", ", labels: {tekton.dev/pipelineRun: ok-05}") +
		run("TaskRun", "ci", "owned", 1, "Succeeded", ", ownerReferences: [{apiVersion: tekton.dev/v1, kind: PipelineRun, name: x, uid: y}]") +
		run("PipelineRun", "shop", "shop", 5, "Succeeded", "") + run("PipelineRun", "tekton-pipelines", "system", 5, "Succeeded", "") +
		run("PipelineRun", "openshift-x", "shift", 5, "Succeeded", "")
	for config, want := range map[string][]string{
		"{enforcedConfigLevel: global, ttlSecondsAfterFinished: 864000}":                      {"bad-05", "ok-05", "ok-10", "shop", "task"},
		"{enforcedConfigLevel: global, successfulHistoryLimit: 1}":                            {"no-ttl", "ok-05", "ok-10"},
		"{enforcedConfigLevel: global, failedHistoryLimit: 1}":                                {"bad-05"},
		"{enforcedConfigLevel: global, historyLimit: 1, failedHistoryLimit: 2}":               {"no-ttl", "ok-05", "ok-10"},
		"{enforcedConfigLevel: global, successfulHistoryLimit: 0}":                            {"no-ttl", "ok-05", "ok-10", "ok-20", "shop", "task"},
		"{enforcedConfigLevel: global, historyLimit: -1}":                                     nil,
		"{enforcedConfigLevel: other, historyLimit: 0}":                                       nil,
		"{enforcedConfigLevel: global, failedHistoryLimit: 1, namespaces: {ci: {}}}":          {"bad-05"},
		"{enforcedConfigLevel: namespace, historyLimit: 0, namespaces: {ci: {}}}":             {"shop"},
		"{ttlSecondsAfterFinished: 1, namespaces: {ci: {failedHistoryLimit: 1}}}":             {"bad-05", "shop"},
		"{namespaces: {ci: {pipelineRuns: [{selector: [{}], failedHistoryLimit: 1}]}}}":       {"bad-05"},
		"{historyLimit: 0, namespaces: {ci: {failedHistoryLimit: 1}, shop: {unknown: true}}}": {"bad-05"},
	} {
		// A policy of an unknown field is suspended, and the preview shows what it would delete.
		if have := pruned(t, config, "", objects); !slices.Equal(have, want) {
			t.Errorf("%s: deletes %q, want %q", config, have, want)
		}
	}
}

// The first group of an ns-config that matches a run decides; the namespace has the other limits.
func TestPrunerGroups(t *testing.T) {
	objects := run("PipelineRun", "shop", "release", 5, "Succeeded", ", labels: {tekton.dev/pipeline: release, tier: canary}") +
		run("PipelineRun", "shop", "canary", 5, "Succeeded", ", labels: {tier: canary}, annotations: {a: x}") +
		run("PipelineRun", "shop", "half", 5, "Succeeded", ", labels: {tier: canary}") +
		run("PipelineRun", "shop", "plain", 5, "Failed", "") +
		run("PipelineRun", "shop", "renamed", 5, "Failed", ", annotations: {pruner.tekton.dev/resourceNameLabelKey: x}") +
		run("TaskRun", "shop", "task", 5, "Succeeded", ", labels: {tier: canary}") + run("PipelineRun", "ci", "elsewhere", 5, "Succeeded", "")
	const canary = "{selector: [{matchLabels: {tier: canary}, matchAnnotations: {a: x}}], ttlSecondsAfterFinished: %d}"
	for config, want := range map[string][]string{
		"{pipelineRuns: [" + fmt.Sprintf(canary, 60) + "]}":                                                                                 {"canary", "elsewhere"},
		"{ttlSecondsAfterFinished: 60, pipelineRuns: [" + fmt.Sprintf(canary, 9000000) + "]}":                                               {"elsewhere", "half", "plain", "release", "renamed", "task"},
		"{ttlSecondsAfterFinished: 60, pipelineRuns: [" + fmt.Sprintf(canary, 60) + ", {name: release, ttlSecondsAfterFinished: 9000000}]}": {"canary", "elsewhere", "half", "plain", "task"},
		"{failedHistoryLimit: 0, pipelineRuns: [" + fmt.Sprintf(canary, 9000000) + "]}":                                                     {"elsewhere", "plain", "renamed"},
		"{pipelineRuns: [{name: release, historyLimit: 0}]}":                                                                                {"elsewhere"},
		"{pipelineRuns: [{name: release, successfulHistoryLimit: 0}]}":                                                                      {"elsewhere", "release"},
		"a: [": {"elsewhere"},
	} {
		have := pruned(t, "{enforcedConfigLevel: namespace, ttlSecondsAfterFinished: 60, namespaces: {shop: {}}}", config, objects)
		if !slices.Equal(have, want) {
			t.Errorf("%s: deletes %q, want %q", config, have, want)
		}
	}
}

// The pruner of the operator keeps the newest and the young, running runs, and namespaces with
// annotations.
func TestJobPruner(t *testing.T) {
	objects := "apiVersion: v1\nkind: Namespace\nmetadata: {name: own, annotations: {operator.tekton.dev/prune.skip: 'true'}}\n" +
		run("PipelineRun", "ci", "a-20", 20, "Succeeded", ", labels: {tekton.dev/pipeline: a}") +
		run("PipelineRun", "ci", "a-10", 10, "Failed", ", labels: {tekton.dev/pipeline: a}") +
		run("PipelineRun", "ci", "b-05", 5, "Succeeded", ", labels: {tekton.dev/pipeline: b}") + run("PipelineRun", "ci", "runs", 1, "", "") +
		run("PipelineRun", "own", "own-1", 1, "Succeeded", "") + run("PipelineRun", "own", "own-2", 2, "Succeeded", "") +
		run("TaskRun", "ci", "task-5", 5, "Succeeded", "") + run("TaskRun", "ci", "task-6", 6, "Succeeded", "")
	for pruner, want := range map[string][]string{
		"schedule: '@daily', keep: 1":                       {"a-10", "b-05"},
		"schedule: '@daily', keep: 1, resources: [taskrun]": {"task-5"},
		"schedule: '@daily', keep-since: 20160":             {"b-05"},
		"schedule: '@daily', keep: 1, keep-since: 15000":    {"b-05"},
		"schedule: '@daily'":                                nil,
		"schedule: '@daily', keep: 0":                       nil,
		"schedule: '@daily', keep: 1, disabled: true":       nil,
		"keep: 1": nil,
		"schedule: '@daily', keep: 1, resources: [pods]":                                           nil,
		"schedule: '@daily', keep: 1, resources: [taskrun, pipelinerun], prune-per-resource: true": {"a-10"},
	} {
		result := convert.Source("", []byte("{apiVersion: operator.tekton.dev/v1alpha1, kind: TektonConfig, metadata: {name: config}, spec: {profile: all, pruner: {"+
			pruner+"}, tektonpruner: {disabled: true, global-config: {historyLimit: 0}}}}"), options)
		for i := range result.Policies {
			usable(t, &result.Policies[i])
		}
		broader := slices.ContainsFunc(result.Findings, func(f convert.Finding) bool { return f.Broader })
		if have := runAll(t, result.Policies, objects); !slices.Equal(have, want) || broader != strings.Contains(pruner, "prune-per-resource") {
			t.Errorf("%s: deletes %q, want %q; %v", pruner, have, want, result.Findings)
		}
	}
}
