package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/wellknown"
)

// FactsOfObject is [FactsOfObjectContext] for the command line, and for profiles without
// expressions.
func FactsOfObject(profile *Profile, object map[string]any) *Facts {
	return FactsOfObjectContext(context.Background(), profile, object)
}

// FactsOfObjectContext reads an object of any kind from its JSON form, by the paths of its profile.
// Admission and the feeds of custom kinds use it. The feeds of Jobs and Pods have typed readers
// with the same results. The context limits how long the expressions of a profile may take. A state
// that was not read in time keeps the object.
//
// Numbers may be int64, float64 or json.Number. A field of the wrong shape is recorded as an error
// in the field, so that the object is kept and the error reported.
func FactsOfObjectContext(ctx context.Context, profile *Profile, object map[string]any) *Facts {
	u := unstructured.Unstructured{Object: object}
	facts := FactsOfMeta(profile, &metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		Labels: StringMap(object, "labels"), Annotations: StringMap(object, "annotations"),
		Finalizers: u.GetFinalizers(), OwnerReferences: u.GetOwnerReferences(),
		CreationTimestamp: u.GetCreationTimestamp(), DeletionTimestamp: u.GetDeletionTimestamp(),
	})
	facts.NativeTTL = NativeField(object, profile.TTL)
	facts.NativeSucceeded = NativeField(object, profile.TTLSucceeded)
	facts.NativeFailed = NativeField(object, profile.TTLFailed)
	if profile.DurationDeadline {
		facts.NativeDeadline = durationField(object, profile.Deadline)
	} else {
		facts.NativeDeadline = NativeField(object, profile.Deadline)
	}
	facts.DeadlineByCurfew = profile.DeadlineByCurfew != nil && profile.DeadlineByCurfew(ctx, object)
	if value, ok := profile.ManagedBy.Get(object); ok {
		// A value of a wrong shape counts as another controller too: it must not open the door to a
		// default (S6).
		facts.ManagedBy = fmt.Sprint(value)
	}
	if facts.IsPod() {
		value, _ := restartPolicyPath.Get(object)
		facts.RestartPolicy, _ = value.(string)
	}
	if profile.State != nil {
		facts.State, facts.StateError = profile.State(ctx, object)
	}
	switch {
	case !profile.HasDeadline():
	case facts.Finished && facts.Outcome == lifetime.Failed:
		facts.Exceeded = ExceededAt(object)
	case facts.Suspended:
		facts.Exceeded = SuspendedAt(facts.Annotations[wellknown.AnnotationSuspendedAt], u.GetGeneration())
	}
	facts.correctTimes()
	return &facts
}

var restartPolicyPath = fieldpath.FieldPath{"spec", "restartPolicy"}

