package main

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy/wellknown"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// withController is the cluster of testdata after a change of an object of Curfew itself. A change
// to nil removes the object.
func withController(t *testing.T, change func(*unstructured.Unstructured) *unstructured.Unstructured) *fakeCluster {
	t.Helper()
	var all []runtime.Object
	for _, object := range objects(t) {
		obj, _ := object.(*unstructured.Unstructured)
		if obj = change(obj); obj != nil {
			all = append(all, obj)
		}
	}
	return newFakeCluster(t, all)
}

// lease changes the Lease of the controller.
func lease(t *testing.T, path string, value any) *fakeCluster {
	t.Helper()
	cluster := newFakeCluster(t, objects(t))
	cluster.changeContext(t, leases, "curfew-system", "curfew-controller", field("spec/"+path, value))
	return cluster
}

// uninstalled is the cluster of testdata without Curfew. Its kinds may be served all the same.
func uninstalled(t *testing.T, served bool) *fakeCluster {
	t.Helper()
	out := withController(t, func(object *unstructured.Unstructured) *unstructured.Unstructured {
		if object.GetNamespace() == "curfew-system" || object.GroupVersionKind().Group == wellknown.Group {
			return nil
		}
		return object
	})
	if !served {
		out.discovery.Resources = slices.DeleteFunc(out.discovery.Resources, func(list *metav1.APIResourceList) bool {
			return strings.HasPrefix(list.GroupVersion, wellknown.Group+"/")
		})
	}
	return out
}

// While no controller runs, expiring and explain say so, and expire-now refuses.
func TestControllerThatDoesNotRun(t *testing.T) {
	const leads = "no replica of Curfew's controller leads: "
	for name, test := range map[string]struct {
		cluster func(t *testing.T) *fakeCluster
		scene   scene
		// blocker of each row, the message, and whether expire-now works.
		blocker, says string
		runs          bool
	}{
		"it leads":       {cluster: func(t *testing.T) *fakeCluster { return newFakeCluster(t, objects(t)) }, blocker: "-", runs: true},
		"it was killed":  {cluster: func(t *testing.T) *fakeCluster { return lease(t, "renewTime", "2026-12-24T11:59:25.000000Z") }, blocker: "controller", says: leads + "curfew-controller-0 last renewed its Lease 35s ago"},
		"it was scaled":  {cluster: func(t *testing.T) *fakeCluster { return lease(t, "holderIdentity", "") }, blocker: "controller", says: leads + "the last one ended 2s ago; ready replicas: 0 of 1"},
		"not for a user": {cluster: func(t *testing.T) *fakeCluster { return newFakeCluster(t, objects(t)) }, scene: scene{notMine: []string{"get leases", "get configmaps", "get deployments"}}, blocker: "-", says: `you may not get configmaps/curfew-settings and leases/curfew-controller in namespace "curfew-system"`, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := executeIn(t, test.cluster(t), test.scene, words("expiring pods -n foo --within 6h -o custom-columns=B:.obstacles[*].kind --no-headers")...)
			want := strings.Replace(test.blocker, "-", "<none>", 1)
			if code != console.ExitOK || strings.TrimSpace(stdout) == "" || strings.Trim(stdout, want+"\n") != "" || !strings.Contains(stderr, test.says) {
				t.Errorf("expiring: exit status %d\n%s%s", code, stdout, stderr)
			}
			code, stdout, stderr, _ = executeIn(t, test.cluster(t), test.scene, words("explain pod/once -n foo")...)
			if code != console.ExitOK || strings.Contains(stdout, "stays, although it is due") != (test.blocker == "controller") || !strings.Contains(stdout+stderr, test.says) {
				t.Errorf("explain: exit status %d\n%s%s", code, stdout, stderr)
			}
			code, _, stderr, patched := executeIn(t, test.cluster(t), test.scene, words("expire-now pod/once -n foo")...)
			if (code == console.ExitOK) != test.runs || len(patched) > 0 != test.runs || !strings.Contains(stderr, test.says) {
				t.Errorf("expire-now: exit status %d, patches %q\n%s", code, patched, stderr)
			}
			const unknown = "note: whether and how Curfew's controller runs is not known: objects are deleted once it runs and may delete them\n"
			expectPart(t, "stderr", stderr, unknown, name == "not for a user")
			// The change applies once a controller runs again.
			code, _, stderr, patched = executeIn(t, test.cluster(t), test.scene, words("extend pod/once -n foo --by 1d")...)
			expectExit(t, "the command", code, console.ExitOK, stderr)
			expectCount(t, "patches", patched, 1)
			expectPart(t, "stderr", stderr, test.says, true)
		})
	}
}

// A deadline that the kind's own controller enforces does not need Curfew's.
func TestDeadlinesWithoutController(t *testing.T) {
	cluster := lease(t, "holderIdentity", "")
	expectRun(t, cluster, scene{}, "expiring jobs -n ci --trigger deadline --no-headers", console.ExitOK, " -\n")
	const jobSet = "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a, " +
		"creationTimestamp: \"2026-12-24T11:00:00Z\", annotations: {curfew.dev/active-deadline: 2h}}, spec: {}}"
	cluster = withFlag(t, "dry-run", "false", jobSet)
	must(t, cluster.objects.Tracker().Delete(leases, "curfew-system", "curfew-controller"))
	expectRun(t, cluster, scene{}, "explain jobset/a -n foo", console.ExitOK, "nothing stops it: no replica of Curfew's controller leads")
}

// If Curfew is not installed, explain says so first. Commands that need Curfew fail, and change
// nothing.
func TestCurfewIsNotInstalled(t *testing.T) {
	for served, why := range map[bool]string{
		false: "Curfew is not installed in this cluster: the API server serves no kind of group curfew.dev",
		true:  `Curfew does not run in namespace "curfew-system", which has no Lease curfew-controller and no ConfigMap curfew-settings; --curfew-namespace names another`,
	} {
		for _, line := range []string{"expiring -A", "expiring -A --watch", "extend pod/once -n foo --by 1d", "expire-now pod/once -n foo", "keep pod/once -n foo"} {
			code, stdout, stderr, patched := executeIn(t, uninstalled(t, served), scene{}, words(line)...)
			expectExit(t, line, code, console.ExitUsage, stdout+stderr)
			expectSame(t, line+": stdout", stdout, "")
			expectSame(t, line+": stderr", stderr, "error: "+why+"\n")
			expectCount(t, line+": patches", patched, 0)
		}
		_, stderr, _ := expectRun(t, uninstalled(t, served), scene{}, "explain pod/once -n foo", console.ExitOK, "stays, although it is due", "   controller   "+why)
		expectStart(t, "stderr", stderr, "note: "+why)
	}
}

// explain says so if the controller does not know all objects of the kind.
func TestKindThatIsNotAllKnown(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	cluster.changeContext(t, settings.Resource, "curfew-system", settings.Name, func(object *unstructured.Unstructured) {
		field("data/report", `{"incomplete":[{"group":"batch","kind":"Job","since":"2026-12-24T11:50:00Z"}],"incompleteKinds":1}`)(object)
		field("data/reported-at", "2026-12-24T11:59:00Z")(object)
	})
	const says = "not known: whether Curfew's controller knows it: not all jobs.batch have been known to it since 2026-12-24T11:50:00Z"
	for line, want := range map[string]bool{"explain job/build -n ci": true, "explain cm/demo": false} {
		stdout, _, _ := expectRun(t, cluster, scene{}, line, console.ExitOK)
		expectPart(t, line+": stdout", stdout, says, want)
	}
}
