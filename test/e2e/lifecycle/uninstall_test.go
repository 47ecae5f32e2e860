package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// What people have: of Curfew's kinds, and their own.
const curfews = `
{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: nightly}, spec: {match: {kinds: [{group: batch, kind: Job}]}, defaults: {ttl: {value: 90d}}}}
---
{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: nightly}, spec: {schedule: "0 2 1 1 *",
  matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}]}, conditions: [{name: never, expression: "false"}]}}
---
{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: builds, namespace: ci}, spec: {selector: {matchLabels: {app: build}}}}
`

const peoples = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: demo, namespace: ci, labels: {curfew.dev/ttl: 9d}, annotations: {curfew.dev/protect: "true"}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: hello, namespace: ci}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
`

// tallied is a Pod that PodTally builds counts.
func tallied(name, namespace string, held bool) string {
	annotations := ""
	if held {
		annotations = hold + `: "true"`
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: build}, annotations: {%s}}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: c, image: i}]}}", name, namespace, annotations)
}

// use creates what people have, and waits until Curfew has done its part.
func (f *fixture) use() {
	f.Helper()
	f.ok(suite.cluster.NewNamespace(f.ctx, "ci", map[string]string{wellknown.AnnotationDefaultTTL: "1h"}))
	f.kubectl(curfews, "create", "-f", "-")
	f.kubectl(peoples, "create", "-f", "-")
	f.await("the PodTally to be in use", func(ctx context.Context) (bool, error) {
		namespace, err := suite.cluster.Client.CoreV1().Namespaces().Get(ctx, "ci", metav1.GetOptions{})
		return err == nil && namespace.Labels[wellknown.LabelPodsInUse] != "", err
	})
	f.kubectl(tallied("done", "ci", false)+"\n---\n"+tallied("held", "ci", true), "create", "-f", "-")
	f.awaitTally("1 1")
	f.kubectl("", "wait", "job/hello", "-n", "ci", "--for=condition=Complete", "--timeout=10m")
}

// awaitTally waits until PodTally builds says so many active and succeeded Pods.
func (f *fixture) awaitTally(want string) {
	f.Helper()
	f.await("PodTally to say "+want, func(ctx context.Context) (bool, error) {
		output, _, err := suite.cluster.Kubectl(ctx, "get", "podtally", "builds", "-n", "ci", "-o", "jsonpath={.status.active} {.status.succeeded}{.status.uncountedTerminatedPods}")
		return output == want, err
	})
}

// written has the spec, annotations and labels of people's objects.
func (f *fixture) written() string {
	f.Helper()
	out, _ := f.kubectl("", "get", "namespace/ci", "-o", `go-template={{.metadata.labels}} {{.metadata.annotations}}{{"\n"}}`)
	more, _ := f.kubectl("", "get", "cm/demo", "job/hello", "-n", "ci", "-o",
		`go-template={{range .items}}{{.metadata.labels}} {{.metadata.annotations}} {{.spec}}{{"\n"}}{{end}}`)
	return out + more
}

func (f *fixture) finalizers(pod string) []string {
	f.Helper()
	p, err := suite.cluster.Client.CoreV1().Pods("ci").Get(f.ctx, pod, metav1.GetOptions{})
	f.ok(err)
	return p.Finalizers
}

// With the controller running: a dry run and a refusal remove nothing. After a removal and the
// commands that it prints, the cluster is as it was before, with people's objects as they are.
func TestUninstall(t *testing.T) {
	f := newFixture(t)
	f.start(suite.cluster)
	f.use()
	with, written := f.all(), f.written()
	if have := f.finalizers("held"); !slices.Contains(have, wellknown.FinalizerTally) {
		t.Fatalf("the Pod has finalizers %v", have)
	}

	plan, warning := f.kubectl("", "curfew", "uninstall", "--dry-run")
	f.says(warning, "kubectl delete -f install.yaml -l app.kubernetes.io/name=curfew --ignore-not-found")
	f.says(plan, "mutatingwebhookconfiguration.admissionregistration.k8s.io/curfew deleted (server dry run)\n", "1 pod released",
		"clusterrolebinding.rbac.authorization.k8s.io/curfew-controller deleted (server dry run)\n")
	f.says(f.refused("curfew", "uninstall"), "stdin is not a terminal; pass --yes")
	f.kubectl(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list]}]}`, "create", "-f", "-")
	f.kubectl("", "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=ann")
	f.await("ann's role", func(ctx context.Context) (bool, error) {
		_, _, err := suite.cluster.Kubectl(ctx, "auth", "can-i", "list", "secrets", "-A", "--as=ann")
		return err == nil, nil
	})
	f.says(f.refused("curfew", "uninstall", "--yes", "--as=ann"), "nothing was removed", "deleting clusterrolebinding.rbac.authorization.k8s.io/curfew-controller", "releasing Pod held in namespace ci")
	f.kubectl("", "delete", "clusterrole/reader", "clusterrolebinding/reader")
	f.same("nothing was removed yet", with, f.all())

	done, output := f.kubectl("", "curfew", "uninstall", "--yes")
	if done != strings.ReplaceAll(plan, " (server dry run)", "") {
		t.Errorf("the dry run says\n%s\nand the removal\n%s", plan, done)
	}
	f.says(output, "Nothing of Curfew blocks anything. Left: ", "kubectl delete -f install.yaml -l app.kubernetes.io/name=curfew --ignore-not-found")
	f.removeRest()
	f.kubectl("", "get", "lifecyclepolicy/nightly", "clustercleanuppolicy.curfew.dev/nightly")
	f.last()
	f.kubectl("", "delete", "namespace", harness.Namespace, "--timeout=10m")
	f.same("after it was uninstalled", suite.bare, withoutPeoples(f.all()))
	if after := f.written(); after != written {
		t.Errorf("people's objects say\n%s\nand said\n%s", after, written)
	}
	if have := f.finalizers("held"); len(have) > 0 {
		t.Errorf("the Pod has finalizers %v", have)
	}
	f.kubectl("", "delete", "pod", "held", "-n", "ci", "--timeout=10m")
	_, output = f.kubectl("", "curfew", "uninstall")
	f.says(output, "Curfew is not installed")
}

