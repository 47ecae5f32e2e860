package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindProfile describes a kind to Curfew: when its objects are finished, and which of its fields
// set a TTL or deadline. It also says where its pod templates are, and how to stop an object
// without its controller starting it again.
//
// Curfew ships with built-in profiles for many kinds. A KindProfile in the cluster replaces the
// built-in profile for the same group and kind, except for Jobs and Pods. If several KindProfiles
// describe the same group and kind, the first by name applies.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=kprof,categories=curfew
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.kind.group`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kind.version`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind.kind`
// +kubebuilder:printcolumn:name="TTL field",type=string,JSONPath=`.spec.fields.ttl`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KindProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the kind.
	// +required
	Spec KindProfileSpec `json:"spec"`
	// status is written by Curfew.
	// +optional
	Status KindProfileStatus `json:"status,omitempty"`
}

// KindProfileList is a list of KindProfiles.
//
// +kubebuilder:object:root=true
type KindProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KindProfile `json:"items"`
}

// KindProfileSpec describes a kind.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || has(self.state)",message="a deadline needs state: Curfew must know whether an object has started and finished"
// +kubebuilder:validation:XValidation:rule="!has(self.fields) || !(has(self.fields.ttl) || has(self.fields.ttlSucceeded) || has(self.fields.ttlFailed)) || has(self.state)",message="a TTL field needs state: Curfew must know when an object has finished"
// +kubebuilder:validation:XValidation:rule="!has(self.runtime) || has(self.state)",message="a runtime needs state: its TTL counts from the finish time of the objects that use it"
type KindProfileSpec struct {
	// kind that the profile describes. Job and Pod are not allowed: Curfew has its own code for them.
	// group and kind are immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="!(self.kind == 'Job' && has(self.group) && self.group == 'batch' || self.kind == 'Pod' && (!has(self.group) || self.group == ''))",message="Curfew has code of its own for Jobs and Pods, which no KindProfile replaces"
	// +kubebuilder:validation:XValidation:rule="(has(self.group) ? self.group : '') == (has(oldSelf.group) ? oldSelf.group : '') && self.kind == oldSelf.kind",message="group and kind are immutable: create another KindProfile"
	Kind ProfiledKind `json:"kind"`
	// state contains the CEL expressions that read the state of an object, such as finished. Absent
	// means that objects of this kind never finish. Only the rules for pod templates, forbidden
	// fields, TTL labels and protection then apply.
	// +optional
	State *StateExpressions `json:"state,omitempty"`
	// fields are the paths of the kind's own fields for TTL, deadline and suspension. If a TTL or
	// deadline field is absent here, or is not in the installed CustomResourceDefinition, Curfew uses
	// annotations instead.
	// +optional
	Fields *NativeFields `json:"fields,omitempty"`
	// podTemplates are the paths of pod templates (objects with metadata and spec) inside an object.
	// Curfew rejects a TTL or deadline in them, as annotation or label: it would delete the Pods one
	// by one, and their controller would create them again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PodTemplates []FieldPath `json:"podTemplates,omitempty"`
	// templates are the paths of templates of objects of other kinds. Curfew applies the profiles of
	// those kinds to them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Templates []ObjectTemplate `json:"templates,omitempty"`
	// references are the fields that name objects of other kinds. Lookups of cleanup policies count
	// such an object as used. lookup.referenced also finds names in all other fields. lookup.mounted
	// finds claims in pod templates and in these fields only. lookup.dangling reports objects of a
	// custom kind if one of these fields names nothing that exists.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	References []NamedObject `json:"references,omitempty"`
	// inheritedMetadata are the paths of objects with labels and annotations that the kind's
	// controller copies onto the objects that it creates. Curfew rejects a TTL or deadline in them: it
	// would delete those objects, and the controller would create them again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	InheritedMetadata []FieldPath `json:"inheritedMetadata,omitempty"`
	// forbiddenFields are fields that objects of this kind must not set. Curfew rejects an object that
	// sets one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ForbiddenFields []ForbiddenField `json:"forbiddenFields,omitempty"`
	// runtime describes the runtime that objects of this kind refer to. The TTL of the runtime
	// overrides the TTL of the object. The deadline of the runtime applies if the object has none.
	// Absent means that objects use no runtime.
	// +optional
	Runtime *Runtime `json:"runtime,omitempty"`
	// deadline defines who enforces deadlines, and how an object is stopped. Absent means that Curfew
	// enforces no deadline for this kind.
	// +optional
	Deadline *DeadlineRules `json:"deadline,omitempty"`
	// controllerAccounts are the user names of the controllers that create objects for objects of this
	// kind, such as system:serviceaccount:jobset-system:jobset-controller-manager. If a rule denies
	// such an object, admission only warns: the value may be older than the rule. Curfew keeps the
	// object and reports it. The same applies to objects of this kind with an owner of the same API
	// group. List no account that a tenant can use.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ControllerAccounts []string `json:"controllerAccounts,omitempty"`
	// propagationPolicy for Curfew's deletions of objects of this kind. Background deletes the object
	// first and then its dependents. Foreground deletes the dependents first. Orphan keeps them. A
	// LifecyclePolicy overrides it. Absent means the flag --propagation.
	// +optional
	// +kubebuilder:validation:Enum=Background;Foreground;Orphan
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
}

// ProfiledKind is a kind as the API server serves it.
type ProfiledKind struct {
	// group of the kind. Empty means the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// version that the paths and expressions of the profile are written for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// kind, such as JobSet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// resource name of the kind in URLs, lower case and plural, such as jobsets.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
	// scope of the kind: Namespaced or Cluster. Defaults to Namespaced.
	// +optional
	// +kubebuilder:default=Namespaced
	Scope Scope `json:"scope,omitempty"`
}

// Scope is whether objects of a kind are namespaced or cluster-scoped.
//
// +kubebuilder:validation:Enum=Namespaced;Cluster
type Scope string

// The scopes.
const (
	ScopeNamespaced Scope = "Namespaced"
	ScopeCluster    Scope = "Cluster"
)

// StateExpressions are CEL expressions over object. If one of them fails on an object, Curfew keeps
// the object.
type StateExpressions struct {
	// finished is a CEL expression over object. It is true once execution has ended for good. Example:
	// object.?status.?phase.orValue("") in ["Succeeded", "Failed"]
	// +required
	Finished Expression `json:"finished"`
	// finishTime is a CEL expression over object. It returns when execution ended: a timestamp, an RFC
	// 3339 string, or null if the object does not show it. With null, Curfew keeps the object and
	// reports it with an Event. Evaluated only for finished objects.
	// +required
	FinishTime Expression `json:"finishTime"`
	// outcome is a CEL expression over object. It returns "Succeeded", "Failed" or "Error". "Error"
	// counts as failed, but the field fields.ttlFailed does not apply to it. Use it for kinds whose
	// own controller distinguishes the two. Evaluated only for finished objects.
	// +required
	Outcome Expression `json:"outcome"`
	// started is a CEL expression over object. It returns when the object became active: a timestamp,
	// an RFC 3339 string, or null if it is not active yet. The deadline counts from this time. Absent
	// means that the deadline counts from creation. Evaluated only for objects that are not suspended.
	// +optional
	Started *Expression `json:"started,omitempty"`
	// suspended is a CEL expression over object. It is true while the object is suspended. The
	// deadline does not run during that time. Absent means that objects are never suspended.
	// +optional
	Suspended *Expression `json:"suspended,omitempty"`
}

// ObjectTemplate is a template of objects of another kind.
type ObjectTemplate struct {
	// path of the template, an object with metadata and spec.
	// +required
	Path FieldPath `json:"path"`
	// kind of the objects that are created from the template.
	// +required
	Kind GroupKind `json:"kind"`
}

// NamedObject is a field that names an object of another kind.
type NamedObject struct {
	// path of the field with the name, or with namespace/name. lookup.mounted finds namespace/name
	// only in objects of the same namespace, unless namespacePath is set.
	// +required
	Path FieldPath `json:"path"`
	// kind of the object: one group and one kind.
	// +required
	Kind GroupKind `json:"kind"`
	// namespacePath is the path of the field with the namespace of the object. It may go through the
	// lists that path goes through, and no others. If it or the field is absent, the object is in the
	// namespace of the object that names it.
	// +optional
	NamespacePath *FieldPath `json:"namespacePath,omitempty"`
}

// ForbiddenField is a field that objects must not set.
type ForbiddenField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// reason why the field must not be set, and what to do instead. Curfew includes it in the
	// rejection message.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`
}

