package v1alpha1

// DeadlineRules define whether objects of a kind can get a default deadline, who enforces
// deadlines, and how an object is stopped.
type DeadlineRules struct {
	// allowDefault lets namespaces and policies set a default deadline for objects of this kind.
	// Defaults to false.
	// +optional
	AllowDefault bool `json:"allowDefault,omitempty"`
	// immutable rejects requests that add, change or remove a deadline after creation, whether in the
	// field or the annotation. Defaults to false.
	// +optional
	Immutable bool `json:"immutable,omitempty"`
	// enforcement lists the ways to enforce a deadline, for different versions of the kind. Curfew
	// uses the first entry that has no ifServed, or whose ifServed field is in the installed
	// CustomResourceDefinition.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Enforcement []Enforcement `json:"enforcement"`
}

// Enforcement is one way to enforce a deadline.
//
// +kubebuilder:validation:XValidation:rule="self.by != 'Curfew' || has(self.stop)",message="stop is required where Curfew enforces the deadline"
// +kubebuilder:validation:XValidation:rule="self.by != 'Controller' || !has(self.stop) || has(self.acts)",message="acts is required where Curfew is the backstop: write how an object shows that its controller enforces the deadline, or true if every version with the field does"
// +kubebuilder:validation:XValidation:rule="!has(self.acts) || self.by == 'Controller' && has(self.stop)",message="acts is only for by: Controller with stop: it decides whether the controller or Curfew stops the object"
// +kubebuilder:validation:XValidation:rule="!has(self.stop) || size(self.stop) == 0 || self.stop[0].action in ['MarkFailed', 'Suspend']",message="the first step of stop must be MarkFailed or Suspend: nothing is deleted before the object was failed or suspended in the state that was judged"
type Enforcement struct {
	// ifServed limits this entry to versions of the kind whose schema has this field. Absent means
	// every version.
	// +optional
	IfServed *FieldPath `json:"ifServed,omitempty"`
	// by is who enforces the deadline: Controller or Curfew. Controller is the kind's own controller,
	// which reads the field fields.deadline. If stop is set too, Curfew enforces the deadline where
	// acts is not true; where acts is true, Curfew is the backstop graceSeconds later. Curfew means
	// that Curfew alone enforces the deadline, from the annotation curfew.dev/active-deadline or the
	// field.
	// +required
	// +kubebuilder:validation:Enum=Controller;Curfew
	By Enforcer `json:"by"`
	// acts is a CEL expression over object. It is true once the object shows that the kind's own
	// controller enforces the deadline in fields.deadline, for example by a status field that the
	// controller sets only then. A field in the schema is not enough: its feature gate may be off.
	// "true" means that every version with the field enforces it. If acts is false or fails, Curfew
	// enforces the deadline itself. If it is true for a new object, admission writes defaults and the
	// annotation curfew.dev/active-deadline into the field. Required with by: Controller and stop, and
	// not allowed otherwise.
	// +optional
	Acts *Expression `json:"acts,omitempty"`
	// graceSeconds is how many seconds after the deadline Curfew waits for the kind's own controller,
	// if acts is true. Between 0 and 3600. Defaults to 30.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	GraceSeconds int32 `json:"graceSeconds,omitempty"`
	// stop lists the steps that stop an object, in order. Curfew repeats each step until it succeeds.
	// The first step must be MarkFailed or Suspend. The other steps wait until it succeeds on exactly
	// the object that was judged. Required with by: Curfew. Absent with by: Controller means that
	// Curfew is not the backstop.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Stop []StopStep `json:"stop,omitempty"`
}

// Enforcer is who enforces a deadline.
type Enforcer string

// The values of Enforcer.
const (
	EnforcedByController Enforcer = "Controller"
	EnforcedByCurfew     Enforcer = "Curfew"
)

// StopStep is one step that stops an object.
//
// +kubebuilder:validation:XValidation:rule="self.action != 'Delete' || has(self.child)",message="Delete needs child: a deadline deletes only what the object runs, never the object"
// +kubebuilder:validation:XValidation:rule="self.action != 'Suspend' || !has(self.child)",message="Suspend acts on the object itself: remove child"
// +kubebuilder:validation:XValidation:rule="self.action == 'MarkFailed' || !has(self.status)",message="status is only for MarkFailed: remove it"
type StopStep struct {
	// action is MarkFailed, Delete, DeletePods or Suspend. MarkFailed sets a condition with reason
	// DeadlineExceeded in the status, and sets it again if it is removed. Delete deletes a child.
	// DeletePods deletes the running Pods. Suspend sets the field fields.suspend.
	// +required
	// +kubebuilder:validation:Enum=MarkFailed;Delete;DeletePods;Suspend
	Action StopAction `json:"action"`
	// child is the object that the step acts on. Absent means the object itself. Required for Delete,
	// not allowed for Suspend.
	// +optional
	Child *Child `json:"child,omitempty"`
	// conditionType is the type of the condition that MarkFailed sets. Defaults to Failed.
	// +optional
	// +kubebuilder:default=Failed
	// +kubebuilder:validation:MaxLength=316
	ConditionType string `json:"conditionType,omitempty"`
	// status contains further fields that MarkFailed writes directly under status, together with the
	// condition, as the kind's own controller would. Example: phase: Failed. Only for MarkFailed.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Status map[string]string `json:"status,omitempty"`
}

// StopAction is what a step does.
type StopAction string

// The values of StopAction.
const (
	StopMarkFailed StopAction = "MarkFailed"
	StopDelete     StopAction = "Delete"
	StopDeletePods StopAction = "DeletePods"
	StopSuspend    StopAction = "Suspend"
)

// Child is an object that the profiled object controls and runs.
type Child struct {
	ProfiledKind `json:",inline"`
	// named is how Curfew finds the child: Same or Owned. With Same, the child has the name of the
	// object. With Owned, the object is the controller owner of the child. In both cases Curfew acts
	// on the child only if the object is its controller owner. Defaults to Owned.
	// +optional
	// +kubebuilder:default=Owned
	// +kubebuilder:validation:Enum=Same;Owned
	Named ChildName `json:"named,omitempty"`
}

// ChildName is how Curfew finds a child.
type ChildName string

// The values of ChildName.
const (
	ChildNamedSame ChildName = "Same"
	ChildOwned     ChildName = "Owned"
)
