package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/lint"
)

// manifests are the objects of YAML texts.
func manifests(t testing.TB, texts ...string) []runtime.Object {
	t.Helper()
	var out []runtime.Object
	for _, text := range texts {
		documents, errs := lint.Read(lint.Input{Name: "added", Data: []byte(text)}, lint.Limits{})
		if len(errs) > 0 {
			t.Fatalf("%v:\n%s", errs, text)
		}
		for _, document := range documents {
			out = append(out, &unstructured.Unstructured{Object: document.Object})
		}
	}
	return out
}

// clusterOf is the cluster of testdata with more objects, and without cleanup policies.
func clusterOf(t testing.TB, texts ...string) *fakeCluster {
	t.Helper()
	all := slices.DeleteFunc(objects(t), func(object runtime.Object) bool {
		return strings.HasSuffix(object.GetObjectKind().GroupVersionKind().Kind, "CleanupPolicy")
	})
	return newFakeCluster(t, append(all, manifests(t, texts...)...))
}

// outcome is an object, and what explain and expiring say about it.
type outcome struct {
	objects []string // manifests beside testdata; the last one is asked about
	args    string   // KIND/NAME and -n of an object of testdata, instead of objects
	notMine []string
	summary string   // what explain says first, behind the name
	says    []string // parts of what either prints
	lacks   []string // parts that explain does not print
	row     string   // how the row of expiring ends; "none": there is none
}

func (o outcome) check(t *testing.T) {
	t.Helper()
	s, what, namespace, kind := scene{notMine: o.notMine}, o.args, "foo", "pods"
	if o.args == "" {
		last, _ := manifests(t, o.objects[len(o.objects)-1])[0].(*unstructured.Unstructured)
		kind, namespace = strings.ToLower(last.GetKind()), last.GetNamespace()
		what = fmt.Sprint(kind, "/", last.GetName(), " -n ", namespace)
	}
	code, explained, stderr, _ := executeIn(t, clusterOf(t, o.objects...), s, words("explain "+what)...)
	summary, _, _ := strings.Cut(explained, "\n")
	if _, have, _ := strings.Cut(summary, " in namespace "+namespace+" "); code != console.ExitOK || have != cmp.Or(o.summary, have) {
		t.Errorf("exit status %d: it\n%s\nwant\n%s\n%s", code, have, o.summary, stderr)
	}
	code, stdout, notes, _ := executeIn(t, clusterOf(t, o.objects...), s, words("expiring "+kind+" --no-headers --within 90d -n "+namespace)...)
	row := "none"
	for line := range strings.Lines(stdout) {
		if fields := strings.Fields(line); strings.HasSuffix(fields[0], "/a") {
			row = strings.Join(fields, " ")
		}
	}
	if code != console.ExitOK || !strings.HasSuffix(row, o.row) {
		t.Errorf("exit status %d: the row is %q, want %q\n%s", code, row, o.row, notes)
	}
	for _, part := range o.says {
		expectPart(t, "output", explained+stderr+notes, part, true)
	}
	for _, part := range o.lacks {
		expectPart(t, "explanation", explained, part, false)
	}
}

// outcomes checks each of a table.
func outcomes(t *testing.T, all map[string]outcome) {
	t.Helper()
	for name, test := range all {
		t.Run(name, test.check)
	}
}

// expectRun runs a command line, and wants an exit status and parts of the output.
func expectRun(t *testing.T, cluster *fakeCluster, s scene, line string, code int, parts ...string) (stdout, stderr string, sent []string) {
	t.Helper()
	have, stdout, stderr, sent := executeIn(t, cluster, s, words(line)...)
	expectExit(t, line, have, code, stdout+stderr)
	for _, part := range parts {
		expectPart(t, line, stdout+stderr, part, true)
	}
	return stdout, stderr, sent
}
