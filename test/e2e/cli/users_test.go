package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"curfew.dev/curfew/policy/wellknown"
)

// developer is a kubeconfig with two contexts: "admin", and "dev" of a user who may see and edit
// one namespace, and nothing else.
func developer(t *testing.T, namespace string) string {
	t.Helper()
	kubectl(t, "create serviceaccount dev -n "+namespace)
	kubectl(t, "create rolebinding dev -n "+namespace+" --clusterrole=edit --serviceaccount="+namespace+":dev")
	token := strings.TrimSpace(kubectl(t, "create token dev -n "+namespace).stdout)
	config, err := clientcmd.LoadFromFile(suite.cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	config.AuthInfos["dev"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["admin"] = current
	config.Contexts["dev"] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: "dev", Namespace: namespace}
	config.CurrentContext = "dev"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOneNamespaceAlone: a user who may see one namespace gets answers for it, reads what they
// leave out, and can change the objects there.
func TestOneNamespaceAlone(t *testing.T) {
	w := laid(t)
	w.space(t, "tenant", nil)
	w.configMap(t, "tenant", "mine", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	kubeconfig := developer(t, "tenant")
	dev := func(text string) answer {
		t.Helper()
		return typed(t, line{text: "kubectl curfew " + text, kubeconfig: kubeconfig})
	}
	contains := func(got answer, code int, want ...string) {
		t.Helper()
		if got.code != code {
			t.Errorf("exit status %d, want %d", got.code, code)
		}
		for _, part := range want {
			if !strings.Contains(got.stdout+got.stderr, part) {
				t.Errorf("no %q in\n%s%s", part, got.stdout, got.stderr)
			}
		}
	}
	// The namespace is that of the context.
	contains(dev("expiring"), 0, "configmap/mine   2099-01-01 00:00:00 UTC", "   ?\n",
		"note: you may not get configmaps/curfew-settings and leases/curfew-controller in namespace \"curfew-system\", list deletionpauses.curfew.dev, 2 more: "+
			"what they say is not known; component tenant-view permits it")
	contains(dev("expiring configmaps,jobs"), 0, "configmap/mine")
	// Elsewhere there is nothing to see, which is not the same as nothing.
	contains(dev("expiring -A"), 2, "you may not list anything in all namespaces: give one with -n, or name kinds")
	contains(dev("expiring -n foo"), 2, `you may not list anything in namespace "foo"`)
	contains(dev("expiring secrets -n foo"), 2, `secrets is forbidden: User "system:serviceaccount:tenant:dev" cannot list resource "secrets"`)
	contains(dev("explain configmap/mine"), 0, "configmap/mine in namespace tenant expires 2099-01-01 00:00:00 UTC",
		"not known: whether Curfew's controller may delete it: you may not create subjectaccessreviews.authorization.k8s.io",
		`not known: whether and how Curfew's controller runs: you may not get configmaps/curfew-settings and leases/curfew-controller in namespace "curfew-system"`)
	contains(dev("extend configmap/mine --by 1d"), 0, "configmap/mine extended: 2099-01-02 00:00:00 UTC (was: 2099-01-01 00:00:00 UTC)")
	contains(dev("keep cm/demo -n default"), 2, `configmaps "demo" is forbidden`)
	// Another user's context in the same file.
	contains(dev("expiring --context admin -n foo deployments -o name"), 0, "deployment.apps/web\n")
	contains(dev("expiring --context nowhere"), 2, `context "nowhere" does not exist`)
	// Who may look but not touch is told so.
	kubectl(t, "delete rolebinding dev -n tenant")
	kubectl(t, "create rolebinding dev -n tenant --clusterrole=view --serviceaccount=tenant:dev")
	deadline := time.Now().Add(patience)
	for typed(t, line{text: "kubectl auth can-i patch configmaps -n tenant", kubeconfig: kubeconfig}).code == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the permission does not go")
		}
	}
	contains(dev("explain configmap/mine"), 0, "you may not change it: ask for the verb patch on configmaps")
	contains(dev("extend configmap/mine --by 1d"), 1, `error: configmap/mine in namespace tenant: configmaps "mine" is forbidden`)
}

// TestViewers: with component tenant-view a tenant sees whether something blocks an object. Two
// answers stay open: whether the controller may delete kinds that do not come with Curfew, and what
// CleanupPolicies delete.
func TestViewers(t *testing.T) {
	w := laid(t)
	w.space(t, "viewed", nil)
	w.configMap(t, "viewed", "labelled", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	w.job(t, finishedJob("viewed", "build", time.Now(), 86400))
	kubeconfig := developer(t, "viewed")
	rows := func() (out []string, notes string) {
		got := typed(t, line{text: "kubectl curfew expiring jobs,configmaps --no-headers -n viewed", kubeconfig: kubeconfig})
		for row := range strings.Lines(got.stdout) {
			fields := strings.Fields(row)
			out = append(out, fields[0]+" "+fields[len(fields)-1])
		}
		return out, got.stderr
	}
	const noCleanup = "note: you may not list cleanuppolicies: what these delete is not known\n"
	if have, notes := rows(); !slices.Equal(have, []string{"job.batch/build ?", "configmap/labelled ?"}) || strings.Count(notes, "note:") != 2 {
		t.Errorf("before: %v, %s", have, notes)
	}
	component, err := filepath.Abs("../../../manifests/components/tenant-view/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply -f "+component)
	defer kubectl(t, "delete -f "+component)
	var have []string
	var notes string
	for deadline := time.Now().Add(patience); ; {
		have, notes = rows()
		if slices.Equal(have, []string{"job.batch/build -", "configmap/labelled ?"}) && notes == noCleanup {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after: %v, %s", have, notes)
		}
	}
	kubectl(t, "annotate job build -n viewed curfew.dev/protect=true")
	kubectl(t, "patch job build -n viewed --type=merge -p "+`'{"metadata":{"annotations":{"curfew.dev/ttl-after-finished":"1d"}},"spec":{"ttlSecondsAfterFinished":null}}'`)
	if have, _ := rows(); !slices.Equal(have, []string{"job.batch/build protection", "configmap/labelled ?"}) {
		t.Errorf("protected: %v", have)
	}
}
