package policy

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// essentialGroups and essentialKinds list kinds that a cluster depends on, or that are not worth a
// label. Nothing that matches objects by rule, instead of by their own label, reaches them.
var (
	essentialGroups = []string{
		Group, "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
		"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io",
	}
	essentialKinds = []schema.GroupKind{{Kind: "Endpoints"}, {Kind: "Event"}, {Kind: "Namespace"}, {Kind: "Node"}, {Kind: "PersistentVolume"}}
)

// EssentialKind reports whether objects of a kind are never given a default TTL label.
func EssentialKind(kind schema.GroupKind) bool {
	return slices.Contains(essentialGroups, kind.Group) || slices.Contains(essentialKinds, kind)
}

// Essential reports the same of one object.
func (f *Facts) Essential() bool {
	return EssentialKind(f.Profile.Kind.GroupKind()) || f.EssentialObject()
}

// EssentialObject reports whether Kubernetes itself needs the object: it creates two of them in
// each namespace, again if they are deleted, and the Service by which Pods reach the API server.
func (f *Facts) EssentialObject() bool {
	kind := f.Profile.Kind.GroupKind()
	return kind == schema.GroupKind{Kind: "ConfigMap"} && f.Name == "kube-root-ca.crt" ||
		kind == schema.GroupKind{Kind: "ServiceAccount"} && f.Name == "default" ||
		kind == schema.GroupKind{Kind: "Service"} && f.Namespace == "default" && f.Name == "kubernetes"
}
