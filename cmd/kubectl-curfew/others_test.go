package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// clusterOf is the cluster of testdata with more objects, and without cleanup policies.
func clusterOf(t *testing.T, texts ...string) *fakeCluster {
	t.Helper()
	all := slices.DeleteFunc(objects(t), func(object runtime.Object) bool {
		return strings.HasSuffix(object.GetObjectKind().GroupVersionKind().Kind, "CleanupPolicy")
	})
	for _, text := range texts {
		documents, errs := lint.Read(lint.Input{Name: "added", Data: []byte(text)}, lint.Limits{})
		if len(errs) > 0 {
			t.Fatalf("%v:\n%s", errs, text)
		}
		for _, document := range documents {
			all = append(all, runtime.Object(&unstructured.Unstructured{Object: document.Object}))
		}
	}
	return newFakeCluster(t, all)
}

// TestOthersDelete: the kind's own controller acts on the native TTL, even if something blocks
// Curfew.
func TestOthersDelete(t *testing.T) {
	const kubernetes = "Kubernetes' TTL-after-finished controller deletes it by "
	finished := func(metadata, spec, at string) string {
		return strings.Replace(job("creationTimestamp: 2026-12-24T10:00:00Z"+metadata, at), "status: {", "spec: {"+spec+"}, status: {", 1)
	}
	jobSet := "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: \"2026-12-24T10:00:00Z\", " +
		"annotations: {curfew.dev/protect: \"true\"}}, spec: {ttlSecondsAfterFinished: 7200}, " +
		"status: {conditions: [{type: Completed, status: \"True\", lastTransitionTime: \"2026-12-24T11:30:00Z\"}]}}"
	const protect = `, annotations: {curfew.dev/protect: "true"}`
	for name, test := range map[string]struct{ object, summary, row string }{
		"it is protected": {finished(protect, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z"),
			"expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it", "1h30m ttl object -"},
		"it is protected, and runs": {finished(protect, "ttlSecondsAfterFinished: 7200", ""),
			"expires 2h after it finishes: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it", ""},
		"it is protected, and has an annotation alone": {finished(`, annotations: {curfew.dev/protect: "true", curfew.dev/ttl-after-finished: 2h}`, "", "2026-12-24T11:30:00Z"),
			"stays, although it is due 2026-12-24 14:30:00 CET, in 1h30m, by its own TTL of 2h: see what blocks it", "1h30m ttl object protection"},
		"its annotation is longer": {finished(`, annotations: {curfew.dev/ttl-after-finished: 9h}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z"),
			"expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), before Curfew would", "1h30m ttl object -"},
		"its annotation is never": {finished(`, annotations: {curfew.dev/ttl-after-finished: never}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z"),
			"expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), before Curfew would", "1h30m ttl object -"},
		"its annotation cannot be read": {finished(`, annotations: {curfew.dev/ttl-after-finished: soon}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z"),
			"expires 2026-12-24 14:30:00 CET, in 1h30m: " + kubernetes + "ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it", "1h30m ttl object value"},
		"its annotation is shorter": {finished(`, annotations: {curfew.dev/ttl-after-finished: 1h}`, "ttlSecondsAfterFinished: 7200", "2026-12-24T11:30:00Z"),
			"expires 2026-12-24 13:30:00 CET, in 30m, by its own TTL of 1h", "30m ttl object -"},
		"its label is earlier, and it is protected": {finished(`, labels: {curfew.dev/ttl: 4h}`+protect, "ttlSecondsAfterFinished: 18000", "2026-12-24T11:30:00Z"),
			"expires 2026-12-24 17:30:00 CET, in 4h30m: " + kubernetes + "ttlSecondsAfterFinished 18000 (5h), whatever keeps Curfew from it", "4h30m ttl object -"},
		"Kubernetes has not deleted it": {finished(protect, "ttlSecondsAfterFinished: 60", "2026-12-24T11:30:00Z"),
			"stays, although it was due 2026-12-24 12:31:00 CET, 29m ago, by its own TTL of 1m: see what blocks it", "overdue 29m ttl object protection"},
		"a JobSet": {jobSet, "expires 2026-12-24 14:30:00 CET, in 1h30m: the JobSet's own controller deletes it by ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it",
			"1h30m ttl object -"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, what := clusterOf(t, test.object), "job/a"
			if strings.Contains(test.object, "JobSet") {
				what = "jobset/a"
			}
			code, stdout, stderr, _ := executeIn(t, cluster, scene{}, "explain", what, "-n", "foo")
			summary, _, _ := strings.Cut(stdout, "\n")
			if _, have, _ := strings.Cut(summary, " in namespace foo "); code != console.ExitOK || have != test.summary {
				t.Errorf("exit status %d: it\n%s\nwant\n%s%s", code, have, test.summary, stderr)
			}
			_, stdout, stderr, _ = executeIn(t, cluster, scene{}, words("expiring jobs,jobsets -n foo --no-headers")...)
			row := ""
			for line := range strings.Lines(stdout) {
				if fields := strings.Fields(line); strings.HasSuffix(fields[0], "/a") {
					row = strings.Join(fields[4:], " ")
				}
			}
			if row != test.row {
				t.Errorf("the row is %q, want %q\n%s", row, test.row, stderr)
			}
		})
	}
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
	for name, test := range map[string]struct {
		objects []string
		notMine []string
		want    string
	}{
		"an owner":                      {[]string{labelled("x", "5h"), owned("", "x")}, nil, "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"the last of two owners":        {[]string{labelled("x", "5h"), labelled("z", "9h"), owned("", "x", "z")}, nil, "is deleted with Secret z at 2026-12-24 20:00:00 CET, in 7h"},
		"one of two owners stays":       {[]string{labelled("x", "5h"), owner("z", ""), owned("", "x", "z")}, nil, stays},
		"one of two owners is gone":     {[]string{labelled("x", "5h"), owned("", "x", "z")}, nil, "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"all owners are gone":           {[]string{owned("", "z")}, nil, "is left to the garbage collector: its owner Secret z is gone"},
		"another one has the name":      {[]string{labelled("x", "5h"), owned("", "x=earlier")}, nil, "is left to the garbage collector: its owner Secret x is gone"},
		"its owner is protected":        {[]string{owner("x", `, labels: {curfew.dev/ttl: 5h}, annotations: {curfew.dev/protect: "true"}`), owned("", "x")}, nil, stays},
		"it is protected":               {[]string{labelled("x", "5h"), owned(`, annotations: {curfew.dev/protect: "true"}`, "x")}, nil, "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"its owner leaves it behind":    {[]string{orphaned, labelled("x", "5h"), owned("", "x")}, nil, stays},
		"so does a finalizer":           {[]string{owner("x", ", labels: {curfew.dev/ttl: 5h}, finalizers: [orphan]"), owned("", "x")}, nil, stays},
		"its owner is being deleted":    {[]string{owner("x", `, deletionTimestamp: "2026-12-24T11:00:00Z", finalizers: [foregroundDeletion]`), owned("", "x")}, nil, "is deleted with Secret x, which is being deleted"},
		"an owner of its owner":         {[]string{labelled("x", "5h"), owner("z", ", ownerReferences: [{apiVersion: v1, kind: Secret, name: x, uid: x}]"), owned("", "z")}, nil, "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"owners in a ring":              {[]string{owner("x", ", ownerReferences: [{apiVersion: v1, kind: Secret, name: x, uid: x}]"), owned("", "x")}, nil, stays},
		"its own label is earlier":      {[]string{labelled("x", "5h"), owned(", labels: {curfew.dev/ttl: 4h}", "x")}, nil, "expires 2026-12-24 15:00:00 CET, in 2h, by its label curfew.dev/ttl=4h"},
		"its own label is later":        {[]string{labelled("x", "5h"), owned(", labels: {curfew.dev/ttl: 6h}", "x")}, nil, "is deleted with Secret x at 2026-12-24 16:00:00 CET, in 3h"},
		"its owner may not be read":     {[]string{labelled("x", "5h"), owned("", "x")}, []string{"get secrets"}, stays},
		"a kind that is not known here": {[]string{strings.Replace(owned("", "x"), "apiVersion: v1, kind: Secret", "apiVersion: example.com/v1, kind: Thing", 1)}, nil, stays},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := executeIn(t, clusterOf(t, test.objects...), scene{notMine: test.notMine}, words("explain cm/a -n foo")...)
			summary, _, _ := strings.Cut(stdout, "\n")
			if _, have, _ := strings.Cut(summary, " in namespace foo "); code != console.ExitOK || have != test.want {
				t.Errorf("exit status %d: it %q, want %q\n%s", code, have, test.want, stderr)
			}
			const unknown = "not known: whether it is deleted with Secret x: you may not get secrets"
			expectPart(t, "stdout", stdout, unknown, test.notMine != nil)
		})
	}
}

// TestExpiringFollowsOwners: a row has the expiry of the Namespace or owner that is deleted first.
func TestExpiringFollowsOwners(t *testing.T) {
	object := func(kind, name, metadata string) string {
		return "{apiVersion: v1, kind: " + kind + ", metadata: {name: " + name + ", namespace: foo, uid: " + name + ", creationTimestamp: \"2026-12-24T10:00:00Z\"" + metadata + "}}"
	}
	const ownedByX = ", ownerReferences: [{apiVersion: v1, kind: Secret, name: x, uid: x}]"
	owner := object("Secret", "x", ", labels: {curfew.dev/ttl: 5h}")
	labelled := func(ttl, more string) string {
		return object("ConfigMap", "a", ", labels: {curfew.dev/ttl: "+ttl+"}"+more)
	}
	const own = "2026-12-24 17:00:00 CET 4h label object -"
	for name, test := range map[string]struct {
		objects []string
		notMine []string
		line    string
		row     string
	}{
		"an owner that goes first":  {[]string{owner, labelled("6h", ownedByX)}, nil, "", "2026-12-24 16:00:00 CET 3h owner secret/x -"},
		"an owner that goes later":  {[]string{strings.Replace(owner, "5h", "9h", 1), labelled("6h", ownedByX)}, nil, "", own},
		"an owner that stays":       {[]string{object("Secret", "x", ""), labelled("6h", ownedByX)}, nil, "", own},
		"it is protected":           {[]string{strings.Replace(owner, "5h", "9h", 1), labelled("6h", ownedByX+`, annotations: {curfew.dev/protect: "true"}`)}, nil, "", "2026-12-24 20:00:00 CET 7h owner secret/x -"},
		"an owner that is gone":     {[]string{labelled("6h", ownedByX)}, nil, "", "2026-12-24 13:00:00 CET now owner secret/x -"},
		"the Namespace":             {[]string{strings.ReplaceAll(labelled("3d", ""), "foo", "pr-42")}, nil, "", "2026-12-25 09:00:00 CET 20h owner namespace/pr-42 -"},
		"within the span":           {[]string{owner, labelled("6h", ownedByX)}, nil, " --within 3h30m", "2026-12-24 16:00:00 CET 3h owner secret/x -"},
		"an owner that is not mine": {[]string{owner, labelled("6h", ownedByX)}, []string{"get secrets"}, "", own},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := "foo"
			if name == "the Namespace" {
				namespace = "pr-42"
			}
			code, stdout, stderr, _ := executeIn(t, clusterOf(t, test.objects...), scene{notMine: test.notMine}, words("expiring cm -n "+namespace+test.line)...)
			row := ""
			for line := range strings.Lines(stdout) {
				if fields := strings.Fields(line); strings.HasSuffix(fields[0], "/a") {
					row = strings.Join(fields[1:], " ")
				}
			}
			if code != console.ExitOK || row != test.row {
				t.Errorf("exit status %d: the row is %q, want %q\n%s%s", code, row, test.row, stdout, stderr)
			}
			if said := strings.Contains(stderr, "some owners were not read"); said != (test.notMine != nil) {
				t.Errorf("notes:\n%s", stderr)
			}
			if said := strings.Contains(stderr, "Namespace pr-42 expires 2026-12-25 09:00:00 CET, and everything in it"); said != (name == "the Namespace") {
				t.Errorf("notes:\n%s", stderr)
			}
		})
	}
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
