package builders

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronJobWrapper builds a CronJob.
type CronJobWrapper struct {
	meta[*CronJobWrapper, *batchv1.CronJob]
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
	w := &CronJobWrapper{}
	w.meta = meta[*CronJobWrapper, *batchv1.CronJob]{object: cronJob, self: w}
	return w
}

// TTL sets spec.ttlSecondsAfterFinished of the Job template.
func (w *CronJobWrapper) TTL(seconds int32) *CronJobWrapper {
	w.object.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = &seconds
	return w
}

// JobAnnotation sets an annotation of the Job template.
func (w *CronJobWrapper) JobAnnotation(key, value string) *CronJobWrapper {
	template := &w.object.Spec.JobTemplate
	template.Annotations = with(template.Annotations, key, value)
	return w
}
