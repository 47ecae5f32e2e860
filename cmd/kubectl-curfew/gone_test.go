package main

import (
	"fmt"
	"strings"
	"testing"
)

// deletedEvent is an Event of the controller, with records of deletions.
func deletedEvent(namespace, name, records string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Event, metadata: {name: %s, namespace: %s, annotations: {curfew.dev/deleted: %q}}, reason: Deleted}", name, namespace, records)
}

// deletedIn is an Event about a namespace in which 300 objects were deleted, with one record.
func deletedIn(namespace string) string {
	records := strings.NewReplacer(`"x"`, `"another"`, `"source"`, `"total":300,"source"`).Replace("[" + byNamespace + "]")
	return strings.Replace(deletedEvent("default", "of-"+namespace, records), "reason: Deleted", "reason: Deleted, involvedObject: {kind: Namespace, name: "+namespace+"}", 1)
}

// cleanupReport is a report page about one Job.
func cleanupReport(name, result string) string {
	return fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupReport, metadata: {name: weekly-1, creationTimestamp: '2026-12-24T10:30:00Z'}, policy: {name: weekly, uid: u}, run: r, page: 1, "+
		"objects: [{group: batch, version: v1, kind: Job, resource: jobs, namespace: foo, name: %s, uid: u, resourceVersion: '1', result: %s}]}", name, result)
}

const (
	byLabel     = `{"resource":"jobs.batch","namespace":"foo","name":"x","trigger":"label","source":"object","from":"2026-12-24T11:00:00Z","to":"2026-12-24T11:00:00Z"}`
	byNamespace = `{"resource":"jobs.batch","namespace":"foo","name":"x","trigger":"ttl","source":"namespace/foo","from":"2026-12-24T10:59:00Z","to":"2026-12-24T11:00:30Z"}`
	byPolicy    = `{"resource":"jobs.batch","namespace":"foo","name":"x","trigger":"cleanup","source":"cleanup/foo/nightly","from":"2026-12-24T11:00:00Z","to":"2026-12-24T11:00:00Z"}`
	byItself    = `{"resource":"jobs.batch","namespace":"foo","name":"x","trigger":"ttl","source":"object","from":"2026-12-24T09:00:00Z","to":"2026-12-24T09:00:00Z"}`
)

// TestWhoDeletedIt: explain reads the latest record of an object that is gone from the Events. If
// there is none, it says so, and names the Events that the user may not list.
func TestWhoDeletedIt(t *testing.T) {
	const none = `error: job.batch/x does not exist in namespace "foo", and no record of its deletion by Curfew remains: ` +
		"a deletion of the last two minutes may not be recorded yet, Events are kept for an hour, and the controller's log has a line for each deletion"
	const unnamed = `error: job.batch/x does not exist in namespace "foo", and whether Curfew deleted it is not known: ` +
		"it deleted 299 objects that its Events do not name. Of many at once they name the first ten, and the controller's log has a line for each"
	const own = "job.batch/x in namespace foo does not exist: Curfew deleted it "
	for name, test := range map[string]struct {
		events  []string
		notMine []string
		args    string
		code    int
		want    string
	}{
		"by its label":              {[]string{deletedEvent("foo", "a", "["+byLabel+"]")}, nil, "job/x", 0, own + "at 2026-12-24 12:00:00 CET, 1h ago, by its TTL label\n"},
		"by its namespace":          {[]string{deletedEvent("default", "a", "["+byNamespace+"]")}, nil, "job x", 0, own + "between 2026-12-24 11:59:00 CET and 2026-12-24 12:00:30 CET, 59m30s ago, by the TTL after finished from namespace \"foo\"\n"},
		"the latest one":            {[]string{deletedEvent("foo", "a", "["+byLabel+"]"), deletedEvent("foo", "b", "["+byItself+"]")}, nil, "job/x", 0, own + "at 2026-12-24 12:00:00 CET, 1h ago, by its TTL label\n"},
		"the latest one comes last": {[]string{deletedEvent("foo", "a", "["+byItself+"]"), deletedEvent("foo", "b", "["+byLabel+"]")}, nil, "job/x", 0, own + "at 2026-12-24 12:00:00 CET, 1h ago, by its TTL label\n"},
		"another namespace":         {[]string{deletedEvent("foo", "a", "["+strings.ReplaceAll(byLabel, "foo", "ci")+"]")}, nil, "job/x", 2, none + "\n"},
		"another kind":              {[]string{deletedEvent("foo", "a", "["+strings.ReplaceAll(byLabel, "jobs.batch", "jobs.batch.volcano.sh")+"]")}, nil, "job/x", 2, none + "\n"},
		"not a record":              {[]string{deletedEvent("foo", "a", "["+byLabel)}, nil, "job/x", 2, none + "\n"},
		"after a burst":             {[]string{deletedIn("foo"), deletedIn("ci")}, nil, "job/x", 2, unnamed + "\n"},
		"the user may list none":    {[]string{deletedEvent("foo", "a", "["+byLabel+"]")}, []string{"list events"}, "job/x", 2, none + "; you may not list Events in namespace default, foo\n"},
		"by a cleanup policy":       {[]string{deletedEvent("foo", "a", "["+byPolicy+"]")}, nil, "job/x", 0, own + "at 2026-12-24 12:00:00 CET, 1h ago, by CleanupPolicy \"nightly\" of namespace \"foo\"\n"},
		"by an unknown trigger": {[]string{deletedEvent("foo", "a", "["+strings.Replace(byLabel, `"label"`, `"stuck"`, 1)+"]")},
			nil, "job/x", 0, own + "at 2026-12-24 12:00:00 CET, 1h ago, by trigger stuck\n"},
		"by a cleanup report":     {[]string{cleanupReport("x", "Deleted")}, []string{"list events"}, "job/x", 0, own + "at 2026-12-24 11:30:00 CET, 1h30m ago, by ClusterCleanupPolicy \"weekly\"\n"},
		"a report of another one": {[]string{cleanupReport("y", "Deleted")}, nil, "job/x", 2, none + "\n"},
		"a report that kept it":   {[]string{cleanupReport("x", "Kept")}, nil, "job/x", 2, none + "\n"},
		"two are asked about":     {[]string{deletedEvent("foo", "a", "["+byLabel+"]")}, nil, "job/kept job/x", 2, `error: job.batch/x does not exist in namespace "foo"` + "\n"},
		"for programs": {[]string{deletedEvent("foo", "a", "["+byLabel+"]")}, nil, "job/x -o jsonpath={.items[*].deleted.source}={.items[*].deleted.trigger}={.items[*].deleted.from}", 0,
			"object=label=2026-12-24T12:00:00+01:00"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, _ := expectRun(t, clusterOf(t, test.events...), scene{notMine: test.notMine}, "explain -n foo "+test.args, test.code)
			expectSame(t, "output", stdout+stderr, test.want)
		})
	}
}
