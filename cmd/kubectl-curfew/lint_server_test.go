package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

const serverManifests = `apiVersion: batch/v1
kind: Job
metadata:
  name: denied
  namespace: ci
spec:
  ttlSecondsAfterFinished: 864000
---
{apiVersion: batch/v1, kind: Job, metadata: {name: filled, resourceVersion: "7"}}
---
{apiVersion: batch/v1, kind: Job, metadata: {generateName: made-, namespace: ci}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: nowhere, namespace: absent}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: secret, namespace: ci}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {name: unknown}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: new}}
`

// TestLintServerUnknownField: the API server reports unknown fields of an apply as an internal
// error, in the words of structured-merge-diff.
func TestLintServerUnknownField(t *testing.T) {
	const (
		prefix   = "failed to create typed patch object (ci/filled; batch/v1, Kind=Job): "
		manifest = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: filled, namespace: ci}\nspec:\n  a: 1\n  b: 2\n"
		unknown  = "unknown field: remove it, or correct its name"
	)
	for message, want := range map[string][]string{
		prefix + ".spec.a: field not declared in schema":                                                     {"5 spec.a " + unknown},
		prefix + "errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema": {"5 spec.a " + unknown, "6 spec.b " + unknown},
		prefix + ".spec.b: expected string, got &{2}":                                                        {"6 spec.b expected string, got &{2}"},
		prefix + "of no known form":                                                                          {"1 <none> " + prefix + "of no known form"},
	} {
		cluster, _ := server(t, false)
		cluster.objects.PrependReactor("patch", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
		})
		code, stdout, stderr, _ := executeIn(t, cluster, scene{stdin: manifest}, "lint", "--server", "-f", "-", "-o", "custom-columns=L:.line,F:.field,M:.message", "--no-headers")
		var have []string
		for line := range strings.Lines(stdout) {
			have = append(have, strings.Join(strings.Fields(line), " "))
		}
		if code != console.ExitBadNews || !slices.Equal(have, want) {
			t.Errorf("%s: exit status %d, %s\nhave %q\nwant %q", message, code, stderr, have, want)
		}
	}
}

// server is an API server that answers by the name of the object, and never changes anything.
func server(t *testing.T, broken bool) (cluster *fakeCluster, asked *[]string) {
	t.Helper()
	cluster, asked = newFakeCluster(t, objects(t)), new([]string)
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "admission webhook denied the request: all of it",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec.ttlSecondsAfterFinished", Message: "864000 is too long"}}}}}
	answer := func(name, namespace string, dryRun []string) (bool, runtime.Object, error) {
		*asked = append(*asked, namespace+"/"+name)
		if !slices.Equal(dryRun, []string{metav1.DryRunAll}) {
			t.Errorf("%s would be changed: dry run %v", name, dryRun)
		}
		job := schema.GroupResource{Group: "batch", Resource: "jobs"}
		switch {
		case broken:
			return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
		case name == "denied":
			return true, nil, denied
		case name == "nowhere":
			return true, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), namespace)
		case name == "secret":
			return true, nil, apierrors.NewForbidden(job, name, errors.New("jane cannot patch it"))
		case name == "filled":
			cluster.warn.HandleWarningHeader(299, "", `curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "ci"`)
			cluster.warn.HandleWarningHeader(299, "", "curfew: metadata.annotations[curfew.dev/ttl]: is a label: use it: as one")
			cluster.warn.HandleWarningHeader(299, "", "curfew: see: kubectl curfew explain rule/label-as-annotation")
			cluster.warn.HandleWarningHeader(299, "", "batch/v1 Job is getting old")
		}
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	}
	cluster.objects.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, _ := action.(clienttesting.PatchActionImpl)
		if strings.Contains(string(patch.GetPatch()), "resourceVersion") {
			t.Errorf("%s is asked about in a state that may be past", patch.GetName())
		}
		return answer(patch.GetName(), patch.GetNamespace(), patch.PatchOptions.DryRun)
	})
	cluster.objects.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, _ := action.(clienttesting.CreateActionImpl)
		return answer("(created)", create.GetNamespace(), create.CreateOptions.DryRun)
	})
	cluster.objects.PrependReactor("create", "jobs", cluster.canary)
	return cluster, asked
}

