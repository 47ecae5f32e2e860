package policy

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

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
func isTime(at metav1.Time) bool { return at.Unix() > 0 }

// podFinishTime is the latest end of any container, including init and ephemeral ones, never of
// lastState, which is an earlier attempt. If some container has no end, because the Pod was evicted
// or lost its node, the latest transition of a condition counts where that is later (S6).
func podFinishTime(pod *corev1.Pod) time.Time {
	latest, complete := containersEnd(pod)
	if complete {
		return latest
	}
	for i := range pod.Status.Conditions {
		if at := pod.Status.Conditions[i].LastTransitionTime; isTime(at) && at.After(latest) {
			latest = at.Time
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

func (s State) finished(outcome lifetime.Outcome, at time.Time) State {
	s.Finished, s.Outcome, s.FinishTime = true, outcome, at
	return s
}
