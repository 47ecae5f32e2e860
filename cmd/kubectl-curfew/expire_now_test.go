package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// family is a Deployment with a ReplicaSet, and Pods so that it owns as many objects as given.
func family(t *testing.T, owned int) []runtime.Object {
	t.Helper()
	owner := func(name string) string {
		return "{apiVersion: apps/v1, kind: Owner, name: " + name + ", uid: uid-" + name + "}"
	}
	object := func(kind, name, owners string) string {
		return "{" + kind + ", metadata: {name: " + name + ", namespace: lab, uid: uid-" + name + `, resourceVersion: "7", creationTimestamp: "2026-12-24T09:00:00Z", ownerReferences: [` + owners + "]}}"
	}
	texts := []string{object("apiVersion: apps/v1, kind: Deployment", "web", ""), object("apiVersion: apps/v1, kind: ReplicaSet", "web-1", owner("web")),
		object("apiVersion: v1, kind: Pod", "stranger", owner("other"))}
	for n := range owned - 1 {
		texts = append(texts, object("apiVersion: v1, kind: Pod", fmt.Sprint("web-1-", n), owner("web-1")+", "+owner("web-1")))
	}
	return manifests(t, texts...)
}

// TestExpireNowAsks before it deletes a Namespace, a cluster-scoped object, or one that owns more
// than 10 others.
func TestExpireNowAsks(t *testing.T) {
	const namespace, role, deployment, unread = "Delete namespace/foo and everything in it? [y/N] ",
		"Delete clusterrole.rbac.authorization.k8s.io/guest, which is cluster-scoped? [y/N] ", "Delete deployment.apps/web in namespace lab and 11 objects that it owns? [y/N] ",
		"Delete deployment.apps/web in namespace lab and all that it owns? The API server cannot list secrets. [y/N] "
	const forbidden = "Delete deployment.apps/web in namespace lab and all that it owns? You may not list pods: how many of these is not known. [y/N] "
	for name, test := range map[string]struct {
		line     string
		answer   string // "": stdin is no terminal
		owned    int
		notMine  string
		broken   string // a resource that cannot be listed
		question string
		code     int
	}{
		"namespace, yes":              {line: "expire-now ns/foo", answer: "y", question: namespace},
		"namespace, no":               {line: "expire-now ns/foo", answer: "n", question: namespace, code: console.ExitBadNews},
		"namespace, no terminal":      {line: "expire-now ns/foo", code: console.ExitUsage},
		"namespace, --yes":            {line: "expire-now ns/foo --yes"},
		"cluster-scoped, no":          {line: "expire-now clusterrole/guest", answer: "n", question: role, code: console.ExitBadNews},
		"cluster-scoped, no terminal": {line: "expire-now clusterrole/guest", code: console.ExitUsage},
		"owns 11, no":                 {line: "expire-now deploy/web -n lab", answer: "n", owned: 11, question: deployment, code: console.ExitBadNews},
		"owns 11, no terminal":        {line: "expire-now deploy/web -n lab", owned: 11, code: console.ExitUsage},
		"owns 11, --yes":              {line: "expire-now deploy/web -n lab --yes", owned: 11},
		"owns 11, one kind forbidden": {line: "expire-now deploy/web -n lab", owned: 11, notMine: "list secrets", code: console.ExitUsage},
		"owns 1, secrets forbidden":   {line: "expire-now deploy/web -n lab", owned: 1, notMine: "list secrets"},
		"owns 1, one forbidden":       {line: "expire-now deploy/web -n lab", answer: "n", owned: 1, notMine: "list pods", question: forbidden, code: console.ExitBadNews},
		"several, a namespace":        {line: "expire-now ns/foo ns/ci", answer: "n", question: "Delete 2 objects, with everything in namespaces foo, ci? [y/N] ", code: console.ExitBadNews},
		"several":                     {line: "expire-now cm/demo cm/plain", answer: "n", question: "Delete 2 objects? [y/N] ", code: console.ExitBadNews},
		"several, cluster-scoped": {line: "expire-now clusterrole/guest cm/demo", answer: "n", code: console.ExitBadNews,
			question: "Delete 2 objects, among them the cluster-scoped clusterrole.rbac.authorization.k8s.io/guest? [y/N] "},
		"several, both": {line: "expire-now ns/foo clusterrole/guest cm/demo", answer: "n", code: console.ExitBadNews,
			question: "Delete 3 objects, among them the cluster-scoped clusterrole.rbac.authorization.k8s.io/guest, with everything in namespaces foo? [y/N] "},
		"owns 1 or more":               {line: "expire-now deploy/web -n lab", owned: 1, broken: "secrets", code: console.ExitUsage},
		"owns 1 or more, no":           {line: "expire-now deploy/web -n lab", answer: "n", owned: 1, broken: "secrets", question: unread, code: console.ExitBadNews},
		"owns 10":                      {line: "expire-now deploy/web -n lab", owned: 10},
		"keep and extend ask nothing":  {line: "extend clusterrole/guest --by 1d"},
		"cluster-scoped, keep asks no": {line: "keep clusterrole/guest"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, append(objects(t), family(t, test.owned)...))
			if test.broken != "" {
				cluster.metadata.PrependReactor("list", test.broken, func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewInternalError(errors.New("conversion webhook failed"))
				})
			}
			s := scene{stdin: test.answer + "\n", terminal: test.answer != ""}
			if test.notMine != "" {
				s.notMine = []string{test.notMine}
			}
			code, stdout, stderr, sent := executeIn(t, cluster, s, words(test.line)...)
			if code != test.code || (len(sent) == 1) != (code == console.ExitOK) {
				t.Errorf("exit status %d, want %d, sent %q\n%s%s", code, test.code, sent, stdout, stderr)
			}
			asked := strings.Contains(stderr, "[y/N]")
			if asked != (test.question != "") || !strings.Contains(stderr, test.question) {
				t.Errorf("want the question %q: %s", test.question, stderr)
			}
			if refused := "error: stdin is not a terminal; pass --yes\n"; (code == console.ExitUsage) != strings.HasSuffix(stderr, refused) {
				t.Errorf("exit status %d: %s", code, stderr)
			}
		})
	}
}
