package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/harness"
)

// custom is a space with a kind of its own, of which the controller may delete nothing yet. The test may take back what it
// grants.
func custom(t *testing.T) (*space, schema.GroupVersionResource) {
	t.Helper()
	s := labelSpace(t)
	resource := s.define("Thing", s.name+".example.com", true, version{name: "v1", storage: true})
	s.follow("Thing", resource)
	suite.revoked.Store(resource.Group, true)
	return s, resource
}

func groupKind(resource schema.GroupVersionResource) string { return "Thing." + resource.Group }

// A kind is taken up when its permission is granted, dropped when that is revoked, and taken up again. Others notice nothing of it.
func TestPermissionRevokedAndGrantedAgain(t *testing.T) {
	t.Parallel()
	s, resource := custom(t)
	role := "e2e-" + s.name
	s.awaitWatched(groupKind(resource), false)

	before := s.newObject(resource, "Thing", "before", policy.LabelTTL, until(now().Add(-hour)))
	s.grant(role, resource)
	s.awaitGone(before)

	s.passes(s.kubectl("delete", "clusterrole", role))
	s.awaitWatched(groupKind(resource), false)
	expiry := now().Add(2 * second)
	between := s.newObject(resource, "Thing", "between", policy.LabelTTL, until(expiry))
	healthy := s.newConfigMap("healthy", policy.LabelTTL, until(expiry))
	s.onTime(s.awaitDeletion(healthy), expiry) // a kind without permission delays no other
	s.outlast(expiry)
	s.stillThere(between)
	if sent := suite.proxy.Deletes(s.name, "between"); len(sent) != 0 {
		t.Errorf("DELETEs sent without permission: %+v", sent)
	}

	s.grant(role, resource)
	s.awaitGone(between)
	expiry = now().Add(3 * second)
	s.onTime(s.awaitDeletion(s.newObject(resource, "Thing", "after", policy.LabelTTL, until(expiry))), expiry)
}

// A permission in one namespace is used there and nowhere else.
func TestPermissionInOneNamespace(t *testing.T) {
	t.Parallel()
	s, resource := custom(t)
	other := newSpace(t)
	other.follow("Thing", resource)
	role := "e2e-" + s.name
	s.passes(s.kubectl("create", "clusterrole", role, "--verb=get,list,watch,delete", "--resource=things."+resource.Group))
	s.passes(s.kubectl("create", "rolebinding", "curfew", "--clusterrole="+role, "--serviceaccount="+harness.Namespace+":curfew-controller"))
	due := until(now().Add(-hour))
	elsewhere := other.newObject(resource, "Thing", "elsewhere", policy.LabelTTL, due)
	s.awaitGone(s.newObject(resource, "Thing", "here", policy.LabelTTL, due))
	s.outlast(now())
	other.stillThere(elsewhere)

	s.passes(s.kubectl("delete", "rolebinding", "curfew"))
	s.awaitWatched(groupKind(resource), false)
	kept := s.newObject(resource, "Thing", "kept", policy.LabelTTL, due)
	s.outlast(now())
	s.stillThere(kept)
}

// A kind that goes and comes back is watched again, and what goes with it is not missed.
func TestDefinitionDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitGone(s.newObject(resource, "Thing", "first", policy.LabelTTL, until(now().Add(-hour))))
	s.newObject(resource, "Thing", "lost", policy.LabelTTL, "30d")

	s.passes(s.kubectl("delete", "crd", "things."+resource.Group, "--timeout=60s"))
	healthy := now().Add(2 * second)
	s.onTime(s.awaitDeletion(s.newConfigMap("healthy", policy.LabelTTL, until(healthy))), healthy)
	s.awaitMetrics("the kind to be forgotten", func(text string) bool { return len(grep(text, groupKind(resource))) == 0 })

	s.define("Thing", resource.Group, true, version{name: "v1", storage: true})
	s.follow("Thing", resource)
	expiry := now().Add(5 * second)
	s.onTime(s.awaitDeletion(s.newObject(resource, "Thing", "second", policy.LabelTTL, until(expiry))), expiry)
}

// A kind whose conversion webhook is broken delays no other, and is caught up with once it works.
func TestBrokenConversionDelaysNoOther(t *testing.T) {
	t.Parallel()
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitGone(s.newObject(resource, "Thing", "first", policy.LabelTTL, until(now().Add(-hour))))
	expiry := now().Add(12 * second)
	s.newObject(resource, "Thing", "broken", policy.LabelTTL, until(expiry))
	healthy := s.newConfigMap("healthy", policy.LabelTTL, until(expiry))
	versions := []version{{name: "v1"}, {name: "v2", storage: true}}
	s.defineWith("Thing", resource.Group, true, `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
		"clientConfig":{"url":"https://127.0.0.1:1/convert"}}}`, versions...)
	s.awaitLog(suite.controller.Log, "list and watch failed", resource.Group+"/v2", "conversion webhook")
	s.onTime(s.awaitDeletion(healthy), expiry)
	s.outlast(expiry)
	if sent := suite.proxy.Deletes(s.name, "broken"); len(sent) != 0 {
		t.Errorf("it could not be read, and DELETEs were sent: %+v", sent)
	}
	s.define("Thing", resource.Group, true, versions...)
	s.passes(s.kubectl("wait", "--for=delete", "things."+resource.Group+"/broken", "--timeout=60s"))
}