// TestWebhookIsNotCalled: lint --server then fails for each namespace, and explain -f says that
// nothing is filled in. If the answer is not known, both say so and go on.
func TestWebhookIsNotCalled(t *testing.T) {
	const (
		job      = "{apiVersion: batch/v1, kind: Job, metadata: {name: filled, namespace: NS}}"
		unknown  = "whether the API server calls Curfew's webhook is not known: "
		silent   = "the API server does not call Curfew's webhook for namespace \"ci\": not checked"
		nothing  = "note: the API server does not call Curfew's webhook for namespace \"ci\": nothing is filled in or rejected until it does"
		leftOut  = " is protected or Curfew's own, which may be left out"
		anothers = "images must have a digest"
	)
	var many []string
	for n := range 12 {
		many = append(many, strings.Replace(job, "NS", fmt.Sprint("ns-", n), 1))
	}
	const namespaced = "{apiVersion: v1, kind: Namespace, metadata: {name: new}}"
	refusal := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: anothers}}
	}
	for name, test := range map[string]struct {
		line, namespace string
		object          string // by default a Job
		deafIn          []string
		err             error
		notMine         []string
		code            int
		said            string
	}{
		"lint":                        {line: "lint --server -n ci -f -"},
		"lint, not called":            {line: "lint --server -n ci -f -", deafIn: []string{"ci"}, code: console.ExitBadNews, said: silent},
		"lint, the context's is not":  {line: "lint --server -n other -f -", deafIn: []string{"other"}},
		"lint, the object's is not":   {line: "lint --server -n other -f -", deafIn: []string{"ci"}, code: console.ExitBadNews, said: silent},
		"lint, Curfew's own":          {line: "lint --server -f -", namespace: "curfew-system", deafIn: []string{"curfew-system"}, said: unknown + `namespace "curfew-system"` + leftOut},
		"lint, protected":             {line: "lint --server -f -", namespace: "kube-system", deafIn: []string{"kube-system"}, said: leftOut},
		"lint, a Namespace":           {line: "lint --server -n other -f -", object: namespaced, deafIn: []string{"other"}, code: console.ExitBadNews, said: "for namespace \"other\": not checked"},
		"lint, a Namespace, called":   {line: "lint --server -n other -f -", object: namespaced, deafIn: []string{"new"}},
		"explain, many namespaces":    {line: "explain -f -", object: strings.Join(many, "\n---\n"), said: "whether the API server calls Curfew's webhook is not known for 2 namespaces more: it is asked about 10\n"},
		"lint, not known":             {line: "lint --server -n ci -f -", notMine: []string{"create jobs"}, said: unknown},
		"lint, refused by a webhook":  {line: "lint --server -n ci -f -", err: refusal(400), said: unknown + anothers},
		"lint, refused by a policy":   {line: "lint --server -n ci -f -", err: refusal(422), said: unknown + anothers},
		"lint, no answer":             {line: "lint --server -n ci -f -", err: refusal(500), code: console.ExitUsage, said: "error: asking whether the API server calls Curfew's webhook: " + anothers},
		"lint, refused by Curfew":     {line: "lint --server -n ci -f -", err: apierrors.NewBadRequest(`metadata.annotations[curfew.dev/ttl-after-finished]: "unreadable"`)},
		"explain":                     {line: "explain -n ci -f -"},
		"explain, not called":         {line: "explain -n ci -f -", deafIn: []string{"ci"}, said: nothing},
		"explain, protected":          {line: "explain -f -", namespace: "kube-system", deafIn: []string{"kube-system"}, said: leftOut},
		"explain, not known":          {line: "explain -n ci -f -", notMine: []string{"create jobs"}, said: "note: " + unknown},
		"explain, refused by another": {line: "explain -n ci -f -", err: refusal(422), said: "note: " + unknown + anothers},
		"explain, no answer":          {line: "explain -n ci -f -", err: refusal(500), said: "note: asking whether the API server calls Curfew's webhook: " + anothers},
		"explain, without cluster":    {line: "explain -n ci -f - --offline", deafIn: []string{"ci"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, _ := server(t, false)
			cluster.deafIn, cluster.canaryErr = test.deafIn, test.err
			stdin := strings.Replace(cmp.Or(test.object, job), "NS", cmp.Or(test.namespace, "ci"), 1)
			code, stdout, stderr, _ := executeIn(t, cluster, scene{stdin: stdin, notMine: test.notMine}, words(test.line)...)
			output := stdout + stderr
			expectExit(t, "the command", code, test.code, "")
			expectPart(t, "said", output, test.said, true)
			expectPart(t, "said", output, "webhook", test.said != "")
		})
	}
}

