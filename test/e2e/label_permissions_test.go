package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// custom is a space with a kind of its own, whose objects the controller may not delete yet. The
// test may revoke the permissions that it grants.
func custom(t *testing.T) (*space, schema.GroupVersionResource) {
	t.Helper()
	s := labelSpace(t)
	resource := s.define("Thing", s.name+".example.com", true, version{name: "v1", storage: true})
	s.follow("Thing", resource)
	suite.revoked.Store(resource.Group, true)
	return s, resource
}

func groupKind(resource schema.GroupVersionResource) string { return "Thing." + resource.Group }

// A kind is taken up when its permission is granted, dropped when that is revoked, and taken up
// again. Others notice nothing of it.
func TestPermissionRevokedAndGrantedAgain(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	role := "e2e-" + s.name
	s.awaitWatched(groupKind(resource), false)

	before := s.newObject(resource, "Thing", "before", wellknown.LabelTTL, "2s")
	s.grant(role, resource)
	s.awaitGone(before)

	s.expectSuccess(s.kubectl("delete", "clusterrole", role))
	s.awaitWatched(groupKind(resource), false)
	expiry := s.ahead(4 * second)
	between := s.newObject(resource, "Thing", "between", wellknown.LabelTTL, until(expiry))
	healthy := s.newConfigMap("healthy", wellknown.LabelTTL, until(expiry))
	s.notEarly(s.awaitDeletion(healthy), expiry) // a kind without permission delays no other
	s.outlastLabel(expiry)
	s.stillThere(between)
	if sent := suite.proxy.Deletes(s.name, "between"); len(sent) != 0 {
		t.Errorf("DELETEs sent without permission: %+v", sent)
	}

	s.grant(role, resource)
	s.awaitGone(between)
	expiry = s.ahead(3 * second)
	s.notEarly(s.awaitDeletion(s.newObject(resource, "Thing", "after", wellknown.LabelTTL, until(expiry))), expiry)
}

// A permission in one namespace is used there and nowhere else.
func TestPermissionInOneNamespace(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	other := newSpace(t)
	other.follow("Thing", resource)
	role := "e2e-" + s.name
	s.expectSuccess(s.kubectl("create", "clusterrole", role, "--verb=get,list,watch,delete", "--resource=things."+resource.Group))
	s.expectSuccess(s.kubectl("create", "rolebinding", "curfew", "--clusterrole="+role, "--serviceaccount="+harness.Namespace+":curfew-controller"))
	const due = "2s"
	elsewhere := other.newObject(resource, "Thing", "elsewhere", wellknown.LabelTTL, due)
	s.awaitGone(s.newObject(resource, "Thing", "here", wellknown.LabelTTL, due))
	s.outlastLabel(now().Add(2 * second))
	other.stillThere(elsewhere)

	s.expectSuccess(s.kubectl("delete", "rolebinding", "curfew"))
	s.awaitWatched(groupKind(resource), false)
	kept := s.newObject(resource, "Thing", "kept", wellknown.LabelTTL, due)
	s.outlastLabel(now().Add(2 * second))
	s.stillThere(kept)
}

// A kind that goes and comes back is watched again, and what goes with it is not missed.
func TestDefinitionDeletedAndCreatedAgain(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitGone(s.newObject(resource, "Thing", "first", wellknown.LabelTTL, "2s"))
	s.newObject(resource, "Thing", "lost", wellknown.LabelTTL, "30d")

	s.expectSuccess(s.kubectl("delete", "crd", "things."+resource.Group, "--timeout=10m"))
	healthy := s.ahead(4 * second)
	s.notEarly(s.awaitDeletion(s.newConfigMap("healthy", wellknown.LabelTTL, until(healthy))), healthy)
	s.awaitMetrics("the kind to be forgotten", func(text string) bool { return len(grep(text, groupKind(resource))) == 0 })

	s.define("Thing", resource.Group, true, version{name: "v1", storage: true})
	s.follow("Thing", resource)
	expiry := s.ahead(5 * second)
	s.notEarly(s.awaitDeletion(s.newObject(resource, "Thing", "second", wellknown.LabelTTL, until(expiry))), expiry)
}

// A kind whose conversion webhook is broken delays no other, and is caught up with once it works.
func TestBrokenConversionDelaysNoOther(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitGone(s.newObject(resource, "Thing", "first", wellknown.LabelTTL, "2s"))
	expiry := s.ahead(6 * second)
	s.newObject(resource, "Thing", "broken", wellknown.LabelTTL, until(expiry))
	healthy := s.newConfigMap("healthy", wellknown.LabelTTL, until(expiry))
	versions := []version{{name: "v1"}, {name: "v2", storage: true}}
	s.defineWith("Thing", resource.Group, true, `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
		"clientConfig":{"url":"https://127.0.0.1:1/convert"}}}`, versions...)
	reason := "conversion webhook"
	if s.release() <= 32 {
		reason = "storage is (re)initializing" // All that this API server says of it.
	}
	s.awaitLog(suite.controller.Log, "list and watch failed", resource.Group+"/v2", reason)
	s.notEarly(s.awaitDeletion(healthy), expiry)
	s.outlastLabel(expiry)
	if sent := suite.proxy.Deletes(s.name, "broken"); len(sent) != 0 {
		t.Errorf("it could not be read, and DELETEs were sent: %+v", sent)
	}
	s.define("Thing", resource.Group, true, versions...)
	s.expectSuccess(s.kubectl("wait", "--for=delete", "things."+resource.Group+"/broken", "--timeout=10m"))
}

// The DELETEs of a kind hang, many at a time: no other kind waits for them, nothing else is paused,
// and all of it goes once they are answered.
func TestHangingDeletesDelayNoOther(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitWatched(groupKind(resource), true)
	const objects = 60
	held, release := s.holdDeletes(resource.Resource, 0)
	for i := range objects {
		s.newObject(resource, "Thing", fmt.Sprintf("hangs-%d", i), wellknown.LabelTTL, "1s")
	}
	s.poll("DELETEs to hang", func(context.Context) (bool, error) { return held() > 0, nil })
	for i := range 3 {
		s.awaitGone(s.newConfigMap(fmt.Sprintf("healthy-%d", i), wellknown.LabelTTL, "1s"))
	}
	s.awaitLog(suite.controller.Log, "requests take long", `"kind":"Thing"`)
	if left := s.list(resource); len(left) != objects {
		t.Errorf("%d objects are left whose DELETE hangs, want %d", len(left), objects)
	}
	release()
	s.expectSuccess(s.kubectl("wait", "--for=delete", "things."+resource.Group, "--all", "--timeout=10m"))
}

// holdDeletes lets the controller's first DELETEs of a resource in the space pass, and holds all
// others until they are released. It counts all of them.
func (s *space) holdDeletes(resource string, pass int64) (count func() int64, release func()) {
	var sent atomic.Int64
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	s.Cleanup(suite.proxy.Handle(func(_ http.ResponseWriter, r *http.Request) bool {
		name, namespace, _ := harness.Target(r.URL.Path)
		if r.Method == http.MethodDelete && namespace == s.name && name == resource && sent.Add(1) > pass {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
		return false
	}))
	s.Cleanup(release)
	return sent.Load, release
}

// list are the objects of a kind in the space.
func (s *space) list(resource schema.GroupVersionResource) []unstructured.Unstructured {
	s.Helper()
	list, err := s.objects(resource).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	return list.Items
}
