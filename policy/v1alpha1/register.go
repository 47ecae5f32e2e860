package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of all types in this package.
var GroupVersion = schema.GroupVersion{Group: "curfew.dev", Version: "v1alpha1"}

// SchemeBuilder collects what AddToScheme adds; AddToScheme makes a scheme know the types.
var (
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme   = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&LifecyclePolicy{}, &LifecyclePolicyList{},
		&KindProfile{}, &KindProfileList{},
		&CleanupPolicy{}, &CleanupPolicyList{}, &ClusterCleanupPolicy{}, &ClusterCleanupPolicyList{},
		&CleanupReport{}, &CleanupReportList{}, &ClusterCleanupReport{}, &ClusterCleanupReportList{},
		&CleanupApproval{}, &CleanupApprovalList{}, &ClusterCleanupApproval{}, &ClusterCleanupApprovalList{},
		&PodTally{}, &PodTallyList{},
		&DeletionPause{}, &DeletionPauseList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Resource names, as URLs and RBAC rules write them.
const (
	LifecyclePolicies       = "lifecyclepolicies"
	KindProfiles            = "kindprofiles"
	CleanupPolicies         = "cleanuppolicies"
	ClusterCleanupPolicies  = "clustercleanuppolicies"
	CleanupReports          = "cleanupreports"
	ClusterCleanupReports   = "clustercleanupreports"
	CleanupApprovals        = "cleanupapprovals"
	ClusterCleanupApprovals = "clustercleanupapprovals"
	PodTallies              = "podtallies"
	DeletionPauses          = "deletionpauses"
)
