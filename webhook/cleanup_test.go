package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// A review that cannot be answered denies a cleanup policy: an error would let it pass where the
// webhook fails open.
func TestCleanupAuthorUnknown(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Access = &failing{} })
	const head = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":"plain","name":"a"},"spec":{"schedule":"@daily","serviceAccountName":"janitor",` +
		`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["secrets"]}]}`
	object, suspended := head+`}}`, head+`,"suspend":true}}`
	response := w.ask(t, ask{path: PathValidatePolicy, object: object})
	if response.Allowed || response.Result.Code != http.StatusTooManyRequests || response.Result.Details.RetryAfterSeconds == 0 {
		t.Errorf("got %+v, want 429 with a time to retry after", response)
	}
	if response := w.ask(t, ask{path: PathValidatePolicy, old: object, object: suspended}); !response.Allowed {
		t.Errorf("suspending it: %+v", response.Result)
	}
	if response := w.ask(t, ask{path: PathValidatePolicy, old: suspended, object: object}); response.Allowed {
		t.Error("resuming it is allowed to anyone")
	}
}

// A tenant who may delete objects and not read them must not learn by a policy's conditions, counts
// and reports what they are (S10).
func TestCleanupAuthorMayNotRead(t *testing.T) {
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":"plain","name":"a"},"spec":{"schedule":"@daily","serviceAccountName":"janitor",` +
		`"conditions":[{"name":"guess","expression":"object.data['password'].startsWith('eA')"}],"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["secrets"]}]}}}`
	for want, may := range map[string][]string{
		"you may not get and list secrets":         {"delete"},
		"you may not list secrets":                 {"delete", "get"},
		"you may not get secrets":                  {"delete", "list"},
		"you may not get, list and delete secrets": nil,
		"": {"delete", "get", "list"},
	} {
		w := newWorld(t, func(o *Options) { o.Access = verbs(may) })
		response := w.ask(t, ask{path: PathValidatePolicy, object: object})
		if response.Allowed != (want == "") || !response.Allowed && !strings.Contains(response.Result.Message, want) {
			t.Errorf("who may %v: allowed %v, %+v, want %q", may, response.Allowed, response.Result, want)
		}
	}
}

// Nor must a tenant learn from a lookup or from namespaceObject what only the account of the policy
// may read (S10).
func TestCleanupAuthorMayNotLookUp(t *testing.T) {
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":"plain","name":"a"},"spec":{"schedule":"@daily","serviceAccountName":"janitor",` +
		`"conditions":[{"name":"guess","expression":"%s"}],"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["%s"]}]}}}`
	for _, c := range []struct{ expression, resource, lacks, want string }{
		{"!lookup.mounted", "persistentvolumeclaims", "list pods", "you may not list pods in"},
		{"!lookup.mounted", "persistentvolumeclaims", "list statefulsets", ""},
		{"!lookup.mounted", "persistentvolumeclaims", "list services", ""},
		{"!lookup.mounted", "persistentvolumes", "list persistentvolumeclaims", "you may not list persistentvolumeclaims in"},
		{"!lookup.bound", "persistentvolumeclaims", "list pods", ""},
		{"!lookup.selectedByService", "pods", "list services", "you may not list services in"},
		{"!lookup.selectedByService", "pods", "list endpointslices", "you may not list endpointslices.discovery.k8s.io in"},
		{"namespaceObject.metadata.name == 'x'", "pods", "get namespaces", "you may not get namespaces in"},
		{"!lookup.owned", "pods", "get namespaces", ""},
	} {
		w := newWorld(t, func(o *Options) { o.Access = allBut(c.lacks) })
		response := w.ask(t, ask{path: PathValidatePolicy, object: fmt.Sprintf(object, c.expression, c.resource)})
		if response.Allowed != (c.want == "") || !response.Allowed && !strings.Contains(response.Result.Message, c.want) {
			t.Errorf("%s for who may not %s: allowed %v, %+v, want %q", c.expression, c.lacks, response.Allowed, response.Result, c.want)
		}
	}
}

