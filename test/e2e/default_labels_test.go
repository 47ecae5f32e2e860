package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// anObject is an object of any kind; the rest of its fields is JSON.
func anObject(resource schema.GroupVersionResource, kind, name, metadata, rest string) row {
	text := `{"apiVersion":"` + resource.GroupVersion().String() + `","kind":"` + kind + `","metadata":{"name":"` + name + `"` + metadata + `}` + rest + `}`
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return row{object: object}
}

func aDeployment(name string) row {
	return anObject(deployments, "Deployment", name, "",
		`,"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"none"}]}}}`)
}

func aConfigMap(name, metadata string) row {
	return anObject(configMaps, "ConfigMap", name, metadata, "")
}

// get reads an object of any kind.
func (s *space) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	s.Helper()
	object, err := s.objects(resource).Namespace(s.name).Get(s.ctx, name, metav1.GetOptions{})
	s.ok(err)
	return object
}

// unlabelled fails the test if an object carries a TTL label or the stamp of one.
func (s *space) unlabelled(resource schema.GroupVersionResource, names ...string) {
	s.Helper()
	for _, name := range names {
		object := s.get(resource, name)
		if label, stamp := object.GetLabels()[wellknown.LabelTTL], object.GetAnnotations()[wellknown.AnnotationLabelSource]; label != "" || stamp != "" {
			s.Errorf("%s %s has label %q, stamp %q; want neither", resource.Resource, name, label, stamp)
		}
	}
}

// widgets defines a custom kind of the space's own, whose labels take effect.
func (s *space) widgets() schema.GroupVersionResource {
	s.Helper()
	resource := s.define("Widget", s.name+".example.com", true, version{name: "v1", storage: true, open: true})
	s.grant("e2e-"+s.name, resource, deployments)
	s.awaitWatched("Widget."+resource.Group, true)
	s.awaitWatched("Deployment.apps", true)
	s.follow("Widget", resource)
	s.follow("Deployment", deployments)
	return resource
}

