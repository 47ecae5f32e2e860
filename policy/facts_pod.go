package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FactsOfPod reads a Pod as the controller's feed holds it.
func FactsOfPod(pod *corev1.Pod) *Facts {
	facts := FactsOfMeta(PodProfile, &pod.ObjectMeta)
	facts.NativeDeadline = Native(pod.Spec.ActiveDeadlineSeconds)
	facts.RestartPolicy = string(pod.Spec.RestartPolicy)
	facts.State = stateOfPod(pod)
	return &facts
}

func stateOfPod(pod *corev1.Pod) State {
	var state State
	if pod.Status.StartTime != nil {
		state.Started = pod.Status.StartTime.Time
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return state.finished(Succeeded, podFinishTime(pod))
	case corev1.PodFailed:
		return state.finished(Failed, podFinishTime(pod))
	}
	return state
}

// isTime passes over the epoch, which runtimes report for a container that they know nothing of: taken at its word, it would
// make the Pod due at once (S6).
func isTime(at metav1.Time) bool { return at.Unix() > 0 }

// podFinishTime is the latest end of any container, init and ephemeral ones included; never of lastState, which is the
// end of an earlier attempt. A Pod that ran no container (evicted, lost node) finished at the latest transition of its
// conditions; one that has none of those finished when Curfew first saw it so, which it keeps as an annotation.
func podFinishTime(pod *corev1.Pod) time.Time {
	var latest time.Time
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			if ended := statuses[i].State.Terminated; ended != nil && isTime(ended.FinishedAt) && ended.FinishedAt.After(latest) {
				latest = ended.FinishedAt.Time
			}
		}
	}
	if !latest.IsZero() {
		return latest
	}
	for i := range pod.Status.Conditions {
		if at := pod.Status.Conditions[i].LastTransitionTime; isTime(at) && at.After(latest) {
			latest = at.Time
		}
	}
	if !latest.IsZero() {
		return latest
	}
	return finishedAt(pod.Annotations)
}
