package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CleanupApproval approves a CleanupPolicy of its namespace, as it is now. Anyone who can create
// CleanupApprovals can approve: grant it to other people than those who write the policies.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=cupa,categories=curfew
// +kubebuilder:printcolumn:name="Policy UID",type=string,JSONPath=`.spec.policyUID`
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.spec.specHash`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CleanupApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the approved policy.
	// +required
	Spec CleanupApprovalSpec `json:"spec"`
}

// CleanupApprovalList is a list of CleanupApprovals.
//
// +kubebuilder:object:root=true
type CleanupApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CleanupApproval `json:"items"`
}

// ClusterCleanupApproval approves a ClusterCleanupPolicy, as it is now.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ccupa,categories=curfew
// +kubebuilder:printcolumn:name="Policy UID",type=string,JSONPath=`.spec.policyUID`
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.spec.specHash`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterCleanupApproval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the approved policy.
	// +required
	Spec CleanupApprovalSpec `json:"spec"`
}

// ClusterCleanupApprovalList is a list of ClusterCleanupApprovals.
//
// +kubebuilder:object:root=true
type ClusterCleanupApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterCleanupApproval `json:"items"`
}

// CleanupApprovalSpec identifies the approved policy. It is immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an approval is immutable: create another one"
type CleanupApprovalSpec struct {
	// policyUID is the UID of the policy.
	// +required
	PolicyUID types.UID `json:"policyUID"`
	// specHash is status.specHash of the policy that is approved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	SpecHash string `json:"specHash"`
}
