package e2e

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// hold makes kwok keep a Pod running until the annotation is taken away; see
// test/cluster/README.md.
const (
	hold = "cluster.curfew.dev/hold"
	fail = "cluster.curfew.dev/fail"
)

func podSpec(restart corev1.RestartPolicy) corev1.PodSpec {
	return corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{{Name: "main", Image: "busybox:1.37"}}}
}

// job runs one Pod, which succeeds at once. Changes are applied in their order.
func job(name string, changes ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32),
			Template:     corev1.PodTemplateSpec{Spec: podSpec(corev1.RestartPolicyNever)},
		},
	}
	for _, change := range changes {
		change(j)
	}
	return j
}

// pod succeeds at once.
func pod(name string, restart corev1.RestartPolicy, annotations ...string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: pairs(annotations)},
		Spec:       podSpec(restart),
	}
}

func native(ttl time.Duration) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		seconds := int32(ttl / time.Second)
		j.Spec.TTLSecondsAfterFinished = &seconds
	}
}

func annotated(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		if j.Annotations == nil {
			j.Annotations = map[string]string{}
		}
		j.Annotations[key] = value
	}
}

// ttl is the annotation.
func ttl(after time.Duration) func(*batchv1.Job) {
	return annotated(wellknown.AnnotationTTL, strconv.Itoa(int(after/time.Second)))
}

// inTemplate annotates the Pods of a Job.
func inTemplate(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		if j.Spec.Template.Annotations == nil {
			j.Spec.Template.Annotations = map[string]string{}
		}
		j.Spec.Template.Annotations[key] = value
	}
}

func finalized(j *batchv1.Job) { j.Finalizers = []string{foreignFinalizer} }

const foreignFinalizer = "e2e.curfew.dev/hold"

// byTest keeps the Job controller's hands off a Job, so that the test can write its status.
func byTest(j *batchv1.Job) {
	manager := "e2e.curfew.dev/test"
	j.Spec.ManagedBy = &manager
}

func instant(t time.Time) *metav1.Time { when := metav1.NewTime(t); return &when }

// finishJob creates a Job that finished at an instant, past or future, whole seconds.
func (s *space) finishJob(name string, t time.Time, changes ...func(*batchv1.Job)) *batchv1.Job {
	s.Helper()
	finished, err := s.tryFinishJob(name, t, changes...)
	s.ok(err)
	return finished
}

func (s *space) tryFinishJob(name string, t time.Time, changes ...func(*batchv1.Job)) (*batchv1.Job, error) {
	jobs := suite.cluster.Client.BatchV1().Jobs(s.name)
	created, err := jobs.Create(s.ctx, job(name, append(changes, byTest)...), metav1.CreateOptions{})
	if err != nil {
		return created, err
	}
	return s.complete(created, t)
}

// complete writes the status of a Job of [byTest] that succeeded at an instant.
func (s *space) complete(created *batchv1.Job, t time.Time) (*batchv1.Job, error) {
	created.Status = batchv1.JobStatus{StartTime: instant(t), CompletionTime: instant(t), Succeeded: 1}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		created.Status.Conditions = append(created.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: *instant(t), LastProbeTime: *instant(t),
			Reason: batchv1.JobReasonCompletionsReached})
	}
	return suite.cluster.Client.BatchV1().Jobs(s.name).UpdateStatus(s.ctx, created, metav1.UpdateOptions{})
}

// slack is a time that suffices for what a test does before an instant: longer on a machine that is
// slower, or busy with other tests.
func (s *space) slack(d time.Duration) time.Duration {
	s.Helper()
	began := time.Now()
	s.expectSuccess(s.kubectl("get", "namespace", s.name))
	return (d + 15*time.Since(began)).Round(second)
}

// ahead is an instant before which a test can do a few things.
func (s *space) ahead(d time.Duration) time.Time { return now().Add(s.slack(d)) }

// longStanding adds that a namespace has had its defaults for an hour. Otherwise an object created
// in the same second as the namespace counts as older than its defaults, and only admission can
// give it one.
func longStanding(annotations ...string) []string {
	since := resolution.FormatSince(time.Now().Add(-hour), resolution.DefaultsHash(pairs(annotations)))
	return append(annotations, wellknown.AnnotationDefaultSince, since)
}

// now is the present in whole seconds, as the API server writes times.
func now() time.Time { return time.Now().Truncate(time.Second) }

const (
	second = time.Second
	hour   = time.Hour
)
