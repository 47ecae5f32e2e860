package cli

import (
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

const forServer = `apiVersion: batch/v1
kind: Job
metadata:
  name: long
  namespace: linted
spec:
  ttlSecondsAfterFinished: 864000
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: fine
  namespace: linted
  annotations:
    curfew.dev/ttl: 1d
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: not-there
  annotations:
    curfew.dev/defualt-ttl: 1d
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  namespace: not-there
`

// TestLintServer: the API server judges by the cluster's own namespaces, findings have their lines,
// and nothing is changed.
func TestLintServer(t *testing.T) {
	laid(t).space(t, "linted", map[string]string{wellknown.AnnotationDefaultTTL: "1d12h", wellknown.AnnotationMaxTTL: "7d"})
	got := typed(t, line{text: "kubectl curfew lint --server -f - -o wide", stdin: forServer})
	if got.code != 1 || got.stderr != "4 objects: 1 error, 3 warnings, 1 default\n" {
		t.Errorf("exit status %d: %s", got.code, got.stderr)
	}
	var rows []string
	for row := range strings.Lines(got.stdout) {
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	want := []string{
		"WHERE SEVERITY OBJECT RULE MESSAGE",
		`-:7 error Job linted/long server spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "linted": use 7d or less`,
		"-:16 warning Job linted/fine server metadata.annotations[curfew.dev/ttl]: is a label, and has no effect as an annotation: set metadata.labels[curfew.dev/ttl], or annotation curfew.dev/ttl-after-finished",
		"-:25 warning Namespace not-there server metadata.annotations[curfew.dev/defualt-ttl]: is not a key of Curfew, and has no effect: did you mean annotation curfew.dev/default-ttl?",
		`-:31 warning ConfigMap not-there/a known-namespace metadata.namespace: namespace "not-there" does not exist yet: not checked; create it first`,
		`-:10 default Job linted/fine - ttlSecondsAfterFinished defaulted to 129600 (1d12h) from namespace "linted"`,
	}
	if have := strings.Join(rows, "\n"); have != strings.Join(want, "\n") {
		t.Errorf("have\n%s\nwant\n%s", have, strings.Join(want, "\n"))
	}
	for _, absent := range []string{"job/long -n linted", "job/fine -n linted", "namespace/not-there"} {
		if got := typed(t, line{text: "kubectl get " + absent}); got.code == 0 {
			t.Errorf("%s was created", absent)
		}
	}
}
