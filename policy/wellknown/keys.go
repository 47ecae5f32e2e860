package wellknown

// Group is the API group of Curfew's own kinds and the prefix of all of its annotations and labels.
const Group = "curfew.dev"

// Prefix begins every annotation and label key that belongs to Curfew.
const Prefix = Group + "/"

// Annotations on any finishable object, or on a training runtime.
const (
	AnnotationTTL            = Prefix + "ttl-after-finished"
	AnnotationTTLSucceeded   = Prefix + "ttl-after-succeeded"
	AnnotationTTLFailed      = Prefix + "ttl-after-failed"
	AnnotationActiveDeadline = Prefix + "active-deadline"
	AnnotationProtect        = Prefix + "protect"
)

// AnnotationRefreshedAt restarts the clock of a TTL label that is a duration (RFC 3339).
const AnnotationRefreshedAt = Prefix + "refreshed-at"

// AnnotationPodTTL on a Job is the TTL of its finished Pods. It applies while the Job runs, too.
const AnnotationPodTTL = Prefix + "pod-ttl"

// Annotations that Curfew itself writes on objects.
const (
	// AnnotationTTLSource names the level an effective TTL came from ("namespace/ci"). A user's own
	// value is overwritten.
	AnnotationTTLSource = Prefix + "ttl-source"
	// AnnotationDeadlineSource does the same for an active deadline.
	AnnotationDeadlineSource = Prefix + "deadline-source"
	// AnnotationLabelSource names the policy that gave the object its TTL label, and that label. It
	// stays when the label is removed, so that the object is never given another one.
	AnnotationLabelSource = Prefix + "ttl-label-source"
	// AnnotationFinishedAt records a finish time (RFC 3339) that only Curfew observed.
	AnnotationFinishedAt = Prefix + "finished-at"
	// AnnotationSuspendedAt records when Curfew suspended an object for its deadline (RFC 3339). While
	// the object is suspended, Curfew stops everything that it still runs.
	AnnotationSuspendedAt = Prefix + "suspended-at"
	// AnnotationCountedBy is the UID of the PodTally that has counted the Pod. Such a Pod is never
	// counted again, even after tallies were switched off and on (S7).
	AnnotationCountedBy = Prefix + "counted-by"
	// CountedByNone is its value on an unfinished Pod that Curfew is about to delete. If Curfew
	// cannot delete the Pod, a tally counts the Pod after all.
	CountedByNone = "nobody"
	// AnnotationDeleted lists, on an Event, the last objects that Curfew deleted.
	AnnotationDeleted = Prefix + "deleted"
)

// Annotations on a Namespace.
const (
	AnnotationDefaultTTL          = Prefix + "default-ttl"
	AnnotationDefaultTTLSucceeded = Prefix + "default-ttl-succeeded"
	AnnotationDefaultTTLFailed    = Prefix + "default-ttl-failed"
	AnnotationDefaultPodTTL       = Prefix + "default-pod-ttl"
	AnnotationDefaultDeadline     = Prefix + "default-deadline"
	AnnotationMinTTL              = Prefix + "min-ttl"
	AnnotationMaxTTL              = Prefix + "max-ttl"
	AnnotationMinDeadline         = Prefix + "min-deadline"
	AnnotationMaxDeadline         = Prefix + "max-deadline"
	AnnotationMode                = Prefix + "mode"
	AnnotationBackfill            = Prefix + "backfill"
	// AnnotationDefaultSince is "<RFC 3339 time>/<hash of the defaults>": the time since which
	// these defaults apply.
	AnnotationDefaultSince = Prefix + "default-since"
)

// Labels.
const (
	// LabelTTL limits the lifetime of any object: a duration from its creation, or a date.
	LabelTTL = Prefix + "ttl"
	// LabelKyvernoTTL is Kyverno's label of the same grammar.
	LabelKyvernoTTL = "cleanup.kyverno.io/ttl"
	// LabelInUse marks namespaces whose objects admission must see. A namespaceSelector cannot
	// select by annotation.
	LabelInUse = Prefix + "in-use"
	// LabelPodsInUse is the same for Pods, which are far more numerous.
	LabelPodsInUse = Prefix + "pods-in-use"
)

// FinalizerTally is on every Pod that a PodTally has yet to count (S5: the only finalizer that
// Curfew adds and removes).
const FinalizerTally = Prefix + "tally"

// Names that belong to others.
const (
	// FinalizerJobTracking is on every Pod that the Job controller has yet to account for
	// (KEP-2307).
	FinalizerJobTracking = "batch.kubernetes.io/job-tracking"
	// JobController is the value of spec.managedBy that means Kubernetes' own Job controller.
	JobController = "kubernetes.io/job-controller"
	// LabelAggregate on a ClusterRole adds its rules to the permissions of the controller.
	LabelAggregate = Prefix + "aggregate-to-controller"
	// LabelFeature on a ClusterRole names the feature of the controller that its rules are for.
	LabelFeature = Prefix + "controller-feature"
	// LabelPartOf says which application an object belongs to; PartOfCurfew is Curfew's own.
	LabelPartOf  = "app.kubernetes.io/part-of"
	PartOfCurfew = "curfew"
	// LabelMultiKueueOrigin marks copies made by MultiKueue. If Curfew deleted one, the manager
	// would dispatch the object again.
	LabelMultiKueueOrigin = "kueue.x-k8s.io/multikueue-origin"
)

// TTLAnnotations are the annotations that give an object a TTL after finished, the plain one first.
var TTLAnnotations = []string{AnnotationTTL, AnnotationTTLSucceeded, AnnotationTTLFailed}

// LifetimeAnnotations make Curfew delete or stop the object that carries them.
var LifetimeAnnotations = []string{AnnotationTTL, AnnotationTTLSucceeded, AnnotationTTLFailed, AnnotationActiveDeadline}

// NamespaceAnnotations are the annotations that people write on a Namespace.
var NamespaceAnnotations = []string{
	AnnotationDefaultTTL, AnnotationDefaultTTLSucceeded, AnnotationDefaultTTLFailed, AnnotationDefaultPodTTL, AnnotationDefaultDeadline,
	AnnotationMinTTL, AnnotationMaxTTL, AnnotationMinDeadline, AnnotationMaxDeadline, AnnotationMode, AnnotationBackfill,
}

// ObjectKeys are the keys that make an object concern Curfew, as annotations or as labels: one in
// the wrong map gets a warning. Match conditions look up each of them. Scanning a map would cost
// the API server more with every key (S9).
var ObjectKeys = []string{
	AnnotationTTL, AnnotationTTLSucceeded, AnnotationTTLFailed, AnnotationPodTTL, AnnotationActiveDeadline, AnnotationProtect, LabelTTL,
	AnnotationTTLSource, AnnotationDeadlineSource, AnnotationLabelSource, AnnotationFinishedAt, AnnotationRefreshedAt, AnnotationBackfill,
	AnnotationDefaultSince, LabelMultiKueueOrigin,
}

// TemplateKeys are the keys that rules deny in a Pod template, as annotations or as labels: the
// protection where a policy denies it, the others everywhere.
var TemplateKeys = []string{
	AnnotationTTL, AnnotationTTLSucceeded, AnnotationTTLFailed, AnnotationPodTTL, AnnotationActiveDeadline, AnnotationProtect,
	LabelTTL, LabelKyvernoTTL,
}

// NamespaceKeys make a Namespace concern Curfew, in addition to ObjectKeys.
var NamespaceKeys = append([]string{AnnotationDefaultSince, LabelInUse, LabelPodsInUse}, NamespaceAnnotations...)
