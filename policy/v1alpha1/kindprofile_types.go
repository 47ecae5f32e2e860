package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindProfile teaches Curfew a kind: when its objects are finished, where its own fields for TTL and deadline are, which pod
// templates it holds, and how one of its objects is stopped without its controller starting it again.
//
// Profiles for many kinds come with Curfew. A KindProfile in the cluster for the same group and kind replaces a built-in one,
// except for Jobs and Pods. Of two in the cluster, the first by name applies.
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

	// spec is what there is to know of the kind.
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

// KindProfileSpec is what there is to know of a kind.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || has(self.state)",message="a deadline needs state: Curfew has to know whether an object has started and finished"
// +kubebuilder:validation:XValidation:rule="!has(self.fields) || !(has(self.fields.ttl) || has(self.fields.ttlSucceeded) || has(self.fields.ttlFailed)) || has(self.state)",message="a TTL field needs state: Curfew has to know when an object has finished"
// +kubebuilder:validation:XValidation:rule="!has(self.runtime) || has(self.state)",message="a runtime needs state: its TTL counts from the end of what uses it"
type KindProfileSpec struct {
	// kind that the profile describes. Not Job or Pod: Curfew has code of its own for these.
	// +required
	// +kubebuilder:validation:XValidation:rule="!(self.kind == 'Job' && has(self.group) && self.group == 'batch' || self.kind == 'Pod' && (!has(self.group) || self.group == ''))",message="Curfew has code of its own for Jobs and Pods, which no KindProfile replaces"
	// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group && self.kind == oldSelf.kind",message="group and kind are immutable: create another KindProfile"
	Kind ProfiledKind `json:"kind"`
	// state reads from an object where it stands in its life. Absent for kinds that never finish: on those only pod templates,
	// forbidden fields, TTL labels and protection speak.
	// +optional
	State *StateExpressions `json:"state,omitempty"`
	// fields are the kind's own fields. Absent, or not in the installed CustomResourceDefinition, means that annotations are used.
	// +optional
	Fields *NativeFields `json:"fields,omitempty"`
	// podTemplates lead to pod templates (objects with metadata and spec) inside an object. A TTL or deadline in there, as
	// annotation or label, is denied: Curfew would delete the Pods one by one, and their controller would create them again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PodTemplates []FieldPath `json:"podTemplates,omitempty"`
	// templates lead to templates of objects of other kinds, whose own profiles are applied to them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Templates []ObjectTemplate `json:"templates,omitempty"`
	// inheritedMetadata leads to objects with labels and annotations that the kind's controller copies onto the objects it
	// creates. A TTL or deadline in there is denied: Curfew would delete those objects, and the controller would create them again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	InheritedMetadata []FieldPath `json:"inheritedMetadata,omitempty"`
	// forbiddenFields must not be set in an object of this kind.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ForbiddenFields []ForbiddenField `json:"forbiddenFields,omitempty"`
	// runtime is an object that others refer to. Its TTL holds for them before their own, and its deadline where they have none.
	// +optional
	Runtime *Runtime `json:"runtime,omitempty"`
	// deadline says whether objects may have one, who enforces it and how an object is stopped.
	// +optional
	Deadline *DeadlineRules `json:"deadline,omitempty"`
	// propagationPolicy of deletions by TTL. Background deletes the object and then what it owns.
	// +optional
	// +kubebuilder:validation:Enum=Background;Foreground;Orphan
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
}

// ProfiledKind is a kind as the API server serves it.
type ProfiledKind struct {
	// group of the kind; empty for the core group.
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
	// resource is the kind in URLs: lower case and plural, such as jobsets.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`
	// scope of the kind.
	// +optional
	// +kubebuilder:default=Namespaced
	Scope Scope `json:"scope,omitempty"`
}

// Scope is where objects of a kind live.
//
// +kubebuilder:validation:Enum=Namespaced;Cluster
type Scope string

// The scopes.
const (
	ScopeNamespaced Scope = "Namespaced"
	ScopeCluster    Scope = "Cluster"
)

