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
// +kubebuilder:printcolumn:name="Total deleted",type=integer,JSONPath=`.status.deleted`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].reason`,priority=1
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
// +kubebuilder:printcolumn:name="Total deleted",type=integer,JSONPath=`.status.deleted`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Stalled")].reason`,priority=1
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
	// lookups says what the lookups of the conditions leave out.
	// +optional
	Lookups *CleanupLookups `json:"lookups,omitempty"`
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
	// minUnused is how long an object must match before Curfew deletes it, from 1m to 365d, such as
	// 14d. It must match in each run of that time. The time of all objects, or of one, starts again
	// when that of consecutiveRuns does. Absent means no minimum.
	// +optional
	MinUnused *Duration `json:"minUnused,omitempty"`
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

// CleanupLookups says what the lookups leave out.
type CleanupLookups struct {
	// ignoreKinds are kinds that lookups over the whole cluster do not list, because the account may
	// not. An object that only an object of these kinds uses counts as unused. Kubernetes' own kinds
	// cannot be ignored, except Secret.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	IgnoreKinds []GroupKind `json:"ignoreKinds,omitempty"`
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

// CleanupMatch selects objects, like the matchConstraints of a ValidatingAdmissionPolicy.
type CleanupMatch struct {
	// resourceRules name the resources. An object must match at least one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules"`
	// namespaceSelector matches the labels of the object's namespace; the label
	// kubernetes.io/metadata.name has its name. A selector with any requirement matches no
	// cluster-scoped object. Absent or empty matches every namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector matches the labels of the object. Absent or empty matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// CleanupExclusion selects objects that are kept.
//
// +kubebuilder:validation:MinProperties=1
type CleanupExclusion struct {
	// resourceRules name the resources. An object must match at least one. Absent matches every
	// resource.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ResourceRules []ResourceRule `json:"resourceRules,omitempty"`
	// namespaceSelector matches the labels of the object's namespace. Absent or empty matches every
	// object.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// objectSelector matches the labels of the object. Absent or empty matches every object.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// ResourceRule matches resources by group, version and plural name, and objects by name.
type ResourceRule struct {
	// apiGroups, such as apps. "" is the core group, "*" matches any group.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	APIGroups []string `json:"apiGroups"`
	// apiVersions are the versions in which Curfew reads the objects. Absent or "*" means the version
	// that the API server prefers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	APIVersions []string `json:"apiVersions,omitempty"`
	// resources are plural names in lower case, such as deployments. "*" matches any resource, except
	// those that wildcards never match: Namespaces, CustomResourceDefinitions, APIServices,
	// PersistentVolumes, Nodes, RBAC, webhook configurations, Events, Leases, EndpointSlices, the
	// ConfigMap kube-root-ca.crt and the ServiceAccount default. Subresources match nothing.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$`
	Resources []string `json:"resources"`
	// resourceNames are names of objects. "*" matches any number of characters and "?" one. Absent
	// matches every name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// CleanupCondition is a CEL expression that must be true.
type CleanupCondition struct {
	// name of the condition, for messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// expression is a CEL expression over object, namespaceObject, now, variables and lookup. It
	// returns true or false; null counts as false.
	// +required
	Expression Expression `json:"expression"`
}

// CleanupVariable is a named CEL expression.
type CleanupVariable struct {
	// name of the variable: a CEL identifier.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[_a-zA-Z][_a-zA-Z0-9]*$`
	Name string `json:"name"`
	// expression is a CEL expression over object, namespaceObject, now and the variables before it.
	// +required
	Expression Expression `json:"expression"`
}

// KeepNewest keeps the newest of the matching objects.
type KeepNewest struct {
	// count is how many objects of each group are kept. At least 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Count int32 `json:"count"`
	// groupBy is a CEL expression that returns a string: objects with the same one are a group.
	// Objects of different kinds or namespaces are always in different groups. Absent means one group
	// for each kind and namespace. An object on which it fails is kept. Example:
	// object.metadata.labels["app"]
	// +optional
	GroupBy *Expression `json:"groupBy,omitempty"`
	// sortBy is a CEL expression that returns a timestamp; the newest objects have the latest. An
	// object on which it fails is kept. Absent means object.metadata.creationTimestamp.
	// +optional
	SortBy *Expression `json:"sortBy,omitempty"`
	// from is Matched or All. Matched ranks the matching objects alone: the newest of those stay. All
	// also ranks objects that conditions do not match, so that a matching object stays only if it is
	// among the newest of all. In both cases the objects meet matchConstraints and not exclude.
	// Absent means Matched.
	// +optional
	From KeepNewestFrom `json:"from,omitempty"`
}

// KeepNewestFrom is which objects keepNewest ranks.
//
// +kubebuilder:validation:Enum=Matched;All
type KeepNewestFrom string

// The choices.
const (
	KeepNewestFromMatched KeepNewestFrom = "Matched"
	KeepNewestFromAll     KeepNewestFrom = "All"
)
