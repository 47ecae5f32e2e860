package builders

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronJobWrapper builds a CronJob.
type CronJobWrapper struct {
	meta[*CronJobWrapper]
	cronJob *batchv1.CronJob
}

// MakeCronJob starts a CronJob that runs every hour.
func MakeCronJob(namespace, name string) *CronJobWrapper {
	cronJob := &batchv1.CronJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule:    "0 * * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: podTemplate()}},
		},
	}
	w := &CronJobWrapper{cronJob: cronJob}
	w.meta = meta[*CronJobWrapper]{object: cronJob, self: w}
	return w
}

// Schedule sets spec.schedule.
func (w *CronJobWrapper) Schedule(schedule string) *CronJobWrapper {
	w.cronJob.Spec.Schedule = schedule
	return w
}

// TTL sets spec.ttlSecondsAfterFinished of the Job template.
func (w *CronJobWrapper) TTL(seconds int32) *CronJobWrapper {
	w.cronJob.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = &seconds
	return w
}

// JobAnnotation sets an annotation of the Job template.
func (w *CronJobWrapper) JobAnnotation(key, value string) *CronJobWrapper {
	template := &w.cronJob.Spec.JobTemplate
	template.Annotations = with(template.Annotations, key, value)
	return w
}

// PodAnnotation sets an annotation of the pod template inside the Job template.
func (w *CronJobWrapper) PodAnnotation(key, value string) *CronJobWrapper {
	template := &w.cronJob.Spec.JobTemplate.Spec.Template
	template.Annotations = with(template.Annotations, key, value)
	return w
}

// Obj is the CronJob.
func (w *CronJobWrapper) Obj() *batchv1.CronJob { return w.cronJob.DeepCopy() }

// Map is the CronJob in its JSON form.
func (w *CronJobWrapper) Map() map[string]any { return Map(w.cronJob) }