// A namespace is asked about once, and only if an object is in it.
func TestWebhookIsAskedForOnceANamespace(t *testing.T) {
	cluster, _ := server(t, false)
	executeIn(t, cluster, scene{stdin: serverManifests}, "lint", "--server", "-n", "ci", "-f", "-")
	var asked []string
	for _, action := range cluster.objects.Actions() {
		create, _ := action.(clienttesting.CreateActionImpl)
		if object, ok := create.GetObject().(*unstructured.Unstructured); ok && object.GetGenerateName() == "curfew-canary-" {
			asked = append(asked, action.GetNamespace())
		}
	}
	expectSame(t, "namespaces that the API server is asked about", fmt.Sprint(asked), "[ci]")
}

func TestLintServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	must(t, os.WriteFile(file, []byte(serverManifests), 0o600))
	cluster, asked := server(t, false)
	code, stdout, stderr, _ := executeIn(t, cluster, scene{}, "lint", "--server", "-n", "ci", "-f", file, "-o", "custom-columns=L:.line,S:.severity,N:.object.name,R:.rule,F:.field,M:.message", "--no-headers")
	var have []string
	for line := range strings.Lines(stdout) {
		have = append(have, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"7 error denied server spec.ttlSecondsAfterFinished 864000 is too long",
		"9 warning filled server metadata.annotations[curfew.dev/ttl] is a label: use it: as one",
		"9 warning filled server <none> batch/v1 Job is getting old",
		`13 warning nowhere known-namespace metadata.namespace namespace "absent" does not exist yet: not checked; create it first`,
		`15 error secret server <none> jobs.batch "secret" is forbidden: jane cannot patch it`,
		"17 warning unknown server kind the cluster does not serve Widget of example.com/v1: not checked; install its CustomResourceDefinition first",
	}
	if code != console.ExitBadNews || !slices.Equal(have, want) {
		t.Errorf("exit status %d, %s\nhave %s\nwant %s", code, stderr, strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	expectSame(t, "objects that the API server is asked about", fmt.Sprint(*asked), "[ci/denied ci/filled ci/(created) absent/nowhere ci/secret /new]")
	_, stdout, stderr, _ = executeIn(t, cluster, scene{}, "lint", "--server", "-n", "ci", "-f", file, "-o", "wide")
	filled := "default    Job ci/filled        -                 ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace \"ci\"\n"
	expectPart(t, "stdout", stdout, filled, true)
	expectSame(t, "stderr", stderr, "7 objects: 2 errors, 4 warnings, 1 default\n")
}

// TestLintServerWithoutAnswer: an error that is not about an object is no finding.
func TestLintServerWithoutAnswer(t *testing.T) {
	cluster, _ := server(t, true)
	code, stdout, stderr, _ := executeIn(t, cluster, scene{stdin: serverManifests}, "lint", "--server", "-f", "-")
	expectExit(t, "the command", code, console.ExitUsage, stdout+stderr)
	expectSame(t, "stdout", stdout, "")
	expectSame(t, "stderr", stderr, "error: asking the API server about Job denied: Internal error occurred: etcd is away\n")
	code, _, stderr, _ = executeIn(t, cluster, scene{stdin: serverManifests}, "lint", "--server", "-f", "-", "--strict-labels", "--warn-below=5s")
	if want := "error: --warn-below: with --server the webhook's own setting applies: leave it out\nerror: --strict-labels: with --server"; code != console.ExitUsage || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}
