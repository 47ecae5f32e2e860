package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeletionPause is the emergency stop. From five seconds after the API server accepted it until
// its until, or until it is deleted, Curfew deletes and stops nothing that it names. Nothing is
// lost: what falls due meanwhile waits. Anyone who can create DeletionPauses can hold every deletion
// of Curfew, and cause none.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=dpause,categories=curfew
// +kubebuilder:printcolumn:name="First trigger",type=string,JSONPath=`.spec.triggers[0]`
// +kubebuilder:printcolumn:name="First namespace",type=string,JSONPath=`.spec.namespaces[0]`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Triggers",type=string,JSONPath=`.spec.triggers`,priority=1
// +kubebuilder:printcolumn:name="Namespaces",type=string,JSONPath=`.spec.namespaces`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DeletionPause struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects the deletions to pause, for how long, and why.
	// +required
	Spec DeletionPauseSpec `json:"spec"`
}

// DeletionPauseList is a list of DeletionPauses.
//
// +kubebuilder:object:root=true
type DeletionPauseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeletionPause `json:"items"`
}

// PauseTrigger is a trigger that a DeletionPause can name.
//
// +kubebuilder:validation:Enum=ttl;label;cleanup;deadline
type PauseTrigger string

// DeletionPauseSpec selects the deletions to pause, for how long, and why.
type DeletionPauseSpec struct {
	// triggers are why Curfew would act: ttl, label, cleanup and deadline. Absent or empty means all.
	// PodTallies go on counting.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	Triggers []PauseTrigger `json:"triggers,omitempty"`
	// namespaces are names of namespaces; "*" matches any number of characters. Curfew then holds the
	// objects in these namespaces and the Namespaces themselves, and no other cluster-scoped object.
	// Absent or empty means every namespace and every cluster-scoped object.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[-a-z0-9*]+$`
	Namespaces []string `json:"namespaces,omitempty"`
	// until is when the pause ends, by the clock of the API server. Absent means that it lasts until
	// you delete it.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// reason says why, for the people who wonder. kubectl curfew status and explain show it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`\S`
	Reason string `json:"reason"`
}
