package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of report pages.
const (
	// LabelCleanupPolicyUID is the UID of the policy that a page belongs to.
	LabelCleanupPolicyUID = "curfew.dev/cleanup-policy-uid"
	// LabelCleanupRun is the id of its run.
	LabelCleanupRun = "curfew.dev/cleanup-run"
)

// CleanupReport is a page of the list of objects that a run of a CleanupPolicy deletes. Curfew
// writes the page before it deletes the first of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=cupr,categories=curfew
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.policy.name`
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.run`
// +kubebuilder:printcolumn:name="Page",type=integer,JSONPath=`.page`
// +kubebuilder:printcolumn:name="Deleted",type=integer,JSONPath=`.deleted`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.dryRun`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CleanupReport struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:"metadata,omitempty"`
	CleanupReportFields `json:",inline"`
}

// CleanupReportList is a list of CleanupReports.
//
// +kubebuilder:object:root=true
type CleanupReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CleanupReport `json:"items"`
}

// ClusterCleanupReport is a page of the list of objects that a run of a ClusterCleanupPolicy
// deletes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ccupr,categories=curfew
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.policy.name`
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.run`
// +kubebuilder:printcolumn:name="Page",type=integer,JSONPath=`.page`
// +kubebuilder:printcolumn:name="Deleted",type=integer,JSONPath=`.deleted`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.dryRun`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterCleanupReport struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:"metadata,omitempty"`
	CleanupReportFields `json:",inline"`
}

// ClusterCleanupReportList is a list of ClusterCleanupReports.
//
// +kubebuilder:object:root=true
type ClusterCleanupReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterCleanupReport `json:"items"`
}

// CleanupReportFields are the fields of a report page.
type CleanupReportFields struct {
	// policy that the run belongs to.
	// +required
	Policy PolicyReference `json:"policy"`
	// run is the id of the run.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Run string `json:"run"`
	// page of the run, from 1.
	// +required
	Page int32 `json:"page"`
	// dryRun reports that nothing on this page is deleted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// deleted is how many of the objects are deleted and counted.
	// +optional
	Deleted int64 `json:"deleted,omitempty"`
	// truncated reports that the list of objects was dropped. Their numbers are in summary.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
	// objects that the run deletes, and what became of each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=250
	Objects []CleanupItem `json:"objects,omitempty"`
	// summary counts deleted objects that are not listed any more, by kind and namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Summary []SummaryCount `json:"summary,omitempty"`
	// matched is for consecutiveRuns and minUnused: hashes of the UIDs that match, each with its
	// number of runs, and since when it matches. A page with it lists nothing else.
	// +optional
	// +kubebuilder:validation:MaxLength=400000
	Matched []byte `json:"matched,omitempty"`
}

// PolicyReference names a cleanup policy.
type PolicyReference struct {
	// name of the policy.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the policy.
	// +required
	UID types.UID `json:"uid"`
}

// CleanupItem is an object that a run deletes.
type CleanupItem struct {
	// group of the kind; absent means the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// version in which the object was read.
	// +required
	Version string `json:"version"`
	// kind of the object.
	// +required
	Kind string `json:"kind"`
	// resource is the plural name of the kind.
	// +required
	Resource string `json:"resource"`
	// namespace of the object; absent for cluster-scoped objects.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	// +required
	Name string `json:"name"`
	// uid of the object.
	// +required
	UID types.UID `json:"uid"`
	// resourceVersion that was judged.
	// +required
	ResourceVersion string `json:"resourceVersion"`
	// result is the outcome for the object. Absent means that it is not known yet.
	// +optional
	Result ItemResult `json:"result,omitempty"`
	// message says why an object was not deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// ItemResult is the outcome for an object.
//
// +kubebuilder:validation:Enum=Deleted;Gone;Kept;Failed;Unknown;WouldDelete
type ItemResult string

// The outcomes for an object.
const (
	// ItemDeleted: the API server accepted the deletion.
	ItemDeleted ItemResult = "Deleted"
	// ItemGone: a user or controller had deleted it, or it was being deleted.
	ItemGone ItemResult = "Gone"
	// ItemKept: it did not match any more.
	ItemKept ItemResult = "Kept"
	// ItemFailed: the deletion failed; the next run tries again.
	ItemFailed ItemResult = "Failed"
	// ItemUnknown: a DELETE got no answer, and the object still existed when it was last read.
	ItemUnknown ItemResult = "Unknown"
	// ItemWouldDelete: the run is a dry run.
	ItemWouldDelete ItemResult = "WouldDelete"
)

// SummaryCount is a number of objects of a kind in a namespace.
type SummaryCount struct {
	// group of the kind; absent means the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// kind of the objects.
	// +required
	Kind string `json:"kind"`
	// namespace of the objects; absent for cluster-scoped objects.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// count of objects.
	// +required
	Count int64 `json:"count"`
}
