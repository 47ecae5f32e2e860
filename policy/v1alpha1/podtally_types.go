package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodTally counts the finished Pods of its namespace that match a selector. A Pod is kept by the
// finalizer curfew.dev/tally until it has been counted, so that it need not linger to be counted,
// as the Job controller does for its Pods (KEP-2307). Pods of Jobs, mirror Pods and Pods with
// restartPolicy Always are not counted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=ptally,categories=curfew
// +kubebuilder:printcolumn:name="Active",type=integer,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="TTL",type=string,JSONPath=`.spec.ttlAfterCounted`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Conflicting",type=string,JSONPath=`.status.conditions[?(@.type=="Conflicting")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodTally struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Pods are counted.
	// +required
	Spec PodTallySpec `json:"spec"`
	// status is written by Curfew.
	// +optional
	Status PodTallyStatus `json:"status,omitempty"`
}

// PodTallyList is a list of PodTallies.
//
// +kubebuilder:object:root=true
type PodTallyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodTally `json:"items"`
}

// PodTallySpec says which Pods are counted, and how long they stay afterwards.
type PodTallySpec struct {
	// selector matches the labels of Pods in the namespace of the tally. It needs at least one label
	// or expression and is immutable: the counts would have no meaning otherwise. If a Pod matches
	// several tallies, the oldest counts it.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="an empty selector would match every Pod of the namespace: set matchLabels or matchExpressions"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the selector is immutable: create another PodTally"
	Selector metav1.LabelSelector `json:"selector"`
	// ttlAfterCounted is how long Curfew keeps a Pod of this tally after it has finished, for example
	// "10m", or "never". Curfew never deletes the Pod before it is counted. The Pod's own TTL
	// overrides it, and it overrides the namespace's curfew.dev/default-pod-ttl. Absent means that
	// the tally sets no TTL.
	// +optional
	TTLAfterCounted *TTL `json:"ttlAfterCounted,omitempty"`
}

// Conditions of a PodTally, beside [ConditionReady].
const (
	// ConditionConflicting reports that some Pods also match an older tally, which counts them.
	ConditionConflicting = "Conflicting"
	// ConditionReleasing is True while Curfew removes the finalizers because counting is off, and
	// False once none is left.
	ConditionReleasing = "Releasing"
)

// Reasons of the conditions of PodTallies.
const (
	// ReasonCounting: the tally counts its Pods.
	ReasonCounting = "Counting"
	// ReasonTallyDisabled: the controller runs without the trigger tally.
	ReasonTallyDisabled = "Disabled"
	// ReasonOlderTally: an older tally counts some Pods that this one matches, too.
	ReasonOlderTally = "OlderTally"
	// ReasonTooManyTallies: the namespace has as many older tallies as may count.
	ReasonTooManyTallies = "TooManyTallies"
	// ReasonNoConflict: no other tally counts a Pod that this one matches.
	ReasonNoConflict = "NoConflict"
	// ReasonReleased: no Pod has a finalizer of this tally any more.
	ReasonReleased = "Released"
	// ReasonStatusEdited: someone else than Curfew changed the status, so the counts may be wrong.
	ReasonStatusEdited = "StatusEdited"
)

// MaxUncountedPods is how many UIDs status.uncountedTerminatedPods may hold, so that a status stays
// under 20 kB.
const MaxUncountedPods = 500

// PodTallyStatus is the observed state of a PodTally. Only Curfew writes it.
type PodTallyStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// transitions is how often a Curfew process took over the counting. The one before can write no
	// status any more.
	// +optional
	Transitions int64 `json:"transitions,omitempty"`
	// startTime is when Curfew began to count. It also counts Pods that had finished before.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// active is how many Pods of this tally have not finished.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Active int64 `json:"active"`
	// succeeded is how many Pods of this tally have succeeded, including those that were deleted
	// since.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Succeeded int64 `json:"succeeded"`
	// failed is how many Pods of this tally have failed, including those that were deleted since. A
	// Pod that was deleted before it finished counts as failed, unless Curfew deleted it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`
	// uncountedTerminatedPods are finished Pods that still have the finalizer and are not in the
	// counters yet. Each is counted exactly once: when its finalizer is gone (KEP-2307).
	// +optional
	UncountedTerminatedPods *UncountedTerminatedPods `json:"uncountedTerminatedPods,omitempty"`
	// conditions of the tally: Ready, Conflicting, Releasing and Requires.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// UncountedTerminatedPods holds UIDs of finished Pods that are not in the counters yet.
//
// +kubebuilder:validation:XValidation:rule="(has(self.succeeded) ? size(self.succeeded) : 0) + (has(self.failed) ? size(self.failed) : 0) <= 500",message="at most 500 Pods can be uncounted"
type UncountedTerminatedPods struct {
	// succeeded are the UIDs of Pods that succeeded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Succeeded []types.UID `json:"succeeded,omitempty"`
	// failed are the UIDs of Pods that failed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Failed []types.UID `json:"failed,omitempty"`
}