// A user who lifts the approval of a policy is warned, since the next run deletes.
func TestCleanupApprovalIsLifted(t *testing.T) {
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"%s","metadata":{%s"name":"a"},"spec":{"schedule":"@daily",%s` +
		`"approval":"%s","matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["pods"]}]}}}`
	namespaced := func(approval string) string {
		return fmt.Sprintf(object, cleanupKind, `"namespace":"plain",`, `"serviceAccountName":"janitor",`, approval)
	}
	cluster := func(approval string) string { return fmt.Sprintf(object, clusterCleanupKind, "", "", approval) }
	const warned = "curfew: spec.approval: the policy deletes without an approval from now on"
	for name, c := range map[string]struct {
		old, now string
		want     []string
	}{
		"lifted":           {namespaced("Required"), namespaced("NotRequired"), []string{warned + ", unless the controller has --require-approval"}},
		"lifted, cluster":  {cluster("Required"), cluster("NotRequired"), []string{warned}},
		"kept":             {namespaced("Required"), namespaced("Required"), nil},
		"set":              {namespaced("NotRequired"), namespaced("Required"), nil},
		"new, without one": {"", namespaced("NotRequired"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Access = allBut("") })
			response := w.ask(t, ask{path: PathValidatePolicy, object: c.now, old: c.old})
			if !response.Allowed || !slices.Equal(response.Warnings, c.want) {
				t.Errorf("allowed %v, %+v, warned %q, want %q", response.Allowed, response.Result, response.Warnings, c.want)
			}
		})
	}
}

// allBut lists the requests that no user may make.
type allBut string

func (a allBut) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return what.Verb+" "+what.Resource != string(a), nil
}

// verbs are what everyone may do.
type verbs []string

func (v verbs) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return slices.Contains(v, what.Verb), nil
}

type failing struct{}

func (f *failing) May(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
	return false, errors.New("timeout")
}

// A field or value that this version does not know is denied while someone adds it, and stands in
// the way of no other change.
func TestPolicyOfANewerVersion(t *testing.T) {
	w := newWorld(t)
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"ClusterCleanupPolicy","metadata":{"name":"a"},"spec":{"schedule":"%s",%s` +
		`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["pods"]}]}}}`
	plain, newer, changed := fmt.Sprintf(object, "@daily", ""), fmt.Sprintf(object, "@daily", `"minAge":"30d",`), fmt.Sprintf(object, "@weekly", `"minAge":"30d",`)
	for name, c := range map[string]struct {
		old, now string
		allowed  bool
	}{
		"created": {"", newer, false}, "added": {plain, newer, false}, "changed": {newer, changed, true}, "removed": {newer, plain, true}, "known": {"", plain, true},
	} {
		response := w.ask(t, ask{path: PathValidatePolicy, old: c.old, object: c.now})
		if response.Allowed != c.allowed || !c.allowed && !strings.Contains(response.Result.Message, "spec.minAge: this version of Curfew does not know it") {
			t.Errorf("%s: %v, %+v", name, response.Allowed, response.Result)
		}
	}
}

// lookup.referenced reads every kind of the cluster.
func TestReferencedTakesListOnEverything(t *testing.T) {
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"ClusterCleanupPolicy","metadata":{"name":"a"},"spec":{"schedule":"@daily",` +
		`"conditions":[{"name":"unused","expression":"!lookup.referenced"}],"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["configmaps"]}]}}}`
	for lacks, warned := range map[string]bool{"list *": true, "get *": false} {
		w := newWorld(t, func(o *Options) { o.Access = allBut(lacks) })
		response := w.ask(t, ask{path: PathValidatePolicy, object: object})
		if got := strings.Join(response.Warnings, "; "); !response.Allowed || strings.Contains(got, "you may not list every resource") != warned {
			t.Errorf("who may not %s: allowed %t, warned %q", lacks, response.Allowed, got)
		}
	}
}
