package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/controller/settings"
)

// TestOneKindFails: if a kind cannot be listed, as with a broken conversion webhook, a note names it
// and the other kinds are shown, unless the user named that kind. If the API server does not answer
// at all, the command prints no list.
func TestOneKindFails(t *testing.T) {
	const idle = "note: cleanup policies that delete nothing as they are: 3 (--trigger cleanup names them)\n"
	const note = "note: secrets cannot be listed, and their expiries are not known: listing secrets: Internal error occurred: no conversion\n"
	broken, unreachable := apierrors.NewInternalError(errors.New("no conversion")), errors.New("connection refused")
	for name, test := range map[string]struct {
		args   string
		fails  string // the resource
		err    error
		code   int
		rows   int
		stderr string
	}{
		"one of many":     {"expiring -n foo", "secrets", broken, console.ExitBadNews, 9, idle + note},
		"one is gone":     {"expiring -n foo", "secrets", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, ""), console.ExitOK, 9, idle},
		"the one":         {"expiring secrets -n foo", "secrets", broken, console.ExitUsage, 0, "error: listing secrets: Internal error occurred: no conversion\n"},
		"all":             {"expiring -n foo", "*", broken, console.ExitUsage, 0, ""}, // Which of them is said is a matter of chance.
		"no answer comes": {"expiring -n foo", "secrets", unreachable, console.ExitUsage, 0, "error: listing secrets: connection refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, objects(t))
			for _, fake := range []*clienttesting.Fake{&cluster.objects.Fake, &cluster.metadata.Fake} {
				fake.PrependReactor("list", test.fails, func(action clienttesting.Action) (bool, runtime.Object, error) {
					// The rows that were read before are there.
					return action.GetResource().Group != "curfew.dev" && action.GetNamespace() != "curfew-system", nil, test.err
				})
			}
			code, stdout, stderr, _ := executeIn(t, cluster, scene{}, words(test.args)...)
			if code != test.code || strings.Count(stdout, "\n") != test.rows || name != "all" && stderr != test.stderr {
				t.Errorf("exit status %d:\n%s%s", code, stdout, stderr)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t, objects(t))
		failed := false
		cluster.metadata.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			was := failed
			failed = true
			return !was, nil, broken
		})
		watch := startWatch(t, cluster, "expiring", "-n", "foo", "--trigger", "label", "--within", "1m", "--watch")
		watch.expect("EVENT NAME EXPIRES LEFT TRIGGER SOURCE BLOCKER", "NEW secret/stuck 2026-12-23 10:00:00 CET overdue 1d3h label object terminating")
		expectSame(t, "stderr", watch.said.String(), note)
		watch.end()
	})
}

