package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LifecyclePolicy sets default TTLs, default deadlines and bounds for objects in many namespaces.
//
// A default applies to an object only if the object, its runtime and its namespace set no value. If
// several policies match, the policy with the highest priority that has a value decides, then the
// first by name. The bounds of all matching policies apply together.
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

	// spec of the policy.
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

// LifecyclePolicySpec contains the settings of a policy. At least one of defaults, bounds,
// warnBelow and propagationPolicy is required.
//
// +kubebuilder:validation:XValidation:rule="has(self.defaults) || has(self.bounds) || has(self.warnBelow) || has(self.propagationPolicy)",message="the policy has no effect: set defaults, bounds, warnBelow or propagationPolicy"
type LifecyclePolicySpec struct {
	// match selects the objects that the policy applies to. An absent part matches everything.
	// +optional
	Match Match `json:"match,omitempty"`
	// defaults apply to an object if the object, its runtime and its namespace set no value. Absent
	// means no defaults.
	// +optional
	Defaults *Defaults `json:"defaults,omitempty"`
	// bounds limit the values that authors may set. Curfew rejects a value outside the bounds (see
	// mode) and clamps a default. Namespaces can narrow the bounds but not widen them. Absent means no
	// bounds.
	// +optional
	Bounds *Bounds `json:"bounds,omitempty"`
	// warnBelow is the TTL below which Curfew warns authors that logs and status may be deleted before
	// anyone reads them. A duration such as "5m". Absent or "0" means 60s.
	// +optional
	WarnBelow *Duration `json:"warnBelow,omitempty"`
	// mode is how Curfew applies the policy: Enforce, Warn or DryRun. Enforce fills in defaults and
	// rejects values outside the bounds. Warn fills in defaults, and admits values outside the bounds
	// with a warning. DryRun changes, rejects and deletes nothing because of this policy: admission
	// warns about what it would do, and the controller reports which objects only this policy's
	// default would delete. Objects that it gave a default earlier are kept too, unless the value is
	// in a native field, by which the kind's own controller deletes them. Objects created while the
	// mode is DryRun count as older than the defaults. Defaults to Enforce.
	// +optional
	// +kubebuilder:default=Enforce
	Mode PolicyMode `json:"mode,omitempty"`
	// propagationPolicy is what happens to the dependents of matching objects that Curfew deletes.
	// Background deletes the object first and then its dependents. Foreground deletes the dependents
	// first. Orphan keeps them. It overrides the KindProfile and the flag --propagation. Absent means
	// that the policy does not set it. With mode DryRun it has no effect.
	// +optional
	// +kubebuilder:validation:Enum=Background;Foreground;Orphan
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
	// priority orders the policies that match the same object. The policy with the highest priority
	// that has a value decides. Between -1000000 and 1000000. Defaults to 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`
	// backfill applies the defaults to objects that are older than the defaults too, at a limited
	// rate. Defaults to false: a new default never shortens the lifetime of existing objects.
	// +optional
	Backfill bool `json:"backfill,omitempty"`
}

// PolicyMode is how Curfew applies a policy.
//
// +kubebuilder:validation:Enum=Enforce;Warn;DryRun
type PolicyMode string

// The modes.
const (
	PolicyEnforce PolicyMode = "Enforce"
	PolicyWarn    PolicyMode = "Warn"
	PolicyDryRun  PolicyMode = "DryRun"
)

// Match selects objects. An object must match all parts.
type Match struct {
	// kinds that the policy applies to. Empty means every kind with a profile. The bounds then also
	// apply to TTL labels on all other kinds.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Kinds []GroupKind `json:"kinds,omitempty"`
	// namespaceSelector matches the labels of the object's namespace. A selector with any requirement
	// matches no cluster-scoped object. Absent or empty matches every namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector matches the labels of the object. Absent or empty matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// matchConditions are CEL expressions over object, namespaceObject (null for cluster-scoped
	// objects) and runtime (null if the object uses none). All of them must be true. If one is false,
	// the policy does not match. If none is false and one fails, Curfew leaves the object as it is: it
	// gets no default, is not rejected and is not deleted, and the condition Ready reports the
	// failure.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
}

// MatchCondition is a CEL expression that must be true.
type MatchCondition struct {
	// name of the condition, for messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns true or
	// false; null counts as false.
	// +required
	Expression Expression `json:"expression"`
}

