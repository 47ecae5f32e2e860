package webhook

import (
	"net/http"
	"strings"
	"testing"
)

// A review that cannot compile in time is a denial: an answer that is too late admits the policy
// where the webhook fails open.
func TestReviewsThatCannotCompileAreDenied(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Access = allBut("delete secrets") })
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":"plain","name":"a"},` +
		`"spec":{"schedule":"@daily","serviceAccountName":"janitor",` +
		`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["secrets"]}]}}}`
	slots := int64(0)
	for w.webhooks.compiling.TryAcquire(1) {
		slots++
	}
	out := w.ask(t, ask{path: PathValidatePolicy, object: object})
	if out.Allowed || out.Result == nil || out.Result.Code != http.StatusTooManyRequests {
		t.Errorf("with all slots taken: allowed %v, %+v, want a denial with 429", out.Allowed, out.Result)
	}
	w.webhooks.compiling.Release(slots)
	out = w.ask(t, ask{path: PathValidatePolicy, object: object})
	if out.Allowed || out.Result == nil || out.Result.Code == http.StatusTooManyRequests {
		t.Errorf("with free slots: allowed %v, %+v, want the denial of the rules", out.Allowed, out.Result)
	}
}

// A policy that is larger than the schemas allow is not compiled.
func TestLargePoliciesAreDenied(t *testing.T) {
	for size, code := range map[int]int32{maxPolicy / 2: http.StatusOK, maxPolicy: http.StatusRequestEntityTooLarge} {
		out := newWorld(t).ask(t, ask{path: PathValidatePolicy, object: `{"apiVersion":"curfew.dev/v1alpha1","kind":"LifecyclePolicy","metadata":{"name":"a","annotations":{"a":"` +
			strings.Repeat("x", size) + `"}},"spec":{"defaults":{"ttl":{"value":"1d"}}}}`})
		if out.Result.Code != code {
			t.Errorf("%d bytes: %+v, want %d", size, out.Result, code)
		}
	}
}
