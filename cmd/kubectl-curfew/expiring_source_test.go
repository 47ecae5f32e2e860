package main

import (
	"strings"
	"testing"
)

// TestValueOutsideItsBounds: Curfew keeps such a Job, and the Job controller deletes it. The row
// names the bound.
func TestValueOutsideItsBounds(t *testing.T) {
	cluster := clusterOf(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: long, namespace: ci, uid: long, creationTimestamp: "2026-12-24T10:00:00Z"}, spec: {ttlSecondsAfterFinished: 864000},
  status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-12-24T11:00:00Z"}]}}`)
	_, stdout, _, _ := executeIn(t, cluster, scene{}, words("expiring jobs -n ci -o wide")...)
	if _, short, _, _ := executeIn(t, cluster, scene{}, words("expiring jobs -n ci --no-headers")...); !strings.HasSuffix(strings.Split(short[strings.Index(short, "job.batch/long"):], "\n")[0], " value") {
		t.Errorf("no blocker in\n%s", short)
	}
	told := 0
	for line := range strings.Lines(stdout) {
		if strings.Contains(line, "above curfew.dev/max-ttl 7d") {
			told++
		}
		if strings.HasPrefix(line, "job.batch/long ") != strings.Contains(line, "above curfew.dev/max-ttl 7d") {
			t.Errorf("the bound must be in the row of job.batch/long, and in no other: %s", line)
		}
	}
	if told != 1 {
		t.Errorf("told %d times:\n%s", told, stdout)
	}
}