// mayPatch lets the controller change objects of kinds.
func (s *space) mayPatch(name string, resources ...schema.GroupVersionResource) {
	s.Helper()
	var rules []string
	for _, resource := range resources {
		rules = append(rules, `{"apiGroups":["`+resource.Group+`"],"resources":["`+resource.Resource+`"],"verbs":["patch"]}`)
	}
	s.apply(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"` + name + `","labels":{"curfew.dev/aggregate-to-controller":"true"}},
		"rules":[` + strings.Join(rules, ",") + `]}`)
}

// awaitLabelled waits until an object has a TTL label, and returns the event.
func (s *space) awaitLabelled(object *unstructured.Unstructured) {
	s.Helper()
	s.await(object.GetName()+" to be labelled", func(e harness.Event) bool {
		return e.GetUID() == object.GetUID() && e.GetLabels()[wellknown.LabelTTL] != ""
	})
}

// awaitStamped waits until admission would add an annotation to a change, which is not made. (With
// --dry-run=server, kubectl label prints what it sent, and kubectl patch the answer.)
func (s *space) awaitStamped(key, kind, name, metadata string) {
	s.Helper()
	s.poll(key+" to be written by admission", func(context.Context) (bool, error) {
		out := s.expectSuccess(s.kubectl("patch", kind, name, "--type=merge", "-p", `{"metadata":`+metadata+`}`, "--dry-run=server", "--output=yaml"))
		return strings.Contains(out.stdout, key), nil
	})
}

// Existing objects get the label of a policy that names their kind by backfill, and not without it,
// and expire by it. Objects that must not be touched are not, and without permission none is.
func TestDefaultLabelsOfExistingObjects(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	dry := newSpace(t, wellknown.AnnotationMode, "dry-run")
	widgets := s.widgets()
	gadgets := s.define("Gadget", s.name+".example.com", true, version{name: "v1", storage: true})
	s.grant("e2e-gadgets-"+s.name, gadgets)
	s.mayPatch("e2e-patch-"+s.name, configMaps, deployments, widgets)
	owner := s.newObject(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", "owner")
	reference := `,"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"owner","uid":"` + string(owner.GetUID()) + `","controller":true}]`
	for _, old := range []row{
		aDeployment("old"), aConfigMap("old", ""), anObject(widgets, "Widget", "old", "", ""), anObject(widgets, "Widget", "managed", "", `,"spec":{"managedBy":"example.com/another"}`), anObject(gadgets, "Gadget", "old", "", ""), aConfigMap("owned", reference),
		aConfigMap("protected", `,"annotations":{"curfew.dev/protect":"true"}`), aConfigMap("removed", `,"annotations":{"curfew.dev/ttl-label-source":"policy/other"}`),
		aConfigMap("own", `,"labels":{"curfew.dev/ttl":"30d"}`),
	} {
		s.expectStderr(s.create(old.object))
	}
	dry.expectStderr(dry.create(aConfigMap("old", "").object))
	s.expectStderr(s.create(aConfigMap("cancelled", `,"labels":{"curfew.dev/ttl":"30d"}`).object))

	rest := `defaults: {ttlLabel: {value: 20s}}`
	kinds := "kinds: [{group: apps, kind: Deployment}, {kind: ConfigMap}]"
	name := s.policy("labels", kinds, rest, dry)
	// A policy that backfills shows when all kinds before its own have been visited.
	s.policy("sentinel", "kinds: [{group: "+widgets.Group+", kind: Widget}, {group: "+widgets.Group+", kind: Gadget}]", rest+", backfill: true")
	sentinel := s.get(widgets, "old")
	s.awaitLabelled(sentinel)
	s.unlabelled(deployments, "old")
	s.unlabelled(configMaps, "old")
	s.awaitStamped(wellknown.AnnotationLabelSource, "configmap", "cancelled", `{"labels":{"curfew.dev/ttl":null}}`)
	s.expectSuccess(s.kubectl("label", "configmap", "cancelled", "curfew.dev/ttl-"))
	if got := s.get(configMaps, "cancelled").GetAnnotations()[wellknown.AnnotationLabelSource]; got != "object" {
		t.Errorf("the stamp of a label that its owner removed is %q", got)
	}

	s.expectSuccess(s.kubectl("patch", "lifecyclepolicy", name, "--type=merge", "-p", `{"spec":{"backfill":true}}`))
	for resource, source := range map[schema.GroupVersionResource]string{deployments: name, configMaps: name, widgets: s.name + "-sentinel"} {
		list, err := s.objects(resource).Namespace(s.name).List(s.ctx, metav1.ListOptions{FieldSelector: "metadata.name=old"})
		s.ok(err)
		for i := range list.Items {
			deleted := s.awaitDeletion(&list.Items[i])
			if got := deleted.GetLabels()[wellknown.LabelTTL] + " " + deleted.GetAnnotations()[wellknown.AnnotationLabelSource]; got != "20s policy/"+source+" 20s backfill" {
				t.Errorf("%s was deleted with label and stamp %q", resource.Resource, got)
			}
			if expiry := deleted.GetCreationTimestamp().Add(20 * time.Second); deleted.At.Before(expiry) {
				t.Errorf("%s was deleted before %s", resource.Resource, expiry)
			}
		}
	}
	s.unlabelled(configMaps, "owned", "protected", "kube-root-ca.crt")
	s.unlabelled(widgets, "managed")
	dry.unlabelled(configMaps, "old")
	for _, name := range []string{"removed", "cancelled"} {
		if got := s.get(configMaps, name).GetLabels(); got[wellknown.LabelTTL] != "" {
			t.Errorf("%s, whose label was removed, is given another: %v", name, got)
		}
	}
	if got := s.get(configMaps, "own").GetLabels()[wellknown.LabelTTL]; got != "30d" {
		t.Errorf("the author's own label became %q", got)
	}
	// Without permission to patch the kind it is left alone, and the controller says so.
	s.unlabelled(gadgets, "old")
	s.awaitMetrics("the kind without permission to be reported", func(text string) bool {
		return strings.Contains(text, `curfew_default_label_kinds_skipped{group="`+gadgets.Group+`",kind="Gadget",reason="permission"} 1`)
	})
}
