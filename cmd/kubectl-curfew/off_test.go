package main

import (
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/controller/settings"
)

// switchedOn is the cluster of testdata with these triggers alone, and these objects.
func switchedOn(t *testing.T, triggers string, texts ...string) *fakeCluster {
	t.Helper()
	return withFlag(t, "enable", triggers, texts...)
}

// withFlag is the cluster of testdata with one flag of the controller set, and these objects.
func withFlag(t *testing.T, flag, value string, texts ...string) *fakeCluster {
	t.Helper()
	cluster := newFakeCluster(t, append(objects(t), manifests(t, texts...)...))
	cluster.changeContext(t, settings.Resource, "curfew-system", settings.Name, field("data/"+flag, value))
	return cluster
}

// A trigger that is switched off blocks its object. If another trigger is on, the row shows that
// one, even if it acts later.
func TestTriggersThatAreSwitchedOff(t *testing.T) {
	byTTL := job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 1h}", "2026-12-20T12:00:00Z")
	byLabel := secret("creationTimestamp: 2026-12-20T11:00:00Z, labels: {curfew.dev/ttl: 1h}")
	labelFirst := job("creationTimestamp: 2026-12-20T11:00:00Z, labels: {curfew.dev/ttl: 1h}, annotations: {curfew.dev/ttl-after-finished: 4d}", "2026-12-20T12:00:00Z")
	ttlFirst := job("creationTimestamp: 2026-12-20T11:00:00Z, labels: {curfew.dev/ttl: 2w}, annotations: {curfew.dev/ttl-after-finished: 1h}", "2026-12-20T12:00:00Z")
	const deadline = "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a, " +
		"creationTimestamp: \"2026-12-24T11:00:00Z\", annotations: {curfew.dev/active-deadline: 1m}}, spec: {}}"
	const off = "is switched off (--enable)"
	for name, test := range map[string]struct {
		object, enable string
		// trigger and blocker are in the row of expiring, and explained is in the output of explain.
		trigger, blocker, explained string
	}{
		"TTL on":                        {byTTL, "ttl", "ttl", "-", "was due"},
		"TTL off":                       {byTTL, "label,deadline", "ttl", "off", "trigger ttl " + off},
		"label on":                      {byLabel, "label", "label", "-", "was due"},
		"label off":                     {byLabel, "ttl,deadline", "label", "off", "trigger label " + off},
		"label first, all on":           {labelFirst, "ttl,label", "label", "-", "was due 2026-12-20"},
		"label first, but off":          {labelFirst, "ttl", "ttl", "-", "expires 2026-12-24 13:00"},
		"TTL first, but off":            {ttlFirst, "label", "label", "-", "expires 2027-01-03"},
		"both off":                      {labelFirst, "deadline", "label", "off", "trigger label " + off},
		"Curfew's deadline on":          {deadline, "deadline", "deadline", "-", "Curfew stops it"},
		"Curfew's deadline off":         {deadline, "ttl", "deadline", "off", "nothing stops it: trigger deadline " + off},
		"the deadline of a Job's own":   {strings.Replace(byTTL, "status: {", "spec: {activeDeadlineSeconds: 60}, status: {", 1), "ttl", "ttl", "-", "was due"},
		"a deadline beside another off": {deadline, "deadline,ttl", "deadline", "-", "Curfew stops it"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := switchedOn(t, test.enable, test.object)
			kind := map[string]string{byLabel: "secret", deadline: "jobset"}[test.object]
			if kind == "" {
				kind = "job"
			}
			list := "expiring " + kind + "s -n foo --within 60d -o custom-columns=N:.object.name,T:.trigger,B:.obstacles[0].kind --no-headers"
			stdout, _, _ := expectRun(t, cluster, scene{}, list, console.ExitOK)
			row := ""
			for line := range strings.Lines(stdout) {
				if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "a" {
					row = fields[1] + " " + strings.ReplaceAll(fields[2], "<none>", "-")
				}
			}
			expectSame(t, "row", row, test.trigger+" "+test.blocker)
			stdout, _, _ = expectRun(t, cluster, scene{}, "explain "+kind+"/a -n foo", console.ExitOK, test.explained)
			expectPart(t, "stdout", stdout, off, test.blocker != "-")
		})
	}
}

// expire-now sets a label, which has no effect while its trigger is switched off.
func TestExpireNowWhileLabelsAreOff(t *testing.T) {
	cluster := switchedOn(t, "ttl", secret("creationTimestamp: 2026-12-20T11:00:00Z"))
	code, _, stderr, patched := executeIn(t, cluster, scene{}, words("expire-now secret/a -n foo --yes")...)
	if code == console.ExitOK || len(patched) > 0 || !strings.Contains(stderr, "trigger label is switched off (--enable)") {
		t.Errorf("exit status %d, patches %q: %s", code, patched, stderr)
	}
}

// A Job that the controller leaves to Kubernetes is explained as such. It is not listed where
// Kubernetes has evidently not deleted it.
func TestJobsLeftToKubernetes(t *testing.T) {
	own := job("creationTimestamp: 2026-12-20T11:00:00Z", "2026-12-20T12:00:00Z")
	own = strings.Replace(own, "status: {", "spec: {ttlSecondsAfterFinished: 3600}, status: {", 1)
	unfinished := strings.Replace(job("creationTimestamp: 2026-12-20T11:00:00Z", ""), "status: {", "spec: {ttlSecondsAfterFinished: 3600}, status: {", 1)
	for object, summary := range map[string]string{
		own: "stays: its spec.ttlSecondsAfterFinished is left to Kubernetes (--leave-native-ttl)",
		unfinished: "expires 1h after it finishes: Kubernetes' TTL-after-finished controller deletes it by ttlSecondsAfterFinished 3600 (1h), " +
			"which is left to Kubernetes (--leave-native-ttl)",
	} {
		for flag, left := range map[string]bool{"false": false, "true": true} {
			cluster := withFlag(t, "leave-native-ttl", flag, object)
			code, stdout, stderr, _ := executeIn(t, cluster, scene{}, words("explain job/a -n foo")...)
			expectExit(t, "the command", code, console.ExitOK, stdout+stderr)
			expectPart(t, "stdout", stdout, summary, left)
			code, stdout, stderr, _ = executeIn(t, cluster, scene{}, words("expiring jobs -n foo --within 60d")...)
			if code != console.ExitOK || object == own && strings.Contains(stdout, "job.batch/a ") == left {
				t.Errorf("--leave-native-ttl=%s: exit status %d\n%s%s", flag, code, stdout, stderr)
			}
		}
	}
}

// Without built-in profiles, objects of a built-in kind expire by label alone.
func TestWithoutBuiltinProfiles(t *testing.T) {
	const finished = "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: \"2026-12-20T11:00:00Z\"}, " +
		"spec: {ttlSecondsAfterFinished: 3600}, status: {conditions: [{type: Completed, status: \"True\", lastTransitionTime: \"2026-12-20T12:00:00Z\"}]}}"
	for flag, listed := range map[string]bool{"true": true, "false": false} {
		code, stdout, stderr, _ := executeIn(t, withFlag(t, "builtin-profiles", flag, finished), scene{}, words("expiring jobsets -n foo --within 60d")...)
		expectExit(t, "the command", code, console.ExitOK, stdout+stderr)
		expectPart(t, "stdout", stdout, "/a ", listed)
	}
}
