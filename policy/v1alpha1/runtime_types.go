package v1alpha1

// Runtime describes the runtimes that objects of a kind refer to, such as a training runtime, a
// pipeline or a workflow template. The TTL of a runtime is platform policy and overrides the TTL of
// the object that refers to it. Its deadline is a default: Curfew writes it into new objects that
// have none.
type Runtime struct {
	// reference contains the paths of the fields that name the runtime of an object. An object without
	// a name there uses no runtime.
	// +required
	Reference RuntimeReference `json:"reference"`
	// kinds of runtime that objects may refer to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Kinds []RuntimeKind `json:"kinds"`
}

// RuntimeReference defines how an object names its runtime.
//
// +kubebuilder:validation:XValidation:rule="has(self.kind) || has(self.defaultKind) || has(self.clusterScope)",message="set kind, defaultKind or clusterScope: one name can belong to several kinds"
type RuntimeReference struct {
	// name is the path of the field with the name of the runtime.
	// +required
	Name FieldPath `json:"name"`
	// apiGroup is the path of the field with the API group of the runtime. Absent means that only
	// defaultAPIGroup applies.
	// +optional
	APIGroup *FieldPath `json:"apiGroup,omitempty"`
	// defaultAPIGroup is the API group of the runtime if the object sets none. Absent means any group
	// in kinds.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultAPIGroup *string `json:"defaultAPIGroup,omitempty"`
	// kind is the path of the field with the kind of the runtime. Absent means that only defaultKind
	// applies.
	// +optional
	Kind *FieldPath `json:"kind,omitempty"`
	// defaultKind is the kind of the runtime if the object sets none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DefaultKind *string `json:"defaultKind,omitempty"`
	// clusterScope is the path of a boolean field, for references without a kind. True selects the
	// cluster-scoped kind of runtime, false or absent the namespaced one.
	// +optional
	ClusterScope *FieldPath `json:"clusterScope,omitempty"`
}

// RuntimeKind is a kind of runtime. Curfew looks up a namespaced runtime in the namespace of the
// object that refers to it.
//
// The annotations curfew.dev/ttl-after-finished, -succeeded and -failed on a runtime apply too, and
// override its fields.
type RuntimeKind struct {
	ProfiledKind `json:",inline"`
	// ttl lists the paths of fields with a TTL after finished, in whole seconds. The first field that
	// is set applies. Empty means that only annotations apply.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	TTL []FieldPath `json:"ttl,omitempty"`
	// deadline lists the paths of fields with a deadline, in whole seconds. The first field that is
	// set applies. Empty means that only annotations apply.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Deadline []FieldPath `json:"deadline,omitempty"`
}
