package main

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// TestOthersDelete: the kind's own controller acts on the native TTL, even if something blocks
// Curfew.
func TestOthersDelete(t *testing.T) {
	const kubernetes = "Kubernetes' TTL-after-finished controller deletes it by "
	finished := func(metadata, spec, instant string) string {
		return strings.Replace(job("creationTimestamp: 2026-12-24T10:00:00Z"+metadata, instant), "status: {", "spec: {"+spec+"}, status: {", 1)
	}
	jobSet := "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: \"2026-12-24T10:00:00Z\", " +
		"annotations: {curfew.dev/protect: \"true\"}}, spec: {ttlSecondsAfterFinished: 7200}, " +
		"status: {conditions: [{type: Completed, status: \"True\", lastTransitionTime: \"2026-12-24T11:30:00Z\"}]}}"
	const protect = `, annotations: {curfew.dev/protect: "true"}`
	outcomes(t, map[string]outcome{
		"it is protected": {objects: []string{finished(protect, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z")},
			summary: "expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it", row: "1h30m ttl object -"},
		"it is protected, and runs": {objects: []string{finished(protect, "ttlSecondsAfterFinished: 7200", "")},
			summary: "expires 2h after it finishes: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it", row: "none"},
		"it is protected, and has an annotation alone": {objects: []string{finished(`, annotations: {curfew.dev/protect: "true", curfew.dev/ttl-after-finished: 2h}`, "", "2026-12-24T11:30:00Z")},
			summary: "stays, although it is due 2026-12-24 14:30:00 CET, in 1h30m, by its own TTL of 2h: see what blocks it", row: "1h30m ttl object protection"},
		"its annotation is longer": {objects: []string{finished(`, annotations: {curfew.dev/ttl-after-finished: 9h}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z")},
			summary: "expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), before Curfew would", row: "1h30m ttl object -"},
		"its annotation is never": {objects: []string{finished(`, annotations: {curfew.dev/ttl-after-finished: never}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z")},
			summary: "expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), before Curfew would", row: "1h30m ttl object -"},
		"its annotation cannot be read": {objects: []string{finished(`, annotations: {curfew.dev/ttl-after-finished: soon}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z")},
			summary: "expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it", row: "1h30m ttl object value"},
		"its annotation is shorter": {objects: []string{finished(`, annotations: {curfew.dev/ttl-after-finished: 1h}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z")},
			summary: "expires 2026-12-24 13:30:00 CET, in 30m, by its own TTL of 1h", row: "30m ttl object -"},
		"its label is earlier, and it is protected": {objects: []string{finished(`, labels: {curfew.dev/ttl: 4h}`+protect, "ttlSecondsAfterFinished: 18000", "2026-12-24T11:30:00Z")},
			summary: "expires 2026-12-24 17:30:00 CET, in 4h30m: " + kubernetes + "ttlSecondsAfterFinished 18000 (5h), whatever keeps Curfew from it", row: "4h30m ttl object -"},
		"Kubernetes has not deleted it": {objects: []string{finished(protect, "ttlSecondsAfterFinished: 60", "2026-12-24T11:30:00Z")},
			summary: "stays, although it was due 2026-12-24 12:31:00 CET, 29m ago, by its own TTL of 1m: see what blocks it", row: "overdue 29m ttl object protection"},
		"a JobSet": {objects: []string{jobSet}, summary: "expires 2026-12-24 14:30:00 CET, in 1h30m: the JobSet's own controller deletes it by ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it",
			row: "1h30m ttl object -"},
	})
}

// TestCascades: an object is deleted with its Namespace, and with the last of its owners.
func TestCascades(t *testing.T) {
	owner := func(name, metadata string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {name: " + name + ", namespace: foo, uid: " + name + ", creationTimestamp: \"2026-12-24T10:00:00Z\"" + metadata + "}}"
	}
	labelled := func(name, ttl string) string { return owner(name, ", labels: {curfew.dev/ttl: "+ttl+"}") }
	owned := func(metadata string, by ...string) string {
		var references []string
		for _, each := range by {
			name, uid, ok := strings.Cut(each, "=")
			if !ok {
				uid = name
			}
			references = append(references, "{apiVersion: v1, kind: Secret, name: "+name+", uid: "+uid+"}")
		}
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: \"2026-12-24T10:00:00Z\", ownerReferences: [" +
			strings.Join(references, ", ") + "]" + metadata + "}}"
	}
	orphaned := "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: orphans, uid: orphans}, spec: {match: {kinds: [{kind: Secret}]}, propagationPolicy: Orphan}}"
	const stays = "stays: it has no TTL label, and a ConfigMap does not finish"
	outcomes(t, map[string]outcome{
		"an owner":                   {objects: []string{labelled("x", "5h"), owned("", "x")}, summary: "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"the last of two owners":     {objects: []string{labelled("x", "5h"), labelled("z", "9h"), owned("", "x", "z")}, summary: "is deleted with Secret z at 2026-12-24 20:00:00 CET, in 7h"},
		"one of two owners stays":    {objects: []string{labelled("x", "5h"), owner("z", ""), owned("", "x", "z")}, summary: stays},
		"one of two owners is gone":  {objects: []string{labelled("x", "5h"), owned("", "x", "z")}, summary: "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"all owners are gone":        {objects: []string{owned("", "z")}, summary: "is left to the garbage collector: its owner Secret z is gone"},
		"another one has the name":   {objects: []string{labelled("x", "5h"), owned("", "x=earlier")}, summary: "is left to the garbage collector: its owner Secret x is gone"},
		"its owner is protected":     {objects: []string{owner("x", `, labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/protect: "true"}`), owned("", "x")}, summary: stays},
		"it is protected":            {objects: []string{labelled("x", "5h"), owned(`, annotations: {curfew.dev/protect: "true"}`, "x")}, summary: "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"its owner leaves it behind": {objects: []string{orphaned, labelled("x", "5h"), owned("", "x")}, summary: stays},
		"so does a finalizer":        {objects: []string{owner("x", ", labels: {curfew.dev/ttl: 5h}, finalizers: [orphan]"), owned("", "x")}, summary: stays},
		"its owner is being deleted": {objects: []string{owner("x", `, deletionTimestamp: "2026-12-24T11:00:00Z", finalizers: [foregroundDeletion]`), owned("", "x")}, summary: "is deleted with Secret x, which is being deleted"},
		"an owner of its owner":      {objects: []string{labelled("x", "5h"), owner("z", ", ownerReferences: [{apiVersion: v1, kind: Secret, name: x, uid: x}]"), owned("", "z")}, summary: "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"owners in a ring":           {objects: []string{owner("x", ", ownerReferences: [{apiVersion: v1, kind: Secret, name: x, uid: x}]"), owned("", "x")}, summary: stays},
		"its own label is earlier": {objects: []string{labelled("x", "5h"), owned(", labels: {curfew.dev/ttl: 4h}", "x")}, summary: "expires 2026-12-24 15:00:00 CET, in 2h, by its label curfew.dev/ttl=4h",
			row: "2026-12-24 15:00:00 CET 2h label object -"},
		"its own label is later": {objects: []string{labelled("x", "5h"), owned(", labels: {curfew.dev/ttl: 6h}", "x")}, summary: "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h",
			row: "2026-12-24 16:00:00 CET 3h owner secret/x -"},
		"its owner may not be read":     {objects: []string{labelled("x", "5h"), owned("", "x")}, notMine: []string{"get secrets"}, says: []string{"not known: whether it is deleted with Secret x: you may not get secrets"}, summary: stays},
		"a kind that is not known here": {objects: []string{strings.Replace(owned("", "x"), "apiVersion: v1, kind: Secret", "apiVersion: example.com/v1, kind: Thing", 1)}, summary: stays},
		"labelled, and its owner stays": {objects: []string{owner("x", ""), owned(", labels: {curfew.dev/ttl: 6h}", "x")}, row: "2026-12-24 17:00:00 CET 4h label object -"},
		"labelled, and protected": {objects: []string{labelled("x", "9h"), owned(`, labels: {curfew.dev/ttl: 6h}, annotations: {curfew.dev/protect: "true"}`, "x")},
			row: "2026-12-24 20:00:00 CET 7h owner secret/x -"},
		"labelled, and its owner is gone": {objects: []string{owned(", labels: {curfew.dev/ttl: 6h}", "x")}, row: "2026-12-24 13:00:00 CET now owner secret/x -"},
		"labelled, and its owner may not be read": {objects: []string{labelled("x", "5h"), owned(", labels: {curfew.dev/ttl: 6h}", "x")}, notMine: []string{"get secrets"},
			row: "2026-12-24 17:00:00 CET 4h label object -", says: []string{"some owners were not read"}},
		"its Namespace": {objects: []string{strings.NewReplacer("Secret", "ConfigMap", "foo", "pr-42").Replace(labelled("a", "3d"))},
			row: "2026-12-25 09:00:00 CET 20h owner namespace/pr-42 -", says: []string{"Namespace pr-42 expires 2026-12-25 09:00:00 CET, and everything in it"}},
	})
	stdout, _, _ := expectRun(t, clusterOf(t, labelled("x", "5h"), owned(", labels: {curfew.dev/ttl: 6h}", "x")), scene{}, "expiring cm -n foo --within 3h30m", console.ExitOK)
	expectPart(t, "rows within a time before its own", stdout, "configmap/a", true)
}

// TestStampThatIsNotBorneOut: a value that the source of its stamp does not give, although its
// default is older than the object, has the source object.
func TestStampThatIsNotBorneOut(t *testing.T) {
	annotations := func(since time.Time) map[string]string {
		out := map[string]string{wellknown.AnnotationDefaultTTL: "9h"}
		out[wellknown.AnnotationDefaultSince] = resolution.FormatSince(since, resolution.DefaultsHash(out))
		return out
	}
	created := noon.Add(-2 * time.Hour)
	stamped := func(value string) string {
		return job("creationTimestamp: "+created.UTC().Format(time.RFC3339)+", annotations: {curfew.dev/ttl-source: namespace/foo, curfew.dev/ttl-after-finished: "+value+"}", "2026-12-24T11:30:00Z")
	}
	for name, test := range map[string]struct {
		value  string
		since  time.Time
		source string
	}{
		"as the namespace gives it":         {"9h", created.Add(-time.Hour), "namespace/foo"},
		"changed since":                     {"5h", created.Add(-time.Hour), "object"},
		"perhaps the default was different": {"5h", created.Add(time.Hour), "namespace/foo"},
	} {
		cluster := withObject(t, stamped(test.value), annotations(test.since))
		_, stdout, stderr, _ := executeIn(t, cluster, scene{}, "explain", "job/a", "-n", "foo", "-o", "jsonpath={.items[*].source}")
		if stdout != test.source {
			t.Errorf("%s: %q, want %q\n%s", name, stdout, test.source, stderr)
		}
		_, stdout, _, _ = executeIn(t, cluster, scene{}, "expiring", "jobs", "-n", "foo", "--source", test.source, "-o", "name")
		expectPart(t, name+": stdout", stdout, "job.batch/a", true)
		own := "by its own TTL of 5h"
		if _, stdout, _, _ = executeIn(t, cluster, scene{}, words("explain job/a -n foo")...); strings.Contains(stdout, own) != (test.source == "object") {
			t.Errorf("%s:\n%s", name, stdout)
		}
	}
}