// Bounds limit the values that authors may set. Durations are strings: seconds ("90"), or numbers
// with the units s, m, h, d or w ("1h30m", "7d"). An absent field means no bound.
//
// +kubebuilder:validation:MinProperties=1
type Bounds struct {
	// minTTL is the shortest allowed TTL after finished. A duration such as "10m".
	// +optional
	MinTTL *Duration `json:"minTTL,omitempty"`
	// maxTTL is the longest allowed TTL after finished. A duration such as "7d". If it is set, Curfew
	// also rejects never.
	// +optional
	MaxTTL *Duration `json:"maxTTL,omitempty"`
	// minTTLLabel is the shortest lifetime that a TTL label may set, from the creation of the object
	// to its expiry. A duration such as "1h".
	// +optional
	MinTTLLabel *Duration `json:"minTTLLabel,omitempty"`
	// maxTTLLabel is the longest lifetime that a TTL label may set, from the creation of the object to
	// its expiry. A duration such as "90d".
	// +optional
	MaxTTLLabel *Duration `json:"maxTTLLabel,omitempty"`
	// minDeadline is the shortest allowed deadline. A duration of at least "1s", such as "10m".
	// +optional
	MinDeadline *Duration `json:"minDeadline,omitempty"`
	// maxDeadline is the longest allowed deadline. A duration of at least "1s", such as "1d".
	// +optional
	MaxDeadline *Duration `json:"maxDeadline,omitempty"`
	// latestDate is the last day (UTC) that a TTL label may set. A string such as "2026-12-31".
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
	// +kubebuilder:validation:Format=date
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	LatestDate *string `json:"latestDate,omitempty"`
	// protect: Deny rejects annotation curfew.dev/protect on new objects, and updates that add it.
	// Users who may update this policy can still set it. Objects that have the annotation stay
	// protected. It applies to objects of kinds with a profile or named in match, and to objects with
	// a TTL label. Absent allows it.
	// +optional
	Protect ProtectBound `json:"protect,omitempty"`
}

// ProtectBound is whether authors may protect objects from Curfew.
//
// +kubebuilder:validation:Enum=Deny
type ProtectBound string

// ProtectDeny denies it.
const ProtectDeny ProtectBound = "Deny"

// LifecyclePolicyStatus is the observed state of a LifecyclePolicy.
type LifecyclePolicyStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// defaults report when the current defaults took effect. Absent for a policy without defaults.
	// +optional
	Defaults *DefaultsStatus `json:"defaults,omitempty"`
	// conditions of the policy. Ready reports whether every expression and field is usable. If not,
	// the message names the field and the reason. Paused reports whether the controller has paused the
	// deletions of this policy, and why.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// DefaultsStatus reports when the defaults of a policy took effect.
type DefaultsStatus struct {
	// sinceTime is when the defaults took effect. They also apply to objects that were created later
	// and that admission did not see.
	// +required
	SinceTime metav1.Time `json:"sinceTime"`
	// hash of the fields that determine the defaults. If it does not match the spec, the defaults have
	// changed, and sinceTime does not apply to them.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Hash string `json:"hash"`
}

// Defaults are the default TTLs and deadline of a policy. If an expression returns null, the next
// matching policy applies.
//
// +kubebuilder:validation:MinProperties=1
type Defaults struct {
	// ttl is the default TTL after finished: how long Curfew keeps a finished object. Absent means no
	// default.
	// +optional
	TTL *TTLValue `json:"ttl,omitempty"`
	// ttlSucceeded is the default TTL after finished for objects that succeeded. It overrides ttl.
	// +optional
	TTLSucceeded *TTLValue `json:"ttlSucceeded,omitempty"`
	// ttlFailed is the default TTL after finished for objects that failed. It overrides ttl.
	// +optional
	TTLFailed *TTLValue `json:"ttlFailed,omitempty"`
	// deadline is the default deadline: how long an unfinished object may be active before it is
	// failed. It applies to kinds whose profile sets deadline.allowDefault, and never to Pods. Absent
	// means no default.
	// +optional
	Deadline *DurationValue `json:"deadline,omitempty"`
	// ttlLabel is the label curfew.dev/ttl that Curfew adds to objects without one. The label limits
	// their lifetime from creation, finished or not. Kinds that never finish get it only if
	// match.kinds names them without a wildcard. Absent means that no label is added.
	// +optional
	TTLLabel *LabelValue `json:"ttlLabel,omitempty"`
}

// TTLValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type TTLValue struct {
	// value is a constant: a duration such as "1d", or "never". A number in quotes is seconds ("90").
	// +optional
	Value *TTL `json:"value,omitempty"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns a CEL
	// duration, a string such as "1d" or "never", whole seconds, or null for no value. Next to values
	// of another type CEL needs dyn(null). If it fails on an object, Curfew keeps the object and
	// reports it. Example: object.metadata.namespace == "ci" ? "1d" : dyn(null)
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// DurationValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type DurationValue struct {
	// value is a constant: a duration such as "12h". A number in quotes is seconds ("90"). At least
	// "1s".
	// +optional
	Value *Duration `json:"value,omitempty"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns a CEL
	// duration, a string such as "12h", whole seconds, or null for no value. At least 1s.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}

// LabelValue is a constant or a CEL expression.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.expression)",message="set exactly one of value and expression"
type LabelValue struct {
	// value is a constant: a duration from creation such as "7d", or a date or time in UTC such as
	// "2026-12-24" or "2026-12-24T003000Z".
	// +optional
	Value *LabelTTL `json:"value,omitempty"`
	// expression is a CEL expression over object, namespaceObject and runtime. It returns a string in
	// the format of the label, a CEL duration of whole seconds (at least 1s), a CEL timestamp, or null
	// for no label.
	// +optional
	Expression *Expression `json:"expression,omitempty"`
}
