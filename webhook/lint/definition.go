package lint

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

var definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// addDefinition records whether a custom kind is namespaced.
func addDefinition(_ context.Context, w *world, document *Document) {
	group, _, _ := unstructured.NestedString(document.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(document.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(document.Object, "spec", "scope")
	w.clusterScoped[schema.GroupKind{Group: group, Kind: kind}] = scope == "Cluster"
}

// outsideOfNamespaces reports whether objects of a kind are cluster-scoped: by the documents, by
// the profile of the kind, or because it is built in. Unknown custom kinds are treated as
// namespaced, as most are.
func (w *world) outsideOfNamespaces(profile *policy.Profile) bool {
	kind := profile.Kind.GroupKind()
	if scoped, ok := w.clusterScoped[kind]; ok {
		return scoped
	}
	return profile.ClusterScoped || clusterScopedKinds[kind]
}

// clusterScopedKinds are those of Kubernetes and of Curfew itself.
var clusterScopedKinds = kindSet(map[string][]string{
	"":                             {"Namespace", "Node", "PersistentVolume", "ComponentStatus"},
	"admissionregistration.k8s.io": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "DeviceTaintRule", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "VolumeAttributesClass"},
	"storagemigration.k8s.io":      {"StorageVersionMigration"},
	policy.Group:                   {"LifecyclePolicy", "KindProfile", "ClusterCleanupPolicy"},
})

func kindSet(byGroup map[string][]string) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for group, kinds := range byGroup {
		for _, kind := range kinds {
			out[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return out
}

// ClusterScoped reports whether a built-in kind is cluster-scoped.
func ClusterScoped(kind schema.GroupKind) bool { return clusterScopedKinds[kind] }