// KindProfileStatus is the observed state of a KindProfile.
type KindProfileStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the profile. Ready reports whether every expression and path is usable. If not,
	// the message names the field and the reason.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// NativeFields are the paths of the kind's own fields for TTL, deadline, suspension and controller.
type NativeFields struct {
	// ttl is the path of the field with the TTL after finished, in whole seconds. Admission sets the
	// field, and the kind's own controller may delete the object before Curfew does.
	// +optional
	TTL *FieldPath `json:"ttl,omitempty"`
	// ttlSucceeded is the path of the field with the TTL after finished for objects that succeeded, in
	// whole seconds. It overrides ttl.
	// +optional
	TTLSucceeded *FieldPath `json:"ttlSucceeded,omitempty"`
	// ttlFailed is the path of the field with the TTL after finished for objects that failed, in whole
	// seconds. It overrides ttl. It does not apply to objects with outcome "Error", because the kind's
	// own controller does not apply it to them.
	// +optional
	TTLFailed *FieldPath `json:"ttlFailed,omitempty"`
	// deadline is the path of the field that limits how long an object may be active. See
	// deadlineFormat for its unit.
	// +optional
	Deadline *FieldPath `json:"deadline,omitempty"`
	// deadlineFormat is the format of the deadline field: Seconds or Duration. Seconds is a whole
	// number. Duration is a string such as "1h0m0s", where 0 means no deadline. Defaults to Seconds.
	// +optional
	// +kubebuilder:default=Seconds
	// +kubebuilder:validation:Enum=Seconds;Duration
	DeadlineFormat DeadlineFormat `json:"deadlineFormat,omitempty"`
	// suspend is the field that suspends an object, and the value to set.
	// +optional
	Suspend *SuspendField `json:"suspend,omitempty"`
	// managedBy is the field that assigns an object to another controller.
	// +optional
	ManagedBy *ManagedByField `json:"managedBy,omitempty"`
}

// DeadlineFormat is the format of a deadline field.
type DeadlineFormat string

// The formats.
const (
	FormatSeconds  DeadlineFormat = "Seconds"
	FormatDuration DeadlineFormat = "Duration"
)

// SuspendField is the field that suspends an object.
type SuspendField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// value that suspends the object. "true" and "false" are written as booleans, any other value as a
	// string. Defaults to "true".
	// +optional
	// +kubebuilder:default="true"
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
}

// ManagedByField is the field that assigns an object to another controller. Such an object gets no
// default.
type ManagedByField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// default is the value for the kind's own controller. An absent field means the same.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Default string `json:"default"`
}

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
