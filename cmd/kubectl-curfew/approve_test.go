package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A policy that changed after the user saw it is not approved.
func TestApprovesWhatWasShown(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"edited":        func(p *unstructured.Unstructured) { p.SetGeneration(3) },
		"created again": func(p *unstructured.Unstructured) { p.SetUID("other") },
		"deleted":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			cluster, reads := newFakeCluster(t, objects(t)), 0
			gvr := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies)
			cluster.objects.PrependReactor("get", v1alpha1.ClusterCleanupPolicies, func(clienttesting.Action) (bool, runtime.Object, error) {
				if reads++; reads != 2 {
					return false, nil, nil
				}
				if change == nil {
					return false, nil, cluster.objects.Tracker().Delete(gvr, "", "nightly")
				}
				object, err := cluster.objects.Tracker().Get(gvr, "", "nightly")
				if err != nil {
					return true, nil, err
				}
				changed := object.(*unstructured.Unstructured).DeepCopy()
				change(changed)
				return true, changed, nil
			})
			code, stdout, stderr, sent := executeIn(t, cluster, scene{}, words("approve clustercleanuppolicy/nightly --yes --spec-hash fbf17f48946f2405e1004da9688a7e20")...)
			if code != console.ExitUsage || stdout != "" || len(sent) != 0 || reads != 2 {
				t.Errorf("exit status %d, sent %v: %s", code, sent, stdout)
			}
			if change != nil && !strings.HasSuffix(stderr, "error: clustercleanuppolicy/nightly was changed in between, and was not approved: run the command again\n") {
				t.Errorf("it says %s", stderr)
			}
		})
	}
}

// Others than Curfew may be able to write the status. A hash there that is not that of the spec
// which the user is shown is never approved.
func TestForgedHashIsNotApproved(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	cluster.changeContext(t, v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies), "", "nightly", func(forged *unstructured.Unstructured) {
		forged.SetGeneration(forged.GetGeneration() - 1) // as it was
		field("status/specHash", "ffffffffffffffffffffffffffffffff")(forged)
	})
	want := `error: status.specHash of clustercleanuppolicy/nightly is "ffffffffffffffffffffffffffffffff", but its spec has the hash "fbf17f48946f2405e1004da9688a7e20"`
	_, _, sent := expectRun(t, cluster, scene{}, "approve clustercleanuppolicy/nightly --yes --spec-hash fbf17f48946f2405e1004da9688a7e20", console.ExitUsage, want)
	expectCount(t, "requests", sent, 0)
}
