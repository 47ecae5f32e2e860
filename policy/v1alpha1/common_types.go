package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady says whether every part of an object can be used. Status False comes with a message that names each
// field that cannot and why; what can be used holds nevertheless.
const ConditionReady = "Ready"

// ConditionPaused says whether the controller has paused the deletions that a LifecyclePolicy asks for, and why. A policy whose
// deletions have never been paused does not have it.
const ConditionPaused = "Paused"

// Reasons of the condition Ready.
const (
	// ReasonAccepted: everything can be used.
	ReasonAccepted = "Accepted"
	// ReasonInvalidExpression: a CEL expression does not compile or type-check. The message has line and column.
	ReasonInvalidExpression = "InvalidExpression"
	// ReasonInvalidField: a duration, path or selector cannot be read.
	ReasonInvalidField = "InvalidField"
	// ReasonEvaluationFailed: an expression compiled and then failed on some object, which was kept.
	ReasonEvaluationFailed = "EvaluationFailed"
	// ReasonKindNotServed: the API server does not serve the kind that a KindProfile speaks of.
	ReasonKindNotServed = "KindNotServed"
	// ReasonNoStatusSubresource: a kind that MarkFailed writes to has no status subresource, so that Curfew enforces no deadline by the profile.
	ReasonNoStatusSubresource = "NoStatusSubresource"
)

// Duration is a length of time: a bare number of seconds ("90"), or numbers with the units s, m, h, d and w ("90s", "1h30m",
// "1.5h", "7d", "2w"). A whole number of seconds, at most 2147483647 (68 years).
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+)$`
type Duration string

// TTL is a Duration, or "never": what has finished then stays until somebody deletes it.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(never|[0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+)$`
type TTL string

// LabelTTL is a value of the label curfew.dev/ttl: a Duration from creation ("90m", "7d", "1d12h"), or an instant in UTC
// ("2026-12-24", "2026-12-24T003000Z").
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:XValidation:rule="type(self) == string",messageExpression="'is a number: write it in quotes: \"' + string(self) + '\"'"
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{6}Z)?)$`
type LabelTTL string

// Expression is a CEL expression in the language of ValidatingAdmissionPolicies, with the same libraries and cost limit.
// Fields of an object that may be absent are best read with optional syntax: object.?status.?phase.orValue("").
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type Expression string

// FieldPath leads to a field of an object: names joined by dots, with [*] for every item of a list. Example:
// spec.replicatedJobs[*].template.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^\.?[^\s.\[\]*]+(\[\*\])?(\.[^\s.\[\]*]+(\[\*\])?)*$`
type FieldPath string

// GroupKind names a kind, whatever its version.
type GroupKind struct {
	// group of the kind; empty for the core group, which Pods belong to. "*" means any group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// kind, such as Job. "*" means any kind of the group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// Conditions are the observations of an object's state, by type.
//
// +listType=map
// +listMapKey=type
type Conditions []metav1.Condition
