package builders

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobWrapper builds a Job.
type JobWrapper struct {
	meta[*JobWrapper, *batchv1.Job]
}

// MakeJob starts an unfinished Job with one container.
func MakeJob(namespace, name string) *JobWrapper {
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       batchv1.JobSpec{Template: podTemplate()},
	}
	w := &JobWrapper{}
	w.meta = meta[*JobWrapper, *batchv1.Job]{object: job, self: w}
	return w
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
	}}
}

// TTL sets spec.ttlSecondsAfterFinished.
func (w *JobWrapper) TTL(seconds int32) *JobWrapper {
	w.object.Spec.TTLSecondsAfterFinished = &seconds
	return w
}

// Deadline sets spec.activeDeadlineSeconds.
func (w *JobWrapper) Deadline(seconds int64) *JobWrapper {
	w.object.Spec.ActiveDeadlineSeconds = &seconds
	return w
}

// Suspend sets spec.suspend.
func (w *JobWrapper) Suspend(suspend bool) *JobWrapper {
	w.object.Spec.Suspend = &suspend
	return w
}

// ManagedBy sets spec.managedBy.
func (w *JobWrapper) ManagedBy(controller string) *JobWrapper {
	w.object.Spec.ManagedBy = &controller
	return w
}

// TemplateAnnotation sets an annotation of the pod template.
func (w *JobWrapper) TemplateAnnotation(key, value string) *JobWrapper {
	w.object.Spec.Template.Annotations = with(w.object.Spec.Template.Annotations, key, value)
	return w
}

// Started sets status.startTime.
func (w *JobWrapper) Started(t time.Time) *JobWrapper {
	stamp := metav1.NewTime(t)
	w.object.Status.StartTime = &stamp
	return w
}

// Complete adds the condition Complete=True.
func (w *JobWrapper) Complete(t time.Time) *JobWrapper {
	return w.Condition(batchv1.JobComplete, corev1.ConditionTrue, t)
}

// Failed adds the condition Failed=True.
func (w *JobWrapper) Failed(t time.Time) *JobWrapper {
	return w.Condition(batchv1.JobFailed, corev1.ConditionTrue, t)
}

// Condition adds a condition; a zero time leaves lastTransitionTime out.
func (w *JobWrapper) Condition(kind batchv1.JobConditionType, status corev1.ConditionStatus, t time.Time) *JobWrapper {
	w.object.Status.Conditions = append(w.object.Status.Conditions,
		batchv1.JobCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(t)})
	return w
}