// TestAliasIsAskedAbout: no request asks for Kyverno's label where the controller does not
// understand it.
func TestAliasIsAskedAbout(t *testing.T) {
	for alias, want := range map[string]string{"true": "configmap/alias\n", "false": ""} {
		lists := 2 * len(strings.Fields(want)) // of both kinds
		cluster := newFakeCluster(t, append(objects(t), manifests(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: alias, namespace: lab, uid: alias,
			creationTimestamp: "2026-12-24T09:00:00Z", labels: {cleanup.kyverno.io/ttl: 5h}}}`)...))
		cluster.changeContext(t, settings.Resource, "curfew-system", settings.Name, field("data/kyverno-label", alias))
		stdout, _, _ := expectRun(t, cluster, scene{}, "expiring configmaps,pods -n lab -o name", console.ExitOK)
		expectSame(t, alias+": stdout", stdout, want)
		asked := 0
		for _, action := range cluster.actions() {
			if list, ok := action.(clienttesting.ListAction); ok && strings.Contains(list.GetListRestrictions().Labels.String(), "kyverno") {
				asked++
			}
		}
		if asked != lists {
			t.Errorf("%s: asked %d times, want %d", alias, asked, lists)
		}
	}
}

// TestEverywhere: with -A a selection reaches beyond the namespace that the user is in.
func TestEverywhere(t *testing.T) {
	const pair = `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: %[1]s, uid: %[1]s, creationTimestamp: "2026-12-24T09:00:00Z", labels: {curfew.dev/ttl: 1d, pair: "yes"}}}`
	cluster := newFakeCluster(t, append(objects(t), manifests(t, fmt.Sprintf(pair, "foo"), fmt.Sprintf(pair, "lab"))...))
	for args, want := range map[string]int{"explain configmaps -l pair=yes -A": 2, "explain configmaps -l pair=yes -n foo": 1} {
		stdout, _, _ := expectRun(t, cluster, scene{}, args, console.ExitOK)
		expectSame(t, args+": objects", strings.Count(stdout, "configmap/one in namespace "), want)
	}
}

// TestNothingInNamespaces: a user who may list no namespaced kind gets an error, unless the command
// names a cluster-scoped kind.
func TestNothingInNamespaces(t *testing.T) {
	cluster := newFakeCluster(t, objects(t))
	cluster.mayListNothing()
	const nothing = "you may not list anything in all namespaces: give one with -n, or name kinds"
	for args, refused := range map[string]bool{"expiring -A": true, "expiring clusterroles": false, "expiring namespaces,clusterroles -A": false} {
		code, stdout, stderr, _ := executeIn(t, cluster, scene{}, words(args)...)
		if (code == console.ExitUsage) != refused || strings.Contains(stderr, nothing) != refused {
			t.Errorf("%s: exit status %d, want that it is refused: %v\n%s%s", args, code, refused, stdout, stderr)
		}
	}
	cluster.notMine["list jobs"] = false
	expectRun(t, cluster, scene{}, "expiring -A", console.ExitOK, "note: you may not list ")
}

// TestOneObjectOneRow: an OpenShift Project is a Namespace, which --protect and its own mode keep.
// The list has the Namespace, and no row that says that the Project expires.
func TestOneObjectOneRow(t *testing.T) {
	kept := func(version, kind string) runtime.Object {
		return manifests(t, "{apiVersion: "+version+", kind: "+kind+`, metadata: {name: kept, uid: namespace-kept, creationTimestamp: "2026-12-24T09:00:00Z",
			labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/mode: dry-run}}}`)[0]
	}
	served["project.openshift.io/v1"] = []metav1.APIResource{resource("projects", "Project", "", false)}
	defer delete(served, "project.openshift.io/v1")
	cluster := newFakeCluster(t, append(objects(t), kept("v1", "Namespace"), kept("project.openshift.io/v1", "Project")))
	stdout, _, _ := expectRun(t, cluster, scene{}, "expiring -A --between 14:00..16:00", console.ExitOK, "namespace/kept", "dry-run")
	expectPart(t, "stdout", stdout, "project.", false)
	_, _, sent := expectRun(t, cluster, scene{}, "expire-now project/kept", console.ExitUsage)
	expectCount(t, "requests", sent, 0)
}

// TestMeantTwice: an object that two words name is one object, which one more day makes a day
// later, and not two.
func TestMeantTwice(t *testing.T) {
	for _, args := range []string{"extend cm/demo configmap/demo --by 1d", "extend cm demo demo --by 1d", "extend cm,configmaps -l app=demo --by 1d --yes"} {
		_, _, sent := expectRun(t, newFakeCluster(t, objects(t)), scene{}, args, console.ExitOK)
		expectSame(t, args+": times sent", strings.Count(strings.Join(sent, "\n"), "default/demo "), 1)
	}
}

// TestDeadlinesOfPods: a list of deadlines has the deadlines of running Pods, too.
func TestDeadlinesOfPods(t *testing.T) {
	cluster := newFakeCluster(t, append(objects(t), manifests(t, `{apiVersion: v1, kind: Pod, metadata: {name: timed, namespace: lab, uid: timed, creationTimestamp: "2026-12-24T11:00:00Z"},
		spec: {restartPolicy: Never, activeDeadlineSeconds: 7200}, status: {phase: Running, startTime: "2026-12-24T11:00:00Z"}}`)...))
	for args, want := range map[string]string{"expiring pods -n lab -o name --trigger deadline": "pod/timed\n", "expiring pods -n lab -o name": ""} {
		stdout, _, _ := expectRun(t, cluster, scene{}, args, console.ExitOK)
		expectSame(t, args+": stdout", stdout, want)
	}
}

// TestFinishesBetweenLists: a labelled Pod that finishes while Pods are listed has one row, for its
// last state.
func TestFinishesBetweenLists(t *testing.T) {
	cluster := newFakeCluster(t, append(objects(t), manifests(t, `{apiVersion: v1, kind: Pod, metadata: {name: once, namespace: lab, uid: lab-once, creationTimestamp: "2026-12-24T11:00:00Z",
		labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/ttl-after-finished: 1h}}, spec: {restartPolicy: Never}, status: {phase: Running}}`)...))
	pods, lists := schema.GroupVersionResource{Version: "v1", Resource: "pods"}, 0
	cluster.objects.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if lists++; lists == 2 {
			cluster.changeContext(t, pods, "lab", "once", field("status", map[string]any{"phase": "Succeeded", "containerStatuses": []any{
				map[string]any{"name": "a", "state": map[string]any{"terminated": map[string]any{"finishedAt": "2026-12-24T11:59:00Z"}}},
			}}))
		}
		return false, nil, nil
	})
	stdout, _, _ := expectRun(t, cluster, scene{}, "expiring pods -n lab --no-headers", console.ExitOK)
	expectSame(t, "rows", strings.Join(strings.Fields(stdout), " "), "pod/once 2026-12-24 13:59:00 CET 59m ttl object -")
	expectSame(t, "lists", lists, 2)
}

// TestNamesOnce: an object with a label and a deadline is one name, which kubectl
// delete would miss the second time.
func TestNamesOnce(t *testing.T) {
	cluster := withObject(t, job("creationTimestamp: 2026-12-24T11:00:00Z, labels: {curfew.dev/ttl: 30d, one: name}}, spec: {activeDeadlineSeconds: 7200", ""), nil)
	stdout, _, _ := expectRun(t, cluster, scene{}, "expiring jobs -n foo -l one=name -o name", console.ExitOK)
	expectSame(t, "stdout", stdout, "job.batch/a\n")
}

// TestOneLine: control characters in an annotation never reach the terminal.
func TestOneLine(t *testing.T) {
	if have := console.OneLine("a\tb\x1b[2J\u009b2J\u0085c\u2028d\x7fé…"); have != "a b [2J 2J c d é…" {
		t.Errorf("got %q, want each control character replaced by a space", have)
	}
}

// TestHostileNames: names of RBAC objects may have any character, and so may errors of an API
// server. None controls the terminal.
func TestHostileNames(t *testing.T) {
	text := `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "a\e[2J\u009bb\nZ", uid: a, ` +
		`creationTimestamp: 2026-12-24T11:00:00Z, labels: {curfew.dev/ttl: 30d, one: name}}}`
	const cleaner = `{apiVersion: kyverno.io/v2, kind: ClusterCleanupPolicy, metadata: {name: "a\e[2J\u009bb\nZ"}, spec: {schedule: "@daily", match: {any: []}}}`
	for line, each := range map[string]scene{
		"explain clusterroles -l one=name": {}, "expiring clusterroles -l one=name": {}, "keep clusterroles -l one=name --yes": {},
		"expire-now clusterroles -l one=name": {terminal: true, stdin: "n\n"}, "convert -f -": {stdin: cleaner},
	} {
		_, stdout, stderr, _ := executeIn(t, withObject(t, text, nil), each, words(line)...)
		got := strings.ReplaceAll(stdout+stderr, "\r\x1b[K", "") // of the progress
		if !strings.Contains(got, "a [2J b Z") {
			t.Errorf("%s: the object is not shown: %q", line, got)
		}
		if strings.ContainsAny(got, "\x1b\u009b") || strings.Contains(got, "\nZ") {
			t.Errorf("%s: %q", line, got)
		}
	}
	var out bytes.Buffer
	console.PrintNotes([]string{"a\x1b[2J"}, &out)
	command := &cobra.Command{RunE: func(*cobra.Command, []string) error { return errors.New("b\x1b[2J\nc") }, SilenceErrors: true, SilenceUsage: true}
	command.SetErr(&out)
	command.SetArgs(nil)
	expectExit(t, "a command that fails", console.Run(t.Context(), command), console.ExitUsage, out.String())
	expectSame(t, "stderr", out.String(), "note: a [2J\nerror: b [2J\nerror: c\n")
}

// TestControllerHasToSee: the controller skips kinds that it may delete, but not list or watch.
// Their objects are blocked.
func TestControllerHasToSee(t *testing.T) {
	for _, verb := range []string{"watch", "get"} { // without list no user of the tests may list, either
		cluster := newFakeCluster(t, objects(t))
		cluster.notAllowed[verb+" persistentvolumeclaims"] = true
		expectRun(t, cluster, scene{}, "expiring pvc -n foo -o wide", console.ExitOK, "Curfew's controller, system:serviceaccount:curfew-system:curfew-controller, may not "+verb+" persistentvolumeclaims here")
	}
}

// thingsOf is the CustomResourceDefinition of a kind in one version.
func thingsOf(t *testing.T, version string) runtime.Object {
	t.Helper()
	return manifests(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com, uid: things}, "+
		"spec: {group: example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: "+version+", served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}, "+
		`status: {conditions: [{type: Established, status: "True"}]}}`)[0]
}

// TestProfilesWithoutEffect: the controller has code of its own for Jobs and Pods, judges other
// kinds of Kubernetes by label alone, and custom kinds by the version of their profile. A
// KindProfile for any other kind has no effect, and the list says so.
func TestProfilesWithoutEffect(t *testing.T) {
	profile := func(group, kind, resource string) string {
		return "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: " + resource + ", uid: " + resource + "}, spec: {kind: {group: '" + group + "', version: v1, kind: " + kind + ", resource: " + resource +
			`, scope: Namespaced}, state: {finished: "true", finishTime: object.metadata.creationTimestamp, outcome: "'Succeeded'"}}}`
	}
	object := func(version, kind string) string {
		return "{apiVersion: " + version + ", kind: " + kind + `, metadata: {name: one, namespace: lab, uid: one, creationTimestamp: "2026-12-24T09:00:00Z",
			annotations: {curfew.dev/ttl-after-finished: 6h}, labels: {one: "yes"}}}`
	}
	served["example.com/v2"] = []metav1.APIResource{resource("things", "Thing", "", true)}
	defer delete(served, "example.com/v2")
	for name, added := range map[string][]runtime.Object{
		"a Job that has not finished": manifests(t, object("batch/v1", "Job"), profile("batch", "Job", "jobs")),
		"a ConfigMap":                 manifests(t, object("v1", "ConfigMap"), profile("", "ConfigMap", "configmaps")),
		"an aggregated API":           manifests(t, object("example.com/v2", "Thing"), profile("example.com", "Thing", "things")),
		"another version":             append(manifests(t, object("example.com/v2", "Thing"), profile("example.com", "Thing", "things")), thingsOf(t, "v2")),
	} {
		stdout, stderr, _ := expectRun(t, newFakeCluster(t, append(objects(t), added...)), scene{}, "expiring -n lab -l one=yes -o name", console.ExitOK)
		expectSame(t, name+": stdout", stdout, "")
		expectStart(t, name+": stderr", stderr, "note: ")
	}
}
