package v1alpha1_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

func TestCleanupPolicySchema(t *testing.T) {
	crd := load(t, "curfew.dev_clustercleanuppolicies.yaml")
	for runs, want := range map[int]string{-1: "spec.consecutiveRuns", 0: "spec.consecutiveRuns", 1: "", 100: "", 101: "spec.consecutiveRuns"} {
		t.Run(fmt.Sprint(runs), func(t *testing.T) {
			expect(t, crd.check(decode(t, fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: x},
				spec: {schedule: "@daily", consecutiveRuns: %d, matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}]}}}`, runs)), nil), want)
		})
	}
}

func TestMinUnusedSchema(t *testing.T) {
	crd := load(t, "curfew.dev_clustercleanuppolicies.yaml")
	for value, want := range map[string]string{`14d`: "", `"90"`: "", `90`: "spec.minUnused", `"-1d"`: "spec.minUnused", `soon`: "spec.minUnused", `""`: "spec.minUnused"} {
		t.Run(value, func(t *testing.T) {
			expect(t, crd.check(decode(t, fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: x},
				spec: {schedule: "@daily", minUnused: %s, matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}]}}}`, value)), nil), want)
		})
	}
}

// A report page has room for the matches that the controller writes on one, and is written and read
// as bytes.
func TestCleanupReportSchema(t *testing.T) {
	crd := load(t, "curfew.dev_clustercleanupreports.yaml")
	const fullest = 25_000 * cleanup.MatchSize
	for size, want := range map[int]string{1: "", fullest: "", 2 * fullest: "matched"} {
		fields := &v1alpha1.CleanupReportFields{Policy: v1alpha1.PolicyReference{Name: "x", UID: "y"}, Run: "r", Page: 1, Matched: make([]byte, size)}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fields)
		must(t, err)
		if got := object["matched"]; got != base64.StdEncoding.EncodeToString(fields.Matched) {
			t.Fatalf("%d bytes are written as %T", size, got)
		}
		object["apiVersion"], object["kind"], object["metadata"] = "curfew.dev/v1alpha1", "ClusterCleanupReport", map[string]any{"name": "x"}
		expect(t, crd.check(object, nil), want)
	}
}