// withoutPeoples is an inventory without namespace ci.
func withoutPeoples(all map[string]bool) map[string]bool {
	maps.DeleteFunc(all, func(name string, _ bool) bool {
		return name == "namespaces ci" || strings.Contains(name, " ci/")
	})
	return all
}

// With Curfew killed: Pods that are deleted already, and a namespace that is, wait for a finalizer
// that only Curfew would remove.
func TestUninstallWithoutCurfew(t *testing.T) {
	f := newFixture(t)
	f.start(suite.cluster)
	f.use()
	f.kubectl(tallied("deleted", "ci", true), "create", "-f", "-")
	f.awaitTally("2 1")
	f.ok(f.controller.Kill())
	f.ok(f.webhook.Kill())
	pods := suite.cluster.Client.CoreV1().Pods("ci")
	f.ok(pods.Delete(f.ctx, "deleted", metav1.DeleteOptions{}))
	f.kubectl("", "delete", "namespace", "ci", "--wait=false")
	f.await("the Pods to be deleted with the namespace", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "held", metav1.GetOptions{})
		return err == nil && pod.DeletionTimestamp != nil, err
	})
	f.kubectl("", "curfew", "uninstall", "--yes")
	f.await("the namespace to be gone", func(ctx context.Context) (bool, error) {
		_, err := suite.cluster.Client.CoreV1().Namespaces().Get(ctx, "ci", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// Policies and counts are there when Curfew is installed again, and no Pod is counted twice (S7).
func TestUninstallKeepsCRDs(t *testing.T) {
	f := newFixture(t)
	f.start(suite.cluster)
	f.use()
	f.kubectl("", "curfew", "uninstall", "--yes")
	f.removeRest()
	kept := []string{"customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"}
	for _, name := range harness.Added(suite.bare, withoutPeoples(f.all())) {
		kind, object, _ := strings.Cut(name, " ")
		inside := object == harness.Namespace || strings.HasPrefix(object, harness.Namespace+"/")
		if !inside && !slices.Contains(kept, kind) && !strings.HasSuffix(kind, "curfew.dev") {
			t.Errorf("%s is left", name)
		}
	}
	if have := f.finalizers("held"); len(have) > 0 {
		t.Errorf("the Pod has finalizers %v", have)
	}
	f.ok(f.controller.Kill())
	f.ok(f.webhook.Kill())

	f.start(suite.cluster)
	f.await("the Pod to be adopted again", func(context.Context) (bool, error) { return len(f.finalizers("held")) > 0, nil })
	f.awaitTally("1 1")
	f.kubectl("", "get", "lifecyclepolicy/nightly", "clustercleanuppolicy.curfew.dev/nightly")
}

// Deployments and their Pods, in a namespace with something else, as Helm leaves them.
func TestUninstallDeployments(t *testing.T) {
	f := newFixture(t)
	base := filepath.Join(suite.root, "manifests", "base")
	f.kubectl("", "apply", "-k", base)
	f.kubectl("", "create", "configmap", "mine", "-n", harness.Namespace)
	f.kubectl("", "create", "rolebinding", "mine", "-n", "default", "--clusterrole=view", "--serviceaccount=curfew-system:curfew-controller")
	f.kubectl("", "annotate", "serviceaccounts", "--all", "-n", harness.Namespace, "meta.helm.sh/release-name=curfew", "meta.helm.sh/release-namespace=curfew-system")
	f.kubectl("", "wait", "deployments", "--all", "-n", harness.Namespace, "--for=condition=Available", "--timeout=10m")

	f.says(f.refused("curfew", "uninstall", "--yes", "--curfew-namespace", "elsewhere"), "--curfew-namespace curfew-system")
	_, output := f.kubectl("", "curfew", "uninstall", "--yes")
	f.says(output, "Nothing of Curfew blocks anything", "\n  helm uninstall curfew -n curfew-system\n")
	f.kubectl("", "delete", "-k", base, "-l", "app.kubernetes.io/name=curfew", "--ignore-not-found")
	f.last()
	want := []string{"configmaps curfew-system/kube-root-ca.crt", "configmaps curfew-system/mine", "namespaces curfew-system",
		"rolebindings.rbac.authorization.k8s.io default/mine", "serviceaccounts curfew-system/default"}
	if left := harness.Added(suite.bare, f.all()); !slices.Equal(left, want) {
		t.Errorf("%q is left, want %q", left, want)
	}
	f.kubectl("", "delete", "rolebinding", "mine", "-n", "default")
}
