package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CleanupMatch selects objects, like the matchConstraints of a ValidatingAdmissionPolicy.
type CleanupMatch struct {
	// resourceRules name the resources. An object must match at least one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules"`
	// namespaceSelector matches the labels of the object's namespace; the label
	// kubernetes.io/metadata.name has its name. A selector with any requirement matches no
	// cluster-scoped object. Absent or empty matches every namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector matches the labels of the object. Absent or empty matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// CleanupExclusion selects objects that are kept.
//
// +kubebuilder:validation:MinProperties=1
type CleanupExclusion struct {
	// resourceRules name the resources. An object must match at least one. Absent matches every
	// resource.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules,omitempty"`
	// namespaceSelector matches the labels of the object's namespace. Absent or empty matches every
	// object.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector matches the labels of the object. Absent or empty matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// ResourceRule matches resources by group, version and plural name, and objects by name.
type ResourceRule struct {
	// apiGroups, such as apps. "" is the core group, "*" matches any group.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	APIGroups []string `json:"apiGroups"`
	// apiVersions are the versions in which Curfew reads the objects. Absent or "*" means the version
	// that the API server prefers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	APIVersions []string `json:"apiVersions,omitempty"`
	// resources are plural names in lower case, such as deployments. "*" matches any resource, except
	// those that wildcards never match: Namespaces, CustomResourceDefinitions, APIServices,
	// PersistentVolumes, Nodes, RBAC, webhook configurations, Events, Leases, EndpointSlices, the
	// ConfigMap kube-root-ca.crt and the ServiceAccount default. Subresources match nothing.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$`
	Resources []string `json:"resources"`
	// resourceNames are names of objects. "*" matches any number of characters and "?" one. Absent
	// matches every name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// CleanupCondition is a CEL expression that must be true.
type CleanupCondition struct {
	// name of the condition, for messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// expression is a CEL expression over object, namespaceObject, now, variables and lookup. It
	// returns true or false; null counts as false.
	// +required
	Expression Expression `json:"expression"`
}

// CleanupVariable is a named CEL expression.
type CleanupVariable struct {
	// name of the variable: a CEL identifier.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[_a-zA-Z][_a-zA-Z0-9]*$`
	Name string `json:"name"`
	// expression is a CEL expression over object, namespaceObject, now and the variables before it.
	// +required
	Expression Expression `json:"expression"`
}

// KeepNewest keeps the newest of the matching objects.
type KeepNewest struct {
	// count is how many objects of each group are kept. At least 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Count int32 `json:"count"`
	// groupBy is a CEL expression that returns a string: objects with the same one are a group.
	// Objects of different kinds or namespaces are always in different groups. Absent means one group
	// for each kind and namespace. An object on which it fails is kept. Example:
	// object.metadata.labels["app"]
	// +optional
	GroupBy *Expression `json:"groupBy,omitempty"`
	// sortBy is a CEL expression that returns a timestamp; the newest objects have the latest. An
	// object on which it fails is kept. Absent means object.metadata.creationTimestamp.
	// +optional
	SortBy *Expression `json:"sortBy,omitempty"`
}