// StateExpressions are CEL expressions over the variable object. Where one of them fails on an object, that object is kept.
type StateExpressions struct {
	// finished is true once execution has ended for good. Example:
	// object.?status.?phase.orValue("") in ["Succeeded", "Failed"]
	// +required
	Finished Expression `json:"finished"`
	// finishTime is when it ended: a timestamp, an RFC 3339 string, or null where the object does not say; Curfew then keeps the
	// object and reports it with an Event. Only asked of finished objects.
	// +required
	FinishTime Expression `json:"finishTime"`
	// outcome is "Succeeded", "Failed" or "Error". Only asked of finished objects. "Error" counts as failed, but fields.ttlFailed does
	// not speak of it, for kinds whose own controller tells the two apart.
	// +required
	Outcome Expression `json:"outcome"`
	// started is when it became active: a timestamp, an RFC 3339 string, or null for not yet. The clock of a deadline starts
	// then. Without this expression it starts at creation. Only asked of objects that are not suspended.
	// +optional
	Started *Expression `json:"started,omitempty"`
	// suspended is true while the object is not to be active; a deadline does not run then. Absent means never.
	// +optional
	Suspended *Expression `json:"suspended,omitempty"`
}

// NativeFields are the fields that a kind itself has for what Curfew does.
type NativeFields struct {
	// ttl leads to a TTL after finished in whole seconds. Admission fills it in, and the kind's controller may act on it first.
	// +optional
	TTL *FieldPath `json:"ttl,omitempty"`
	// ttlSucceeded leads to a field that says the same for objects that succeeded, and wins over ttl.
	// +optional
	TTLSucceeded *FieldPath `json:"ttlSucceeded,omitempty"`
	// ttlFailed leads to a field that says the same for objects that failed, and wins over ttl. Its controller, and so Curfew, does
	// not take it for objects whose outcome is "Error".
	// +optional
	TTLFailed *FieldPath `json:"ttlFailed,omitempty"`
	// deadline leads to the time that an object may be active.
	// +optional
	Deadline *FieldPath `json:"deadline,omitempty"`
	// deadlineFormat is how the field deadline is written: Seconds is a whole number, Duration a string such as "1h0m0s", of which 0
	// means that there is no deadline.
	// +optional
	// +kubebuilder:default=Seconds
	// +kubebuilder:validation:Enum=Seconds;Duration
	DeadlineFormat DeadlineFormat `json:"deadlineFormat,omitempty"`
	// suspend leads to the field that suspends an object.
	// +optional
	Suspend *SuspendField `json:"suspend,omitempty"`
	// managedBy leads to the field that hands an object to another controller.
	// +optional
	ManagedBy *ManagedByField `json:"managedBy,omitempty"`
}

// DeadlineFormat is how a field holds a deadline.
type DeadlineFormat string

// The formats.
const (
	FormatSeconds  DeadlineFormat = "Seconds"
	FormatDuration DeadlineFormat = "Duration"
)

// SuspendField suspends an object.
type SuspendField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// value that suspends: "true" and "false" mean the booleans, anything else a string.
	// +optional
	// +kubebuilder:default="true"
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
}

// ManagedByField hands an object to another controller. Such an object gets no default.
type ManagedByField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// default is the value that means the kind's own controller, the same as an absent field.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Default string `json:"default"`
}

// ObjectTemplate is a template of objects of another kind.
type ObjectTemplate struct {
	// path that leads to the template, an object with metadata and spec.
	// +required
	Path FieldPath `json:"path"`
	// kind of what is made from the template.
	// +required
	Kind GroupKind `json:"kind"`
}

// ForbiddenField must not be set.
type ForbiddenField struct {
	// path of the field.
	// +required
	Path FieldPath `json:"path"`
	// reason says why, and what to do instead. It ends up in the refusal.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`
}

// KindProfileStatus is what Curfew says about a profile.
type KindProfileStatus struct {
	// observedGeneration is the generation of the spec that the rest of the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready says whether every expression and path can be used, and which fails where.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}
