package main

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/v1alpha1"
)

func init() {
	maps.Copy(clusterGoldens, map[string]golden{
		"report":            {args: words("report nightly")},
		"report-wide":       {args: words("report nightly -o wide")},
		"report-json":       {args: words("report nightly -o json")},
		"report-earlier":    {args: words("report nightly --run 20261223-0200-5f0f4c1e -o wide")},
		"report-columns":    {args: words("report nightly --run 20261223-0200-5f0f4c1e -o custom-columns=NAME:.object.name,RESULT:.result")},
		"report-running":    {args: words("report cup/config -n foo -o wide --no-headers")},
		"report-no-run":     {args: words("report clustercleanuppolicies.curfew.dev/fresh"), code: 2},
		"report-suspended":  {args: words("report cleanuppolicy/fresh"), code: 2},
		"report-absent-run": {args: words("report nightly --run 20261222-0200-5f0f4c1e"), code: 2},
		"report-two-kinds":  {args: words("report fresh"), code: 2},
		"report-other-kind": {args: words("report job/build"), code: 2},
		"report-missing":    {args: words("report weekly"), code: 2},
		"report-elsewhere":  {args: words("report cup/config"), code: 2},
		"report-nothing":    {args: words("report"), code: 2},
		"report-no-names":   {args: words("report nightly -o name"), code: 2},
		"report-forbidden":  {args: words("report nightly"), scene: scene{notMine: []string{"list clustercleanupreports"}}, code: 2},
		"report-unreadable": {args: words("report nightly"), scene: scene{notMine: []string{"get clustercleanuppolicies", "get cleanuppolicies"}}, code: 2},

		"approve":           {args: words("approve nightly --yes")},
		"approve-asked":     {args: words("approve nightly"), scene: scene{terminal: true, stdin: "y\n"}},
		"approve-declined":  {args: words("approve nightly"), scene: scene{terminal: true, stdin: "\n"}, code: 1},
		"approve-unasked":   {args: words("approve nightly"), code: 2},
		"approve-unseen":    {args: words("approve clustercleanuppolicy/fresh -y")},
		"approve-again":     {args: words("approve config -n foo -y")},
		"approve-edited":    {args: words("approve edited -y"), code: 2},
		"approve-broken":    {args: words("approve broken -y"), code: 2},
		"approve-may-not":   {args: words("approve nightly -y"), scene: scene{notMine: []string{"list deployments"}}},
		"approve-forbidden": {args: words("approve nightly -y"), scene: scene{notMine: []string{"create clustercleanupapprovals"}}, code: 2},
	})
}

// A policy that changed after the user saw it is not approved.
func TestApprovesWhatWasShown(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"edited":        func(p *unstructured.Unstructured) { p.SetGeneration(3) },
		"created again": func(p *unstructured.Unstructured) { p.SetUID("other") },
		"deleted":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			cluster, reads := newFakeCluster(t, objects(t)), 0
			at := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies)
			cluster.objects.PrependReactor("get", v1alpha1.ClusterCleanupPolicies, func(clienttesting.Action) (bool, runtime.Object, error) {
				if reads++; reads != 2 {
					return false, nil, nil
				}
				if change == nil {
					return false, nil, cluster.objects.Tracker().Delete(at, "", "nightly")
				}
				object, err := cluster.objects.Tracker().Get(at, "", "nightly")
				if err != nil {
					return true, nil, err
				}
				changed := object.(*unstructured.Unstructured).DeepCopy()
				change(changed)
				return true, changed, nil
			})
			code, stdout, stderr, sent := executeIn(t, cluster, scene{}, words("approve clustercleanuppolicy/nightly --yes")...)
			if code != console.ExitUsage || stdout != "" || len(sent) != 0 || reads != 2 {
				t.Errorf("exit status %d, sent %v: %s", code, sent, stdout)
			}
			if change != nil && !strings.HasSuffix(stderr, "error: clustercleanuppolicy/nightly was changed in between, and was not approved: run the command again\n") {
				t.Errorf("it says %s", stderr)
			}
		})
	}
}

// Completion suggests policies of the namespace and of the cluster, or policies of the kind that
// was typed.
func TestPoliciesAreCompleted(t *testing.T) {
	for typed, want := range map[string]string{
		"report -n foo |":          "config broken edited fresh nightly",
		"approve ni|":              "nightly",
		"report ccup/|":            "ccup/broken ccup/edited ccup/fresh ccup/nightly",
		"report cleanuppolicy/fr|": "cleanuppolicy/fresh",
		"report nightly |":         "",
		"report gadget/|":          "",
	} {
		args := append([]string{"__complete"}, words(strings.TrimSuffix(typed, "|"))...)
		if strings.HasSuffix(typed, " |") {
			args = append(args, "")
		}
		_, stdout, _, _ := execute(t, scene{}, args...)
		suggested, _, _ := strings.Cut(stdout, ":")
		if have := strings.Join(strings.Fields(suggested), " "); have != want {
			t.Errorf("%s: %s, want %s", typed, have, want)
		}
	}
}

// Others than Curfew may be able to write the status. A hash there that is not that of the spec
// which the user is shown is never approved.
func TestForgedHashIsNotApproved(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	at := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies)
	object, err := cluster.objects.Tracker().Get(at, "", "nightly")
	if err != nil {
		t.Fatal(err)
	}
	forged := object.(*unstructured.Unstructured).DeepCopy()
	if err := unstructured.SetNestedField(forged.Object, "ffffffffffffffffffffffffffffffff", "status", "specHash"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.objects.Tracker().Update(at, forged, ""); err != nil {
		t.Fatal(err)
	}
	code, _, stderr, sent := executeIn(t, cluster, scene{}, words("approve clustercleanuppolicy/nightly --yes")...)
	want := `error: status.specHash of clustercleanuppolicy/nightly is "ffffffffffffffffffffffffffffffff", but its spec has the hash "fbf17f48946f2405e1004da9688a7e20"`
	expectExit(t, "the command", code, console.ExitUsage, stderr)
	expectCount(t, "requests", sent, 0)
	expectPart(t, "stderr", stderr, want, true)
}
