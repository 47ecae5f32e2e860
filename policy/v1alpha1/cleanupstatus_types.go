package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Conditions of cleanup policies, beside [ConditionReady].
const (
	// ConditionPermissionsGranted reports whether the service account of the policy may get, list and
	// delete what the policy matches.
	ConditionPermissionsGranted = "PermissionsGranted"
	// ConditionStalled is True where the last run did not delete everything that matches, and absent
	// elsewhere.
	ConditionStalled = "Stalled"
	// ConditionCountsExact is false if a report page of the last run was deleted before its objects
	// were counted, or if it is not known whether an object was deleted.
	ConditionCountsExact = "CountsExact"
)

// Reasons of the conditions of cleanup policies.
const (
	// ReasonTooManyMatches: more objects match than maxDeletions, maxPercentage, consecutiveRuns or
	// minUnused allow.
	ReasonTooManyMatches = "TooManyMatches"
	// ReasonForbidden: the service account lacks a permission.
	ReasonForbidden = "Forbidden"
	// ReasonGranted: the service account has all permissions.
	ReasonGranted = "Granted"
	// ReasonReportLost: a report page was deleted or changed before its objects were counted.
	ReasonReportLost = "ReportLost"
	// ReasonNoAnswer: DELETEs got no answer, and the objects still existed when they were last read,
	// or their resource was not served any more.
	ReasonNoAnswer = "NoAnswer"
	// ReasonWaitingForApproval: no approval covers the policy as it is now.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonPaused: a DeletionPause holds the deletions of the run, which goes on afterwards.
	ReasonPaused = "Paused"
	// ReasonUnread: whether a DeletionPause holds the run cannot be read. It goes on afterwards.
	ReasonUnread = "Unread"
	// ReasonRunFailed: the run ended before it was complete. The message says why.
	ReasonRunFailed = "RunFailed"
	// ReasonTimeLimit: the run listed and judged objects for as long as it may, and kept the rest.
	ReasonTimeLimit = "TimeLimit"
	// ReasonKindNotListed: a kind could not be listed, and the run passed it over. The message says
	// why.
	ReasonKindNotListed = "KindNotListed"
	// ReasonTooManyGroups: keepNewest would have to remember too many objects.
	ReasonTooManyGroups = "TooManyGroups"
)

// KeptRuns is how many runs of a policy keep their report pages.
const KeptRuns = 5

// CleanupPolicyStatus is the observed state of a cleanup policy. Only Curfew writes it.
type CleanupPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// specHash identifies the spec fields that select the objects to delete. An approval names it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	SpecHash string `json:"specHash,omitempty"`
	// specSinceTime is when specHash replaced another one. Absent for the first one.
	// +optional
	SpecSinceTime *metav1.Time `json:"specSinceTime,omitempty"`
	// approvalsAfterTime is the time after which an approval must be created to count: the policy had
	// another spec then. Absent if all approvals of the spec count.
	// +optional
	ApprovalsAfterTime *metav1.Time `json:"approvalsAfterTime,omitempty"`
	// scheduleSinceTime is when the policy was last changed. Runs that were due before are not made up
	// for.
	// +optional
	ScheduleSinceTime *metav1.Time `json:"scheduleSinceTime,omitempty"`
	// lastScheduleTime is the scheduled time of the last run, whether it ran or was skipped.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextScheduleTime is when the next run is due. Absent while the policy is suspended or not ready.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// lastRun is the current run, or else the last one.
	// +optional
	LastRun *CleanupRun `json:"lastRun,omitempty"`
	// runs are the ids of the last runs, whose report pages stay.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=63
	Runs []string `json:"runs,omitempty"`
	// deleted is how many objects this policy has deleted in all its runs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Deleted int64 `json:"deleted,omitempty"`
	// deletedByKind is the same by kind.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=256
	DeletedByKind []KindCount `json:"deletedByKind,omitempty"`
	// uncountedDeletions are the pages of the current run whose objects are about to be deleted, and
	// are not in the counters yet.
	// +optional
	// +listType=map
	// +listMapKey=report
	// +kubebuilder:validation:MaxItems=2
	UncountedDeletions []UncountedPage `json:"uncountedDeletions,omitempty"`
	// matches is where the last run has left which objects matched, for consecutiveRuns and
	// minUnused.
	// +optional
	Matches *CleanupMatches `json:"matches,omitempty"`
	// conditions of the policy: Ready, PermissionsGranted and Stalled.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// RunPhase is how far a run is.
