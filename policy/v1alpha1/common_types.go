package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady reports whether every part of an object is usable. With status False the message
// names each unusable field and the reason. The usable parts still apply.
const ConditionReady = "Ready"

// ConditionPaused reports whether the controller has paused the deletions of a LifecyclePolicy, and
// why. A policy whose deletions were never paused does not have it.
const ConditionPaused = "Paused"

// ConditionRequires records for older versions of Curfew which fields the spec of a generation uses
// that not every version knows. A Curfew that lacks one of them holds the object.
const ConditionRequires = "Requires"

// Reasons of the condition Requires.
const (
	// ReasonNewerFields: the message names the version and the fields.
	ReasonNewerFields = "NewerFields"
	// ReasonNoNewerFields: every version knows all fields that the spec uses now.
	ReasonNoNewerFields = "NoNewerFields"
)

// Reasons of the condition Ready.
const (
	// ReasonAccepted: every part is usable.
	ReasonAccepted = "Accepted"
	// ReasonInvalidExpression: a CEL expression does not compile or type-check. The message gives line
	// and column.
	ReasonInvalidExpression = "InvalidExpression"
	// ReasonInvalidField: a duration, path or selector does not parse.
	ReasonInvalidField = "InvalidField"
	// ReasonNeedsNewerVersion: a newer Curfew knows a field that this one would drop. Curfew holds the
	// object, and the message names the field.
	ReasonNeedsNewerVersion = "NeedsNewerVersion"
	// ReasonEvaluationFailed: an expression compiled, but failed on some object. Curfew kept that
	// object.
	ReasonEvaluationFailed = "EvaluationFailed"
	// ReasonKindNotServed: the API server does not serve the kind of a KindProfile.
	ReasonKindNotServed = "KindNotServed"
	// ReasonNoStatusSubresource: a kind that MarkFailed writes to has no status subresource. Curfew
	// enforces no deadline with this profile.
	ReasonNoStatusSubresource = "NoStatusSubresource"
)

// Duration is a length of time. It is a bare number of seconds ("90"), or numbers with the units s,
// m, h, d or w ("90s", "1h30m", "1.5h", "7d", "2w"). Go's units ms, us and ns are accepted too. It
// must be a whole number of seconds between 0 and 2147483647 (68 years).
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+)$`
type Duration string

// TTL is a Duration or "never". With "never", Curfew keeps finished objects.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(never|[0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+)$`
type TTL string

// LabelTTL is a value of the label curfew.dev/ttl. It is a Duration from creation ("90m", "7d",
// "1d12h"), or a date or time in UTC ("2026-12-24", "2026-12-24T003000Z").
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{6}Z)?)$`
type LabelTTL string

// Expression is a CEL expression in the language of ValidatingAdmissionPolicy, with the same
// libraries and cost limit. Use optional syntax to read fields that may be absent:
// object.?status.?phase.orValue("").
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type Expression string

// FieldPath is the path of a field in an object: names joined by dots, with [*] for every item of a
// list. Example: spec.replicatedJobs[*].template.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^\.?[^\s.\[\]*]+(\[\*\])?(\.[^\s.\[\]*]+(\[\*\])?)*$`
type FieldPath string

// GroupKind identifies a kind in any version.
type GroupKind struct {
	// group of the kind. Empty means the core group, which contains Pods. "*" matches any group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// kind, such as Job. "*" matches any kind in the group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// Conditions are the latest observations of an object's state, by type.
//
// +listType=map
// +listMapKey=type
type Conditions []metav1.Condition
