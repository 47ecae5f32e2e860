package v1alpha1

// Runtime is an object that others refer to: a training runtime, a pipeline, a workflow template. Its TTL is platform policy and
// comes before what the object that refers to it says. Its deadline is a default, written into new objects that have none.
type Runtime struct {
	// reference says which runtime an object uses. An object without a name there uses none.
	// +required
	Reference RuntimeReference `json:"reference"`
	// kinds that may be referred to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Kinds []RuntimeKind `json:"kinds"`
}

// RuntimeReference says where an object names its runtime.
//
// +kubebuilder:validation:XValidation:rule="has(self.kind) || has(self.defaultKind) || has(self.clusterScope)",message="set kind, defaultKind or clusterScope: one name can belong to several kinds"
type RuntimeReference struct {
	// name leads to the name of the runtime.
	// +required
	Name FieldPath `json:"name"`
	// apiGroup leads to the API group of the runtime.
	// +optional
	APIGroup *FieldPath `json:"apiGroup,omitempty"`
	// defaultAPIGroup holds where the object does not say.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultAPIGroup *string `json:"defaultAPIGroup,omitempty"`
	// kind leads to the kind of the runtime.
	// +optional
	Kind *FieldPath `json:"kind,omitempty"`
	// defaultKind holds where the object does not say.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DefaultKind *string `json:"defaultKind,omitempty"`
	// clusterScope leads to a boolean that picks the cluster-scoped of the kinds, for references that name no kind.
	// +optional
	ClusterScope *FieldPath `json:"clusterScope,omitempty"`
}

// RuntimeKind is a kind of runtime. A namespaced one is looked up in the namespace of the object that refers to it.
//
// Beside the fields named here, the annotations curfew.dev/ttl-after-finished, -succeeded and -failed of a runtime hold, and
// win over its fields.
type RuntimeKind struct {
	ProfiledKind `json:",inline"`
	// ttl leads to a TTL after finished in whole seconds; of several fields the first that is set holds.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	TTL []FieldPath `json:"ttl,omitempty"`
	// deadline leads to a deadline in whole seconds; of several fields the first that is set holds.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Deadline []FieldPath `json:"deadline,omitempty"`
}
