package v1alpha1

// DeadlineRules say whether objects of a kind may have a deadline, who enforces it, and how an object is stopped for good.
type DeadlineRules struct {
	// allowDefault lets namespaces and policies give objects of the kind a default deadline.
	// +optional
	AllowDefault bool `json:"allowDefault,omitempty"`
	// immutable refuses to add, change or remove a deadline after creation, field and annotation alike.
	// +optional
	Immutable bool `json:"immutable,omitempty"`
	// enforcement is how it is done. Kinds change from version to version, so that there can be several: the first whose ifServed
	// is in the installed CustomResourceDefinition holds, or the first without ifServed.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Enforcement []Enforcement `json:"enforcement"`
}

// Enforcement is one way in which a deadline is enforced.
//
// +kubebuilder:validation:XValidation:rule="self.by != 'Curfew' || has(self.stop)",message="stop is required where Curfew enforces the deadline"
// +kubebuilder:validation:XValidation:rule="self.by != 'Controller' || !has(self.stop) || has(self.acts)",message="acts is required where Curfew is the backstop: write how an object shows that its controller enforces the deadline, or true if every version with the field does"
// +kubebuilder:validation:XValidation:rule="!has(self.acts) || self.by == 'Controller' && has(self.stop)",message="acts is only for by: Controller with stop: it decides whether the controller or Curfew stops the object"
// +kubebuilder:validation:XValidation:rule="!has(self.stop) || size(self.stop) == 0 || self.stop[0].action in ['MarkFailed', 'Suspend']",message="the first step of stop must be MarkFailed or Suspend: nothing is deleted before the object was failed or suspended in the state that was judged"
type Enforcement struct {
	// ifServed limits this way to versions of the kind whose schema has the field.
	// +optional
	IfServed *FieldPath `json:"ifServed,omitempty"`
	// by is who enforces the deadline. Controller is the kind's own controller, by the field
	// fields.deadline; if stop is set, Curfew enforces it where acts is not true, and is the backstop
	// graceSeconds later where it is. Curfew is Curfew alone, by the annotation
	// curfew.dev/active-deadline or the field.
	// +required
	// +kubebuilder:validation:Enum=Controller;Curfew
	By Enforcer `json:"by"`
	// acts is a CEL expression over the variable object. It is true once the object shows that the
	// kind's own controller enforces the deadline in fields.deadline, for example by a field of the
	// status that the controller sets only then. A field in the schema is not enough: its feature gate
	// may be off. "true" means that every version with the field enforces it. Where acts is false, or
	// fails, Curfew enforces the deadline itself. Where it is true for a new object, admission writes
	// defaults and the annotation curfew.dev/active-deadline into the field.
	// +optional
	Acts *Expression `json:"acts,omitempty"`
	// graceSeconds is how long after the deadline Curfew waits for the kind's own controller, where
	// acts is true.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	GraceSeconds int32 `json:"graceSeconds,omitempty"`
	// stop are the steps that stop an object, in their order. Each is repeated until it holds. The first must be MarkFailed or
	// Suspend: the other steps wait until it succeeded on exactly the object that was judged.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Stop []StopStep `json:"stop,omitempty"`
}

// Enforcer is who enforces a deadline.
type Enforcer string

// The enforcers.
const (
	EnforcedByController Enforcer = "Controller"
	EnforcedByCurfew     Enforcer = "Curfew"
)

// StopStep is one step that stops an object.
//
// +kubebuilder:validation:XValidation:rule="self.action != 'Delete' || has(self.child)",message="Delete needs child: Curfew deletes no object for its deadline, only what it runs"
// +kubebuilder:validation:XValidation:rule="self.action != 'Suspend' || !has(self.child)",message="Suspend acts on the object itself: leave child out"
// +kubebuilder:validation:XValidation:rule="self.action == 'MarkFailed' || !has(self.status)",message="status is what MarkFailed writes: leave it out"
type StopStep struct {
	// action: MarkFailed sets the condition Failed with reason DeadlineExceeded in the status, and sets it again if it is taken
	// away. Delete deletes a child. DeletePods deletes the running Pods. Suspend sets the field fields.suspend.
	// +required
	// +kubebuilder:validation:Enum=MarkFailed;Delete;DeletePods;Suspend
	Action StopAction `json:"action"`
	// child that the step acts on; absent means the object itself.
	// +optional
	Child *Child `json:"child,omitempty"`
	// conditionType is the condition that MarkFailed sets.
	// +optional
	// +kubebuilder:default=Failed
	// +kubebuilder:validation:MaxLength=316
	ConditionType string `json:"conditionType,omitempty"`
	// status are further fields right below the status that MarkFailed writes with the condition, because the kind's own controller
	// would: the phase Failed, for example.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Status map[string]string `json:"status,omitempty"`
}

// StopAction is what a step does.
type StopAction string

// The actions.
const (
	StopMarkFailed StopAction = "MarkFailed"
	StopDelete     StopAction = "Delete"
	StopDeletePods StopAction = "DeletePods"
	StopSuspend    StopAction = "Suspend"
)

// Child is what an object runs: an object that it controls.
type Child struct {
	ProfiledKind `json:",inline"`
	// named says how the child is found. Same: it has the name of the object. Owned: it has the object as its controller.
	// Either way it is touched only if the object is its controller.
	// +optional
	// +kubebuilder:default=Owned
	// +kubebuilder:validation:Enum=Same;Owned
	Named ChildName `json:"named,omitempty"`
}

// ChildName is how a child is found.
type ChildName string

// The ways.
const (
	ChildNamedSame ChildName = "Same"
	ChildOwned     ChildName = "Owned"
)
