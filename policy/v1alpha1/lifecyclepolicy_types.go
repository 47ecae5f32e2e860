package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LifecyclePolicy lays down how long things may stay once they have finished, and how long they may run, for many namespaces
// at once.
//
// Its defaults reach an object where neither the object, nor the runtime it uses, nor its namespace says anything. Of all
// policies that match an object, the one of highest priority that says something decides; equals go by name. Bounds of all
// matching policies hold together.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=lcp,categories=curfew
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="TTL",type=string,JSONPath=`.spec.defaults.ttl.value`,description="Default TTL after finished, where it is a constant"
// +kubebuilder:printcolumn:name="Deadline",type=string,JSONPath=`.spec.defaults.deadline.value`
// +kubebuilder:printcolumn:name="Max TTL",type=string,JSONPath=`.spec.bounds.maxTTL`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Since",type=string,JSONPath=`.status.defaults.sinceTime`,description="When the present defaults took effect",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LifecyclePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the policy lays down.
	// +required
	Spec LifecyclePolicySpec `json:"spec"`
	// status is written by Curfew.
	// +optional
	Status LifecyclePolicyStatus `json:"status,omitempty"`
}

// LifecyclePolicyList is a list of LifecyclePolicies.
//
// +kubebuilder:object:root=true
type LifecyclePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LifecyclePolicy `json:"items"`
}

// LifecyclePolicySpec is what a policy lays down.
//
// +kubebuilder:validation:XValidation:rule="has(self.defaults) || has(self.bounds) || has(self.warnBelow) || has(self.propagationPolicy)",message="the policy says nothing: set defaults, bounds, warnBelow or propagationPolicy"
type LifecyclePolicySpec struct {
	// match selects the objects that the policy speaks of. What is left out selects everything.
	// +optional
	Match Match `json:"match,omitempty"`
	// defaults are given to objects about which nothing closer to them says anything.
	// +optional
	Defaults *Defaults `json:"defaults,omitempty"`
	// bounds limit what authors may set. A value outside is rejected (see mode), a default is
	// clamped. Namespaces may narrow them and not widen them.
	// +optional
	Bounds *Bounds `json:"bounds,omitempty"`
	// warnBelow is the TTL under which authors are warned that logs and status will be gone before they look. Absent means 60s.
	// +optional
	WarnBelow *Duration `json:"warnBelow,omitempty"`
	// mode is what Curfew does with the policy. Enforce fills in defaults and rejects values
	// outside the bounds. Warn fills in defaults, and admits values outside the bounds with a
	// warning. DryRun changes, rejects and deletes nothing because of this policy: admission warns
	// what it would do, and the controller reports what only this policy's default would delete.
	// Objects created while the mode is DryRun count as older than the defaults.
	// +optional
	// +kubebuilder:default=Enforce
	Mode PolicyMode `json:"mode,omitempty"`
	// propagationPolicy is what happens to the dependents of matching objects that Curfew deletes:
	// Background deletes the object first and then its dependents, Foreground the dependents first,
	// Orphan keeps them. It overrides the KindProfile and flag --propagation.
	// +optional
	// +kubebuilder:validation:Enum=Background;Foreground;Orphan
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
	// priority decides between policies that match the same object: the highest that says something holds.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
	// backfill lets the defaults reach objects that are older than the defaults, at a capped rate. Without it a new default
	// never shortens the life of what exists already.
	// +optional
	Backfill bool `json:"backfill,omitempty"`
}

// PolicyMode is what Curfew does with a policy.
//
// +kubebuilder:validation:Enum=Enforce;Warn;DryRun
type PolicyMode string

// The modes.
const (
	PolicyEnforce PolicyMode = "Enforce"
	PolicyWarn    PolicyMode = "Warn"
	PolicyDryRun  PolicyMode = "DryRun"
)

// Match selects objects. All parts have to fit.
type Match struct {
	// kinds that the policy speaks of. Empty means every kind with a profile, and bounds then hold for the TTL labels of all others too.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Kinds []GroupKind `json:"kinds,omitempty"`
	// namespaceSelector selects by the labels of the object's namespace. A selector with any requirement matches no
	// cluster-scoped object.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector selects by the labels of the object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// matchConditions are CEL expressions that all have to be true. They know the variables object, namespaceObject (null for
	// cluster-scoped objects) and runtime (null where the object uses none). An object on which one of them fails is left as it
	// is: it gets no default, is not refused and does not go, and the condition Ready says so.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
}

// MatchCondition is one CEL expression that has to be true.
type MatchCondition struct {
	// name of the condition, for messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// expression has to evaluate to true or false.
	// +required
	Expression Expression `json:"expression"`
}

// Bounds of a policy. Absent means no bound.
//
// +kubebuilder:validation:MinProperties=1
type Bounds struct {
	// minTTL is the shortest TTL after finished.
	// +optional
	MinTTL *Duration `json:"minTTL,omitempty"`
	// maxTTL is the longest TTL after finished. It also rejects never.
	// +optional
	MaxTTL *Duration `json:"maxTTL,omitempty"`
	// minTTLLabel is the shortest lifetime that a TTL label may set, from the creation of the object
	// to its expiry.
	// +optional
	MinTTLLabel *Duration `json:"minTTLLabel,omitempty"`
	// maxTTLLabel is the longest lifetime that a TTL label may set, from the creation of the object
	// to its expiry.
	// +optional
	MaxTTLLabel *Duration `json:"maxTTLLabel,omitempty"`
	// minDeadline is the shortest deadline.
	// +optional
	MinDeadline *Duration `json:"minDeadline,omitempty"`
	// maxDeadline is the longest deadline.
	// +optional
	MaxDeadline *Duration `json:"maxDeadline,omitempty"`
	// latestDate is the last day (UTC) that a TTL label may name, such as 2026-12-31.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
	// +kubebuilder:validation:Format=date
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	LatestDate *string `json:"latestDate,omitempty"`
}

// LifecyclePolicyStatus is what Curfew says about a policy.
type LifecyclePolicyStatus struct {
	// observedGeneration is the generation of the spec that the rest of the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// defaults say since when the present defaults are in effect. Absent for a policy without
	// defaults.
	// +optional
	Defaults *DefaultsStatus `json:"defaults,omitempty"`
	// conditions: Ready says whether every expression and field can be used, and which fails where.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// DefaultsStatus says since when the defaults of a policy are in effect.
type DefaultsStatus struct {
	// sinceTime is when the defaults took effect. Objects created later that admission did not see
	// get the defaults as well.
	// +required
	SinceTime metav1.Time `json:"sinceTime"`
	// hash of the fields that decide the defaults. If it does not match the spec, the defaults have
	// changed, and sinceTime does not apply to them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Hash string `json:"hash"`
}
