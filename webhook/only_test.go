package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// With --only-namespaces, requests about everything else are allowed unchanged, whatever the
// configuration of an administrator sends (S8). The cluster is asked nothing about them.
func TestOnlyNamespaces(t *testing.T) {
	const (
		defaulted = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: NS}, spec: {}}"
		bad       = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: soon}}, spec: {}}"
		space     = "{apiVersion: v1, kind: Namespace, metadata: {name: a, annotations: {curfew.dev/default-ttl: soon}}}"
		used      = "{apiVersion: v1, kind: Namespace, metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}"
		platforms = "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: a}, spec: {bounds: {maxTTL: soon}}}"
		label     = "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {curfew.dev/ttl: '2020-01-01'}}}"
	)
	for name, test := range map[string]struct {
		path, namespace, name, object string
		denied, patched               bool
	}{
		"a default":                        {path: PathMutate, namespace: "ci", object: defaulted, patched: true},
		"a default next door":              {path: PathMutate, namespace: "dead", object: defaulted},
		"a bad value":                      {path: PathValidate, namespace: "ci", object: bad, denied: true},
		"a bad value next door":            {path: PathValidate, namespace: "plain", object: bad},
		"a name that begins alike":         {path: PathValidate, namespace: "ci2", object: bad},
		"a listed Namespace":               {path: PathValidateNamespace, namespace: "ci", name: "ci", object: space, denied: true},
		"its stamp":                        {path: PathMutateNamespace, namespace: "ci", name: "ci", object: used, patched: true},
		"another Namespace":                {path: PathValidateNamespace, namespace: "plain", name: "plain", object: space},
		"its stamp is not ours":            {path: PathMutateNamespace, namespace: "plain", name: "plain", object: used},
		"a policy of the cluster":          {path: PathValidatePolicy, name: "a", object: platforms},
		"cluster-scoped, named as listed":  {path: PathValidate, name: "ci", object: label},
		"an object next door named as one": {path: PathValidate, namespace: "plain", name: "ci", object: bad},
	} {
		t.Run(name, func(t *testing.T) {
			access := &answers{}
			w := newWorld(t, func(o *Options) { o.Only, o.Access = []string{"ci"}, access })
			review := ask{path: test.path, namespace: test.namespace, object: test.object}.review(t)
			review.Request.Name = test.name
			body, err := json.Marshal(review)
			if err != nil {
				t.Fatal(err)
			}
			status, out := w.post(t, test.path, body)
			if status != http.StatusOK || out.Response.Allowed == test.denied || (out.Response.Patch != nil) != test.patched {
				t.Errorf("HTTP %d, allowed %t, patch %s: %v", status, out.Response.Allowed, out.Response.Patch, out.Response.Result)
			}
			if !test.denied && !test.patched && (len(out.Response.Warnings)+len(access.asked)+w.namespaces.liveReads > 0) {
				t.Errorf("warned %q, asked about %q, %d reads of namespaces", out.Response.Warnings, access.asked, w.namespaces.liveReads)
			}
		})
	}
}

// A LocalSubjectAccessReview names its namespace twice, as the API server requires, and everything
// about the user. It cannot ask about a cluster-scoped object, and that is no "yes".
func TestLocalSubjectAccessReviews(t *testing.T) {
	c := &cluster{may: map[string]bool{"ann": true}}
	asked := reviews(t, c, true)
	what := authorizationv1.ResourceAttributes{Namespace: "ci", Group: "batch", Version: "v1", Resource: "jobs", Name: "a"}
	for user, want := range map[string]bool{"ann": true, "bob": false} {
		got, err := asked.May(t.Context(), authenticationv1.UserInfo{Username: user, Groups: []string{"team"}}, what)
		if err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", user, got, err, want)
		}
		path, sent := c.paths[len(c.paths)-1], c.requests[len(c.requests)-1]
		of := sent.Spec.ResourceAttributes
		if path != "/apis/authorization.k8s.io/v1/namespaces/ci/localsubjectaccessreviews" || sent.Kind != "LocalSubjectAccessReview" || sent.Namespace != "ci" ||
			of.Namespace != "ci" || of.Verb != "delete" || of.Resource != "jobs" || sent.Spec.User != user || len(sent.Spec.Groups) != 1 {
			t.Errorf("%s: sent %+v about %+v to %s", user, sent, of, path)
		}
	}
	what.Namespace = ""
	if got, err := asked.May(t.Context(), authenticationv1.UserInfo{Username: "ann"}, what); got || !errors.Is(err, errNoNamespace) || len(c.paths) != 2 {
		t.Errorf("without a namespace: %t, %v, asked %d times; want an error", got, err, len(c.paths))
	}
}