//
// +kubebuilder:validation:Enum=Running;Completed;Stalled;Failed
type RunPhase string

// Phases of a run.
const (
	RunRunning   RunPhase = "Running"
	RunCompleted RunPhase = "Completed"
	RunStalled   RunPhase = "Stalled"
	RunFailed    RunPhase = "Failed"
)

// CleanupRun is one run of a cleanup policy.
type CleanupRun struct {
	// id of the run. Its report pages carry it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`
	// phase of the run.
	// +required
	Phase RunPhase `json:"phase"`
	// generation of the policy that the run applies.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// scheduledTime is when the run was due.
	// +optional
	ScheduledTime metav1.Time `json:"scheduledTime,omitempty"`
	// startTime is when the run started. Expressions see as now when it started, or was resumed.
	// +optional
	StartTime metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// dryRun reports that the run deletes nothing.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// ignoredKinds are the kinds that the lookups of the run did not list: see spec.lookups.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	IgnoredKinds []GroupKind `json:"ignoredKinds,omitempty"`
	// pages is how many report pages the run has written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pages int32 `json:"pages,omitempty"`
	// listed is how many objects the run has looked at.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Listed int64 `json:"listed,omitempty"`
	// matched is how many objects the run has found to be deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched int64 `json:"matched,omitempty"`
	// deleted is how many of them are deleted. An object counts when the API server accepted its
	// deletion, or when it was deleted by anyone after the run had listed it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Deleted int64 `json:"deleted,omitempty"`
	// lost is how many objects may be deleted and are not in deleted: their report page was deleted or
	// changed before they were counted, or the API server did not answer.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lost int64 `json:"lost,omitempty"`
	// skipped counts the objects that were kept although they match, by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=32
	Skipped []SkipCount `json:"skipped,omitempty"`
}

// CleanupMatches names the report pages with the objects that matched in a run. The next run counts
// on from them if it is the very next one that is due, and the policy and the pages are unchanged.
type CleanupMatches struct {
	// run is the id of the run.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Run string `json:"run"`
	// scheduledTime is when the run was due.
	// +required
	ScheduledTime metav1.Time `json:"scheduledTime"`
	// specHash is that of the policy in this run.
	// +required
	// +kubebuilder:validation:MaxLength=63
	SpecHash string `json:"specHash"`
	// pages is how many report pages there are.
	// +required
	// +kubebuilder:validation:Minimum=0
	Pages int32 `json:"pages"`
	// sha256 is the checksum of all pages.
	// +required
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256"`
}

// KindCount is a number of objects of a kind.
type KindCount struct {
	// group of the kind; empty means the core group.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// kind, such as Job.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// count of objects.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count,omitempty"`
}

// SkipCount is a number of objects that were kept for the same reason.
type SkipCount struct {
	// reason in one word, such as Protected.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason"`
	// count of objects.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int64 `json:"count,omitempty"`
	// message explains the first of them.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// UncountedPage names a report page and the objects on it.
type UncountedPage struct {
	// report is the name of the CleanupReport.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Report string `json:"report"`
	// uids of the objects on it.
	// +required
	// +listType=set
	// +kubebuilder:validation:MaxItems=250
	UIDs []types.UID `json:"uids"`
	// sha256 is the checksum of their UIDs, kinds, namespaces and names. Without it the page is
	// treated as changed, and its deletions are not counted.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
}
