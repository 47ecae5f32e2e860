package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CleanupPolicy deletes matching objects of its own namespace on a schedule. Curfew lists, reads
// and deletes as the service account that the policy names, so that a policy can do nothing that
// its service account may not do.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=cup,categories=curfew
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Next run",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Last run",type=date,JSONPath=`.status.lastRun.startTime`
// +kubebuilder:printcolumn:name="Deleted",type=integer,JSONPath=`.status.deleted`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the policy.
	// +required
	Spec CleanupPolicySpec `json:"spec"`
	// status is written by Curfew.
	// +optional
	Status CleanupPolicyStatus `json:"status,omitempty"`
}

// CleanupPolicyList is a list of CleanupPolicies.
//
// +kubebuilder:object:root=true
type CleanupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CleanupPolicy `json:"items"`
}

// CleanupPolicySpec says what a CleanupPolicy deletes, when, and with whose rights.
//
// +kubebuilder:validation:XValidation:rule="!has(self.matchConstraints.namespaceSelector) && (!has(self.exclude) || !has(self.exclude.namespaceSelector))",message="a CleanupPolicy matches objects of its own namespace only: remove namespaceSelector, or use a ClusterCleanupPolicy"
type CleanupPolicySpec struct {
	CleanupSpec `json:",inline"`
	// serviceAccountName is a service account in the namespace of the policy. Curfew lists, evaluates,
	// reads and deletes as this account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName"`
}

// ClusterCleanupPolicy deletes matching objects of the whole cluster on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ccup,categories=curfew
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Next run",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Last run",type=date,JSONPath=`.status.lastRun.startTime`
// +kubebuilder:printcolumn:name="Deleted",type=integer,JSONPath=`.status.deleted`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterCleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the policy.
	// +required
	Spec ClusterCleanupPolicySpec `json:"spec"`
	// status is written by Curfew.
	// +optional
	Status CleanupPolicyStatus `json:"status,omitempty"`
}

// ClusterCleanupPolicyList is a list of ClusterCleanupPolicies.
//
// +kubebuilder:object:root=true
type ClusterCleanupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterCleanupPolicy `json:"items"`
}

// ClusterCleanupPolicySpec says what a ClusterCleanupPolicy deletes, when, and with whose rights.
//
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountName) == has(self.serviceAccountNamespace)",message="set both serviceAccountName and serviceAccountNamespace, or neither"
type ClusterCleanupPolicySpec struct {
	CleanupSpec `json:",inline"`
	// serviceAccountName is the service account that Curfew lists, evaluates, reads and deletes as.
	// Absent means curfew-cleanup in the namespace of Curfew.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// serviceAccountNamespace is the namespace of the service account.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ServiceAccountNamespace string `json:"serviceAccountNamespace,omitempty"`
}

// CleanupSpec is what both kinds of cleanup policies have in common.
type CleanupSpec struct {
	// schedule is a cron schedule with five fields (minute, hour, day of the month, month, day of the
	// week), such as "0 2 * * *", or one of @hourly, @daily, @weekly, @monthly and @yearly.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule"`
	// timeZone of the schedule, as the IANA database names it, such as Europe/Berlin. Absent means
	// UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// startingDeadlineSeconds is how late a run may start, for example because Curfew was down. After
	// that, Curfew skips the run. Of several missed runs only the last one is made up for. Absent
	// means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// suspend stops future runs, and the current run before its next batch. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// matchConstraints select the objects. An object must match all parts.
	// +required
	MatchConstraints CleanupMatch `json:"matchConstraints"`
	// exclude keeps the objects that match all of its parts.
	// +optional
	Exclude *CleanupExclusion `json:"exclude,omitempty"`
	// conditions are CEL expressions over object, namespaceObject, now, variables and lookup, with the
	// functions of the reference page. All of them must be true. If one fails on an object, Curfew
	// keeps the object and counts it as skipped.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Conditions []CleanupCondition `json:"conditions,omitempty"`
	// variables are CEL expressions that conditions and keepNewest can use as variables.NAME. A
	// variable can use those before it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Variables []CleanupVariable `json:"variables,omitempty"`
	// includeOwned also deletes objects whose controller owner exists. Usually that owner creates them
	// again. Defaults to false.
	// +optional
	IncludeOwned bool `json:"includeOwned,omitempty"`
	// keepNewest keeps the newest of the matching objects.
	// +optional
	KeepNewest *KeepNewest `json:"keepNewest,omitempty"`
	// consecutiveRuns is in how many runs in a row an object must match before Curfew deletes it: the
	// last of them deletes it. Dry runs count. The count of all objects starts again when the policy
	// is changed, a run is missed, or a run is late by more than half of the time to the next one.
	// That of one object starts again when a run does not match it. More than 100,000 matching
	// objects set the condition Stalled. Absent means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ConsecutiveRuns int32 `json:"consecutiveRuns,omitempty"`
	// maxDeletions is how many objects one run may delete. See onExceed. Absent means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxDeletions *int64 `json:"maxDeletions,omitempty"`
	// maxPercentage is how many percent of all objects of the matched kinds and namespaces one run may
	// delete. See onExceed. Absent means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxPercentage *int32 `json:"maxPercentage,omitempty"`
	// onExceed is what happens if more objects match than maxDeletions or maxPercentage allow. Stall
	// deletes nothing and sets the condition Stalled. Truncate deletes the allowed number and leaves
	// the rest to the next run. Defaults to Stall.
	// +optional
	// +kubebuilder:default=Stall
	OnExceed OnExceed `json:"onExceed,omitempty"`
	// dryRun reports what each run would delete, and deletes nothing. Defaults to false.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// approval is whether the first run of a new or changed policy waits for a CleanupApproval (of a
	// ClusterCleanupPolicy: a ClusterCleanupApproval). Until then each run is a dry run. Defaults to
	// NotRequired.
	// +optional
	// +kubebuilder:default=NotRequired
	Approval Approval `json:"approval,omitempty"`
	// propagationPolicy is what happens to the dependents of deleted objects: Background, Foreground
	// or Orphan. Defaults to Background.
	// +optional
	// +kubebuilder:validation:Enum=Background;Foreground;Orphan
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
}

// OnExceed is what happens if a run would delete more than allowed.
//
// +kubebuilder:validation:Enum=Stall;Truncate
type OnExceed string

// What happens if a run would delete more than allowed.
const (
	ExceedStalls    OnExceed = "Stall"
	ExceedTruncates OnExceed = "Truncate"
)

// Approval is whether a new or changed policy waits for an approval.
//
// +kubebuilder:validation:Enum=Required;NotRequired
type Approval string

// Whether a new or changed policy waits for an approval.
const (
	ApprovalRequired    Approval = "Required"
	ApprovalNotRequired Approval = "NotRequired"
)
