package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	clusterCleanup = "apiVersion: curfew.dev/v1alpha1\nkind: ClusterCleanupPolicy\nmetadata: {name: a}\nspec:\n"
	cleanupInCI    = "apiVersion: curfew.dev/v1alpha1\nkind: CleanupPolicy\nmetadata: {name: a, namespace: ci}\nspec:\n"
	daily          = "  schedule: '@daily'\n"
	configMaps     = "  matchConstraints: {resourceRules: [{apiGroups: [''], resources: [configmaps]}]}\n"
	allPods        = "  matchConstraints: {resourceRules: [{apiGroups: [''], resources: [pods]}]}\n"
	unreferenced   = "  conditions: [{name: unused, expression: '!lookup.referenced'}]\n"
)

// What admission denies of Curfew's own kinds, lint finds.
func TestLintCleanupPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"fits":                      {text: clusterCleanup + daily + configMaps + unreferenced},
		"lookup of another kind":    {text: clusterCleanup + daily + allPods + unreferenced, want: []string{`f.yaml:6 error ClusterCleanupPolicy a policy-compiles spec.matchConstraints.resourceRules[0]: lookup.referenced is for configmaps, ingressclasses.networking.k8s.io, persistentvolumeclaims, priorityclasses.scheduling.k8s.io, runtimeclasses.node.k8s.io, secrets, serviceaccounts, storageclasses.storage.k8s.io: name these alone`}},
		"lookup of a CleanupPolicy": {text: cleanupInCI + daily + "  serviceAccountName: x\n" + configMaps + unreferenced, want: []string{`f.yaml:8 error CleanupPolicy ci/a policy-compiles spec.conditions: any object of the cluster may refer to an object: use a ClusterCleanupPolicy`}},
		"CEL":                       {text: clusterCleanup + daily + configMaps + "  conditions: [{name: bad, expression: 'objekt.a == 1'}]\n", want: []string{`f.yaml:7 error ClusterCleanupPolicy a policy-compiles spec.conditions[0].expression: line 1, column 1: undeclared reference to 'objekt'`}},
		"schedule":                  {text: clusterCleanup + "  schedule: 61 * * * *\n" + configMaps, want: []string{`f.yaml:5 error ClusterCleanupPolicy a policy-compiles spec.schedule: schedule "61 * * * *": minute: end of range (61) above maximum (59): 61`}},
		"too often":                 {text: clusterCleanup + "  schedule: '* * * * *'\n" + configMaps, want: []string{`f.yaml:5 error ClusterCleanupPolicy a policy-compiles spec.schedule: two runs are 1m0s apart: leave at least 5m0s between them`}},
		"few runs": {text: clusterCleanup + "  schedule: 17 5 * * sat,sun\n  minUnused: 21d\n" + configMaps,
			want: []string{`f.yaml:6 warning ClusterCleanupPolicy a cleanup-runs spec.minUnused: spans fewer than 7 runs of the schedule, and an object that is used only between two runs is deleted: run the policy more often, such as every hour`}},
		"seven runs":                       {text: clusterCleanup + daily + "  minUnused: 7d\n" + configMaps},
		"six runs":                         {text: clusterCleanup + daily + "  minUnused: 6d\n" + configMaps, want: []string{`f.yaml:6 warning ClusterCleanupPolicy a cleanup-runs spec.minUnused: spans fewer than 7 runs of the schedule, and an object that is used only between two runs is deleted: run the policy more often, such as every hour`}},
		"a year":                           {text: clusterCleanup + "  schedule: '@yearly'\n  minUnused: 365d\n" + configMaps, want: []string{`f.yaml:6 warning ClusterCleanupPolicy a cleanup-runs spec.minUnused: spans fewer than 7 runs of the schedule, and an object that is used only between two runs is deleted: run the policy more often, such as every hour`}},
		"no schedule":                      {text: clusterCleanup + "  schedule: 0 0 31 2 *\n  minUnused: 6d\n" + configMaps, want: []string{`f.yaml:5 error ClusterCleanupPolicy a policy-compiles spec.schedule: no date matches: the policy would never run`}},
		"unknown field":                    {text: clusterCleanup + daily + configMaps + "  condition: []\n", want: []string{`f.yaml:7 error ClusterCleanupPolicy a schema spec.condition: unknown field "spec.condition": remove it, or correct its name`}},
		"account":                          {text: cleanupInCI + daily + configMaps, want: []string{`f.yaml:4 error CleanupPolicy ci/a schema spec.serviceAccountName: Required value; the policy deletes with the rights of this account`}},
		"shape":                            {text: clusterCleanup + "  matchConstraints: 5\n", want: []string{`f.yaml:4 error ClusterCleanupPolicy a schema spec.schedule: Required value`, `f.yaml:5 error ClusterCleanupPolicy a schema spec.matchConstraints: Invalid value: "integer": spec.matchConstraints in body must be of type object: "integer"`}},
		"many resources":                   {text: clusterCleanup + daily + "  matchConstraints: {resourceRules: [{apiGroups: [''], resources: [" + resources(65) + "]}]}\n", want: []string{`f.yaml:6 error ClusterCleanupPolicy a schema spec.matchConstraints.resourceRules[0].resources: Too many: 65: must have at most 64 items`, `f.yaml:6 error ClusterCleanupPolicy a policy-compiles spec.matchConstraints.resourceRules: must have at most 64 items`}},
		"a namespace is given":             {text: strings.Replace(cleanupInCI, ", namespace: ci", "", 1) + daily + "  serviceAccountName: x\n" + configMaps},
		"a PodTally, a namespace is given": {text: "apiVersion: curfew.dev/v1alpha1\nkind: PodTally\nmetadata: {name: a}\nspec: {selector: {matchLabels: {app: build}}, ttlAfterCounted: 10m}\n"},
		"pause":                            {text: "apiVersion: curfew.dev/v1alpha1\nkind: DeletionPause\nmetadata: {name: a}\nspec: {untill: 5}\n", want: []string{`f.yaml:4 error DeletionPause a schema spec.untill: unknown field "spec.untill": remove it, or correct its name`, `f.yaml:4 error DeletionPause a schema spec.reason: Required value`}},
		"approval":                         {text: "apiVersion: curfew.dev/v1alpha1\nkind: CleanupApproval\nmetadata: {name: a}\nspec: {specHash: 5}\n", want: []string{`f.yaml:4 error CleanupApproval default/a schema spec.specHash: Invalid value: "integer": spec.specHash in body must be of type string: "integer"`, `f.yaml:4 error CleanupApproval default/a schema spec.policyUID: Required value`}},
		"cluster approval":                 {text: "apiVersion: curfew.dev/v1alpha1\nkind: ClusterCleanupApproval\nmetadata: {name: a}\nspec: {}\n", want: []string{`f.yaml:4 error ClusterCleanupApproval a schema spec.policyUID: Required value`, `f.yaml:4 error ClusterCleanupApproval a schema spec.specHash: Required value`}},
	} {
		t.Run(name, func(t *testing.T) {
			options := offline(t)
			options.CleanupInterval = 5 * time.Minute
			if have := lines(lintText(t, test.text, options)); !slices.Equal(have, test.want) {
				t.Errorf("have\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

func resources(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint("r", i))
	}
	return strings.Join(out, ", ")
}
