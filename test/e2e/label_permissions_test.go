package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	s.outlast(expiry)
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
	s.outlast(now().Add(2 * second))
	other.stillThere(elsewhere)

	s.expectSuccess(s.kubectl("delete", "rolebinding", "curfew"))
	s.awaitWatched(groupKind(resource), false)
	kept := s.newObject(resource, "Thing", "kept", wellknown.LabelTTL, due)
	s.outlast(now().Add(2 * second))
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
	expiry := s.ahead(12 * second)
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
	s.outlast(expiry)
	if sent := suite.proxy.Deletes(s.name, "broken"); len(sent) != 0 {
		t.Errorf("it could not be read, and DELETEs were sent: %+v", sent)
	}
	s.define("Thing", resource.Group, true, versions...)
	s.expectSuccess(s.kubectl("wait", "--for=delete", "things."+resource.Group+"/broken", "--timeout=10m"))
}

// The DELETEs of a kind hang, many at a time, behind a webhook that does not answer: no other kind
// waits for them, nothing else is paused, and all of it goes when the webhook has gone.
func TestHangingDeletesDelayNoOther(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitWatched(groupKind(resource), true)
	s.hangDeletes(resource)
	began := time.Now()
	for i := range 60 {
		s.newObject(resource, "Thing", fmt.Sprintf("hangs-%d", i))
	}
	var others []*unstructured.Unstructured
	for i := range 3 {
		others = append(others, s.newConfigMap(fmt.Sprintf("healthy-%d", i)))
	}
	expiry := now().Add((5*time.Since(began) + 30*second).Round(second))
	s.expectSuccess(s.kubectl("label", "things."+resource.Group, "--all", wellknown.LabelTTL+"="+until(expiry)))
	healthy := map[time.Time]*unstructured.Unstructured{}
	for i, object := range others {
		due := expiry.Add(time.Duration(1+4*i) * second)
		healthy[due] = object
		s.expectSuccess(s.kubectl("label", "configmap", object.GetName(), wellknown.LabelTTL+"="+until(due)))
	}
	if now().After(expiry) {
		t.Fatal("labelling them took longer than five times the time of making them, and 30s")
	}
	// Promptness is tested here: one that waited for those that hang came as late as they hang.
	for due, object := range healthy {
		deletion := s.awaitDeletion(object)
		s.notEarly(deletion, due)
		if late := deletion.At.Sub(due); late >= hanging {
			t.Errorf("%s was deleted %s after its expiry: as late as if it waited for one that hangs, for %s", object.GetName(), late, hanging)
		}
	}
	s.awaitLog(suite.controller.Log, "requests take long", `"kind":"Thing"`)
	s.expectSuccess(s.kubectl("delete", "validatingwebhookconfiguration", s.name, "--timeout=10m"))
	s.expectSuccess(s.kubectl("wait", "--for=delete", "things."+resource.Group, "--all", "--timeout=10m"))
}

// hanging is how long the API server waits for a webhook that does not answer: the most that it
// allows, since it has to be long even for a busy machine.
const hanging = 30 * second

// hangDeletes has the API server send every DELETE of a kind to a webhook that never answers.
func (s *space) hangDeletes(resource schema.GroupVersionResource) {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // Only the kernel accepts connections.
	s.ok(err)
	s.Cleanup(func() { _ = listener.Close() })
	hooks := suite.cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(s.ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:                    "hangs.example.com",
			ClientConfig:            admissionv1.WebhookClientConfig{URL: new("https://" + listener.Addr().String() + "/")},
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(hanging / second)),
			FailurePolicy:           new(admissionv1.Fail),
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{resource.Group}, APIVersions: []string{"*"}, Resources: []string{resource.Resource}},
			}},
		}},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.Cleanup(func() {
		if err := hooks.Delete(context.Background(), s.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("delete the webhook that hangs: %v", err)
		}
	})
	s.newObject(resource, "Thing", "probe")
	s.poll("DELETEs to hang", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, second)
		defer cancel()
		err := s.objects(resource).Namespace(s.name).Delete(ctx, "probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return errors.Is(err, context.DeadlineExceeded), nil
	})
}
