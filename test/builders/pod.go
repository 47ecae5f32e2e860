package builders

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodWrapper builds a Pod.
type PodWrapper struct {
	meta[*PodWrapper, *corev1.Pod]
}

// MakePod starts a Pod with one container and restartPolicy Never.
func MakePod(namespace, name string) *PodWrapper {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       podTemplate().Spec,
	}
	w := &PodWrapper{}
	w.meta = meta[*PodWrapper, *corev1.Pod]{object: pod, self: w}
	return w
}

// RestartPolicy sets spec.restartPolicy; "" leaves it out.
func (w *PodWrapper) RestartPolicy(policy corev1.RestartPolicy) *PodWrapper {
	w.object.Spec.RestartPolicy = policy
	return w
}

// Deadline sets spec.activeDeadlineSeconds.
func (w *PodWrapper) Deadline(seconds int64) *PodWrapper {
	w.object.Spec.ActiveDeadlineSeconds = &seconds
	return w
}

// Phase sets status.phase.
func (w *PodWrapper) Phase(phase corev1.PodPhase) *PodWrapper {
	w.object.Status.Phase = phase
	return w
}

// Reason sets status.reason, such as Evicted or NodeLost.
func (w *PodWrapper) Reason(reason string) *PodWrapper {
	w.object.Status.Reason = reason
	return w
}

// Started sets status.startTime.
func (w *PodWrapper) Started(t time.Time) *PodWrapper {
	stamp := metav1.NewTime(t)
	w.object.Status.StartTime = &stamp
	return w
}

// Terminated adds a container that ended.
func (w *PodWrapper) Terminated(t time.Time) *PodWrapper { return w.Container(ended(t)) }

// InitTerminated adds an init container, or a sidecar, that ended.
func (w *PodWrapper) InitTerminated(t time.Time) *PodWrapper { return w.InitContainer(ended(t)) }

// InitContainer adds the status of an init container, or of a sidecar.
func (w *PodWrapper) InitContainer(status corev1.ContainerStatus) *PodWrapper {
	w.object.Status.InitContainerStatuses = append(w.object.Status.InitContainerStatuses, status)
	return w
}

// EphemeralTerminated adds an ephemeral container that ended.
func (w *PodWrapper) EphemeralTerminated(t time.Time) *PodWrapper {
	w.object.Status.EphemeralContainerStatuses = append(w.object.Status.EphemeralContainerStatuses, ended(t))
	return w
}

// Container adds the status of a container.
func (w *PodWrapper) Container(status corev1.ContainerStatus) *PodWrapper {
	w.object.Status.ContainerStatuses = append(w.object.Status.ContainerStatuses, status)
	return w
}

// LastTerminated adds a container that waits, and whose earlier attempt ended.
func (w *PodWrapper) LastTerminated(t time.Time) *PodWrapper {
	return w.Container(corev1.ContainerStatus{Name: "main",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: ended(t).State})
}

// Condition adds a condition with status True.
func (w *PodWrapper) Condition(kind corev1.PodConditionType, t time.Time) *PodWrapper {
	w.object.Status.Conditions = append(w.object.Status.Conditions,
		corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(t)})
	return w
}

func ended(t time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.NewTime(t)}}}
}