// StringMap reads metadata.labels or metadata.annotations and skips values that are not strings.
// The API server rejects those, and one bad entry must not hide the others.
func StringMap(object map[string]any, name string) map[string]string {
	metadata, _ := object["metadata"].(map[string]any)
	fields, _ := metadata[name].(map[string]any)
	if len(fields) == 0 {
		return nil
	}
	out := make(map[string]string, len(fields))
	for key, value := range fields {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

func NativeField(object map[string]any, path fieldpath.FieldPath) lifetime.NativeField {
	value, ok := path.Get(object)
	if !ok {
		return lifetime.NativeField{}
	}
	switch number := value.(type) {
	case int64:
		return lifetime.NativeField{Set: true, Seconds: number}
	case int:
		return lifetime.NativeField{Set: true, Seconds: int64(number)}
	case float64:
		if number == float64(int64(number)) {
			return lifetime.NativeField{Set: true, Seconds: int64(number)}
		}
	case json.Number:
		if seconds, err := number.Int64(); err == nil {
			return lifetime.NativeField{Set: true, Seconds: seconds}
		}
	}
	found := quote.Describe(value)
	return lifetime.NativeField{Set: true, Text: found, Err: fmt.Errorf("%s is not a whole number of seconds: use one, such as 3600", found)}
}

// durationField reads a metav1.Duration such as 1h0m0s. A fraction of a second counts as a whole
// one, and a duration above the maximum as the maximum: neither fails an object too soon.
func durationField(object map[string]any, path fieldpath.FieldPath) lifetime.NativeField {
	value, ok := path.Get(object)
	if !ok {
		return lifetime.NativeField{}
	}
	const fix = "is not a duration: use units h, m, s (1h30m), or 0 for none"
	text, ok := value.(string)
	if !ok || len(text) > lifetime.MaxDurationText {
		found := quote.Describe(value)
		return lifetime.NativeField{Set: true, Text: found, Err: fmt.Errorf("%s %s", found, fix)}
	}
	out := lifetime.NativeField{Set: true, Text: text}
	written, err := time.ParseDuration(text)
	switch {
	case err != nil:
		out.Err = fmt.Errorf("%q %s", text, fix)
	case written < 0:
		out.Err = fmt.Errorf("%q is negative: a deadline is 1s or more, or 0 for none", text)
	case written == 0:
		out.None = true
	default:
		out.Seconds = int64((min(written, lifetime.MaxDuration) + time.Second - 1) / time.Second)
	}
	return out
}

// jobStateOfObject and podStateOfObject decode only the fields they need, so that admission does
// not pay for pod templates.
func jobStateOfObject(_ context.Context, object map[string]any) (State, error) {
	var job batchv1.Job
	if err := decodeField(object, "status", &job.Status); err != nil {
		return State{}, err
	}
	if suspend, ok := (fieldpath.FieldPath{"spec", "suspend"}).Get(object); ok {
		suspended, ok := suspend.(bool)
		if !ok {
			return State{}, fmt.Errorf("spec.suspend: %s is neither true nor false", quote.Describe(suspend))
		}
		job.Spec.Suspend = &suspended
	}
	return StateOfJob(&job), nil
}

func podStateOfObject(_ context.Context, object map[string]any) (State, error) {
	var pod corev1.Pod
	if err := decodeField(object, "status", &pod.Status); err != nil {
		return State{}, err
	}
	return stateOfPod(&pod), nil
}

func decodeField(object map[string]any, name string, into any) error {
	value, ok := object[name].(map[string]any)
	if !ok || len(value) == 0 {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, into); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// FactsOfPod reads a Pod as the controller's feed holds it.
func FactsOfPod(pod *corev1.Pod) *Facts {
	facts := FactsOfMeta(PodProfile, &pod.ObjectMeta)
	facts.NativeDeadline = lifetime.Native(pod.Spec.ActiveDeadlineSeconds)
	facts.RestartPolicy = string(pod.Spec.RestartPolicy)
	facts.State = stateOfPod(pod)
	facts.correctTimes()
	return &facts
}

func stateOfPod(pod *corev1.Pod) State {
	var state State
	if pod.Status.StartTime != nil {
		state.Started = pod.Status.StartTime.Time
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return state.finished(lifetime.Succeeded, podFinishTime(pod))
	case corev1.PodFailed:
		return state.finished(lifetime.Failed, podFinishTime(pod))
	}
	return state
}

// isTime is false for the epoch, which runtimes report for a container they know nothing about.
// Taken as a time, it would make the Pod due at once (S6).
func isTime(t metav1.Time) bool { return t.Unix() > 0 }

// podFinishTime is the latest end of any container, including init and ephemeral ones, never of
// lastState, which is an earlier attempt. If some container has no end, because the Pod was evicted
// or lost its node, the latest transition of a condition counts where that is later (S6).
func podFinishTime(pod *corev1.Pod) time.Time {
	latest, complete := containersEnd(pod)
	if complete {
		return latest
	}
	for i := range pod.Status.Conditions {
		if t := pod.Status.Conditions[i].LastTransitionTime; isTime(t) && t.After(latest) {
			latest = t.Time
		}
	}
	return latest
}

// containersEnd is the latest end of a container. It is complete if every container that has a
// status has ended.
func containersEnd(pod *corev1.Pod) (latest time.Time, complete bool) {
	complete = len(pod.Status.ContainerStatuses) > 0
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			ended := statuses[i].State.Terminated
			if ended == nil || !isTime(ended.FinishedAt) {
				complete = false
			} else if ended.FinishedAt.After(latest) {
				latest = ended.FinishedAt.Time
			}
		}
	}
	return latest, complete
}

// Counted reports whether the object is a Pod that a Job counts, or that a PodTally has counted.
func (f *Facts) Counted() bool { return f.IsJobsPod() || f.IsPod() && f.CountedBy() != "" }

// CountedBy is the UID of the PodTally that has counted the Pod; "" if none has.
func (f *Facts) CountedBy() types.UID {
	if by := f.Annotations[wellknown.AnnotationCountedBy]; by != wellknown.CountedByNone {
		return types.UID(by)
	}
	return ""
}

// HeldByTally reports whether a PodTally has yet to count the Pod.
func (f *Facts) HeldByTally() bool {
	return f.IsPod() && slices.Contains(f.Finalizers, wellknown.FinalizerTally)
}

// PodTTL is the TTL that a Job sets for its finished Pods; nil if it sets none.
func (f *Facts) PodTTL() *lifetime.Setting {
	if f.Profile.Kind.GroupKind() != JobProfile.Kind.GroupKind() {
		return nil
	}
	return lifetime.TTLSetting("metadata.annotations", f.Annotations, wellknown.AnnotationPodTTL)
}

// FactsOfJob reads a Job as the controller's feed holds it.
func FactsOfJob(job *batchv1.Job) *Facts {
	facts := FactsOfMeta(JobProfile, &job.ObjectMeta)
	facts.NativeTTL = lifetime.Native(job.Spec.TTLSecondsAfterFinished)
	facts.NativeDeadline = lifetime.Native(job.Spec.ActiveDeadlineSeconds)
	if job.Spec.ManagedBy != nil {
		facts.ManagedBy = *job.Spec.ManagedBy
	}
	facts.State = StateOfJob(job)
	facts.correctTimes()
	return &facts
}

// StateOfJob follows jobutil.FinishedCondition of Kubernetes: Complete or Failed is True.
// SuccessCriteriaMet and FailureTarget only announce the end (S4). completionTime is not the finish
// time: a failed Job has none.
func StateOfJob(job *batchv1.Job) State {
	var state State
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		state.Suspended = true
	} else if job.Status.StartTime != nil {
		state.Started = job.Status.StartTime.Time
	}
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			return state.finished(lifetime.Succeeded, condition.LastTransitionTime.Time)
		case batchv1.JobFailed:
			return state.finished(lifetime.Failed, condition.LastTransitionTime.Time)
		}
	}
	return state
}

func (s State) finished(outcome lifetime.Outcome, t time.Time) State {
	s.Finished, s.Outcome, s.FinishTime = true, outcome, t
	return s
}
