package convert_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
)

// runAll returns the names of the objects that a run of each policy deletes, as CleanupTests do.
// An object of a manifest is "kind namespace/name ...", with labels and annotations as YAML.
func runAll(t *testing.T, policies []convert.Policy, manifests string) []string {
	t.Helper()
	objects := filepath.Join(t.TempDir(), "objects.yaml")
	must(t, os.WriteFile(objects, []byte(manifests), 0o600))
	var out []string
	for i := range policies {
		var text bytes.Buffer
		must(t, convert.Write(&text, policies[i:i+1]))
		file := filepath.Join(t.TempDir(), "policy.yaml")
		must(t, os.WriteFile(file, text.Bytes(), 0o600))
		files, err := preview.ReadLocal(t.Context(), []string{file, objects}, true, "", nil, console.NewProgress(quiet, io.Discard))
		must(t, err)
		policy, err := files.Policy(nil)
		must(t, err)
		result, err := files.Preview(t.Context(), policy, now, time.Time{})
		must(t, err)
		for _, object := range result.Objects {
			if object.Reason == "" && !slices.Contains(out, object.Name) {
				out = append(out, object.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// quiet is an environment without a terminal.
var quiet = console.Environment{Terminal: func(any) bool { return false }}

// manifest is an object that was created long before the run.
func manifest(apiVersion, kind, namespace, name, labels string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s, labels: {%s}, creationTimestamp: '2026-10-01T00:00:00Z'}\n", apiVersion, kind, name, namespace, labels)
}

const namespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: ci, labels: {env: ci}}
---
apiVersion: v1
kind: Namespace
metadata: {name: prod, labels: {env: prod}}
---
apiVersion: v1
kind: Namespace
metadata: {name: ops, labels: {env: ops}}
`

// cleanerOf converts a Cleaner with one list of selectors.
func cleanerOf(selectors, more string) convert.Result {
	return convert.Source("", []byte(fmt.Sprintf(`
apiVersion: apps.projectsveltos.io/v1alpha1
kind: Cleaner
metadata: {name: c}
spec: {schedule: "@daily", resourcePolicySet: {resourceSelectors: [%s]}%s}`, selectors, more)), options)
}

// The policies of a Cleaner delete the objects that it selects, and no other.
func TestCleanerSelects(t *testing.T) {
	objects := namespaces +
		manifest("v1", "ConfigMap", "ci", "web", "team: web, tier: tin") + manifest("v1", "ConfigMap", "ci", "gold", "team: web, tier: gold") +
		manifest("v1", "ConfigMap", "ci", "plain", "") + manifest("v1", "ConfigMap", "prod", "prod-web", "team: web") +
		manifest("v1", "ConfigMap", "ops", "ops-web", "team: web") + manifest("v1", "Secret", "ci", "secret", "team: web") +
		manifest("apps/v1", "Deployment", "ci", "deployment", "team: web")
	for selectors, want := range map[string][]string{
		`{kind: ConfigMap, group: "", version: v1, namespace: ci}`: {"gold", "plain", "web"},
		`{kind: ConfigMap, group: "", version: v1, namespace: ci, labelFilters: [{key: team, operation: Equal, value: web},
			{key: tier, operation: Different, value: gold}]}`: {"web"},
		`{kind: ConfigMap, group: "", version: v1, labelFilters: [{key: tier, operation: Has}]}`:                                      {"gold", "web"},
		`{kind: ConfigMap, group: "", version: v1, namespaceSelector: "env=ci", labelFilters: [{key: tier, operation: DoesNotHave}]}`: {"plain"},
		`{kind: ConfigMap, group: "", version: v1, namespace: ops, namespaceSelector: "env in (prod)"}`:                               {"ops-web", "prod-web"},
		`{kind: ConfigMap, group: "", version: v1, namespace: ci}, {kind: Secret, group: "", version: v1, namespace: ci}`:             {"gold", "plain", "secret", "web"},
		`{kind: ConfigMap, group: "", version: v1, namespace: ops}, {kind: Secret, group: "", version: v1, namespace: ci}`:            {"ops-web", "secret"},
		// A kind of another group does not exist, as for k8s-cleaner.
		`{kind: Deployment, group: "", version: v1}`:                                                      nil,
		`{kind: ConfigMap, group: "", version: v1, labelFilters: [{key: tier, operation: In, value: a}]}`: nil,
		`{kind: ConfigMap, group: "", version: v1, namespaceSelector: "env >< ci"}`:                       nil,
		`{kind: ConfigMap, group: "", version: v1, evaluate: "return true"}`:                              nil,
	} {
		result := cleanerOf(selectors, "")
		for i := range result.Policies {
			usable(t, &result.Policies[i])
		}
		if have := runAll(t, result.Policies, objects); len(result.Policies) == 0 || !slices.Equal(have, want) {
			t.Errorf("%s: deletes %q, want %q: %v", selectors, have, want, result.Findings)
		}
	}
}

// Settings that Curfew cannot express stop the conversion, or become a policy that deletes nothing.
func TestCleanerSettings(t *testing.T) {
	const single, two = `{kind: Secret, group: "", version: v1}`, `{kind: Secret, group: "", version: v1}, {kind: Pod, group: "", version: v1, namespace: ci}`
	for _, c := range []struct {
		selectors, more, finding string
		policies                 int
	}{
		{single, ", action: Transform", `spec.action: "Transform" does not delete`, 0},
		{single, ", action: Destroy", `spec.action: "Destroy" does not delete`, 0},
		{single, ", surprise: 1", `unknown field "spec.surprise"`, 1},
		{single, ", occurrenceThreshold: 101", "spec.occurrenceThreshold: 101: consecutiveRuns is 100 at most", 1},
		{single, ", blastRadiusLimit: {maxCount: 0}", "spec.blastRadiusLimit.maxCount: 0: the Cleaner deletes nothing", 1},
		{two, ", blastRadiusLimit: {maxCount: 9}", "spec.blastRadiusLimit: applies to each of 2 policies", 2},
		{`{kind: Secret, group: "", version: v1, labelFilters: [{key: a, operation: Has}]}`, ", blastRadiusLimit: {maxPercentage: 9}",
			"spec.blastRadiusLimit.maxPercentage: 9: Curfew counts percent of all objects", 1},
		{strings.TrimSuffix(strings.Repeat(single+", ", 101), ", "), "", "more than 100 are not converted", 0},
	} {
		result := cleanerOf(c.selectors, c.more)
		found := false
		for _, finding := range result.Findings {
			found = found || finding.Lost && strings.Contains(finding.String(), c.finding)
		}
		if !found || len(result.Policies) != c.policies {
			t.Errorf("%.60s %s: %d policies, want %d; %q is missing: %v", c.selectors, c.more, len(result.Policies), c.policies, c.finding, result.Findings)
		}
		for i := range result.Policies {
			usable(t, &result.Policies[i])
		}
	}
}

// k8s-cleaner sends no propagationPolicy, and the Pods of a Job stay.
func TestCleanerKeepsPodsOfJobs(t *testing.T) {
	for more, want := range map[string]string{"": "Orphan", ", deleteOptions: {propagationPolicy: Background}": "Background"} {
		result := cleanerOf(`{kind: Job, group: batch, version: v1}`, more)
		if have := string(result.Policies[0].Spec.PropagationPolicy); have != want {
			t.Errorf("%q: propagationPolicy is %s, want %s", more, have, want)
		}
	}
}
