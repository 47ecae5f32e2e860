package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// TestExplainByCleanupPolicy: explain names the next run of a policy that matches an object, with
// its time and its blocker.
func TestExplainByCleanupPolicy(t *testing.T) {
	const when = "2026-12-24 19:00:00 CET, in 6h"
	for name, c := range map[string]struct {
		object  string
		edit    func(*unstructured.Unstructured)
		notMine []string
		want    []string
	}{
		"deleted": {"first", nil, nil, []string{"configmap/first in namespace attic expires " + when + ": the next run of cleanup/attic/tonight deletes it\n",
			"kubectl annotate configmap/first -n attic curfew.dev/protect=true\n", "\n   cleanup/attic/tonight   deletes it " + when + "\n"}},
		"protected": {"kept", nil, nil, []string{"stays: ", "\n   cleanup/attic/tonight   keeps it " + when + ": is protected by annotation curfew.dev/protect\n"}},
		"newest":    {"first", spec("keepNewest", map[string]any{"count": int64(1)}), nil, []string{"stays: ", "keeps it " + when + ": is one of the newest: see keepNewest\n"}},
		"limited":   {"first", spec("maxDeletions", int64(0)), nil, []string{"may be deleted " + when + ", by the next run of cleanup/attic/tonight: see below\n", "may delete it " + when + ": maxDeletions or maxPercentage of the policy may keep it\n"}},
		"unsure":    {"first", nil, []string{"impersonate serviceaccounts"}, []string{"may delete it " + when + ": you may not impersonate service account attic/janitor"}},
		"unmatched": {"later", nil, nil, []string{"stays: it has no TTL label"}},
		"idle":      {"first", spec("suspend", true), nil, []string{"stays: ", "note: these cleanup policies delete nothing as they are: cleanup/attic/tonight (suspended)\n"}},
		"unapproved": {"first", spec("approval", "Required"), nil, []string{" stays, although the next run of cleanup/attic/tonight would delete it " + when + ": the policy waits for its approval\n",
			"\n   cleanup/attic/tonight   would delete it " + when + ", but the policy waits for its approval\n"}},
		"unread":        {"first", nil, []string{"list cleanuppolicies"}, []string{" stays, as far as is known: it has no TTL label", "\n   not known: you may not list cleanuppolicies: what these delete is not known\n"}},
		"not evaluated": {"first", nil, []string{"impersonate serviceaccounts", "list configmaps"}, []string{" stays, as far as is known: ", "\n   not known: cleanup/attic/tonight: you may not list configmaps"}},
		"paused":        {"first", nil, nil, []string{" stays, although the next run of cleanup/attic/tonight would delete it " + when + ": ", "\n   cleanup/attic/tonight   would delete it " + when + ", but "}},
		"missed":        {"first", both(olderThan("6h"), policyStatus(missed)), nil, []string{" expires soon (due 2026-12-24 13:00:00 CET, 0s ago): the next run of cleanup/attic/tonight deletes it\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := append(objects(t), attic(t, c.edit)...)
			if name == "paused" {
				all = append(all, paused(t, "stop", "", ""))
			}
			stdout, _, _ := expectRun(t, newFakeCluster(t, all), scene{notMine: c.notMine}, "explain cm/"+c.object+" -n attic", console.ExitOK, c.want...)
			if matched := strings.Contains(stdout, "\nCleanup policies\n"); matched == (name == "unmatched" || name == "idle") {
				t.Errorf("lists policies: %v\n%s", matched, stdout)
			}
		})
	}
	_, stdout, _, _ := executeIn(t, newFakeCluster(t, append(objects(t), attic(t, nil)...)), scene{}, words("explain cm/first -n attic -o jsonpath={.items[0].expiry}{.items[0].trigger}{.items[0].source}{.items[0].cleanup}")...)
	if want := `2026-12-24T19:00:00+01:00cleanupcleanup/attic/tonight[{"result":"WouldDelete","run":"2026-12-24T19:00:00+01:00","source":"cleanup/attic/tonight"}]`; strings.TrimSpace(stdout) != want {
		t.Errorf("%s, want %s", stdout, want)
	}
}

// TestClusterScopedIsForClusterPolicies: policies of namespaces are not even read for an object
// that is cluster-scoped.
func TestClusterScopedIsForClusterPolicies(t *testing.T) {
	cluster := newFakeCluster(t, append(objects(t), attic(t, nil)...))
	code, stdout, stderr, _ := executeIn(t, cluster, scene{}, words("explain clusterrole/guest")...)
	read := map[string]bool{}
	for _, action := range cluster.actions() {
		read[action.GetVerb()+" "+action.GetResource().Resource] = true
	}
	if code != console.ExitOK || !read["list clustercleanuppolicies"] || read["list cleanuppolicies"] {
		t.Errorf("exit status %d after %v\n%s%s", code, read, stdout, stderr)
	}
}

// TestExplainHistoryLimits: a CronJob deletes its own Jobs, too.
func TestExplainHistoryLimits(t *testing.T) {
	unserved = append(unserved, schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"})
	defer func() { unserved = unserved[:len(unserved)-1] }()
	added := manifests(t, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: report, namespace: foo, uid: cron}, spec: {failedJobsHistoryLimit: 7}}",
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: "2026-12-24T11:00:00Z", ownerReferences: [{apiVersion: batch/v1, kind: CronJob,
			name: report, uid: cron, controller: true}]}, spec: {ttlSecondsAfterFinished: 86400}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-12-24T11:30:00Z"}]}}`)
	cluster := newFakeCluster(t, append(objects(t), added...))
	_, stdout, stderr, _ := executeIn(t, cluster, scene{}, words("explain job/a -n foo")...)
	const limits = "keeps the newest Jobs of CronJob report: successfulJobsHistoryLimit 3, failedJobsHistoryLimit 7"
	if want := "CronJob controller " + limits + "\n"; !strings.Contains(strings.Join(strings.Fields(stdout), " ")+"\n", strings.TrimSpace(want)) {
		t.Errorf("no %q in\n%s%s", want, stdout, stderr)
	}
	for line, want := range map[string]string{
		"expiring -n foo -o wide": "the CronJob controller " + limits,
		"expiring jobs -A -o jsonpath={.items[?(@.object.name=='a')].historyLimits}": limits,
		"expiring -n foo":        "",
		"expiring -n ci -o wide": "",
	} {
		cluster := newFakeCluster(t, append(objects(t), added...))
		_, stdout, stderr, _ := executeIn(t, cluster, scene{}, strings.Fields(line)...)
		lists := 0
		for _, action := range cluster.actions() {
			if list, ok := action.(clienttesting.ListAction); ok && action.GetResource().Resource == "cronjobs" && list.GetListRestrictions().Labels.Empty() {
				lists++
			}
		}
		if !strings.Contains(stdout, want) || strings.Contains(stdout, "successfulJobsHistoryLimit") != (want != "") || (lists == 1) != (want != "") {
			t.Errorf("%s: %d lists of CronJobs\n%s%s", line, lists, stdout, stderr)
		}
	}
	cluster.notMine["list cronjobs"] = true
	stdout, _, _ = expectRun(t, cluster, scene{}, "explain job/a -n foo", console.ExitOK)
	expectPart(t, "stdout", stdout, "istory", false)
}
