package policy_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// The typed readers of the feeds and the generic reader of admission answer alike, for any Job and
// Pod.
func TestReadersAgree(t *testing.T) {
	t.Run("Job", rapid.MakeCheck(func(t *rapid.T) {
		job := drawJob(t)
		agree(t, policy.FactsOfJob(job.Obj()), policy.FactsOfObject(policy.JobProfile, job.Map()))
	}))
	t.Run("Pod", rapid.MakeCheck(func(t *rapid.T) {
		pod := drawPod(t)
		agree(t, policy.FactsOfPod(pod.Obj()), policy.FactsOfObject(policy.PodProfile, pod.Map()))
	}))
}

func agree(t *rapid.T, typed, generic *policy.Facts) {
	if a, b := factsText(typed), factsText(generic); a != b {
		t.Fatalf("the readers differ\ntyped:   %s\ngeneric: %s", a, b)
	}
	scope := &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h", "default-deadline", "1h", "max-ttl", "1d")}
	a, b := resolution.Resolve(typed, scope), resolution.Resolve(generic, scope)
	if x, y := fmt.Sprint(judging.Judge(typed, &a, noon)), fmt.Sprint(judging.Judge(generic, &b, noon)); x != y {
		t.Fatalf("the verdicts differ\ntyped:   %s\ngeneric: %s", x, y)
	}
}

// factsText is every field of the facts, with times in one zone and pointers followed.
func factsText(f *policy.Facts) string {
	owner := ""
	if f.Owner != nil {
		owner = fmt.Sprintf("%s %s %s %s", f.Owner.APIVersion, f.Owner.Kind, f.Owner.Name, f.Owner.UID)
	}
	return fmt.Sprintf("%s %s/%s %s %s labels %v annotations %v finalizers %v created %s deleting %t owner %q managed %q restart %q "+"ttl %v deadline %v started %s suspended %t finished %t %s at %s, %v",
		f.Profile.Name, f.Namespace, f.Name, f.UID, f.ResourceVersion, f.Labels, f.Annotations, f.Finalizers,
		f.Created.UTC(), f.Deleting, owner, f.ManagedBy, f.RestartPolicy, f.NativeTTL, f.NativeDeadline,
		f.Started.UTC(), f.Suspended, f.Finished, f.Outcome, f.FinishTime.UTC(), f.StateError)
}

var (
	annotationKeys = []string{
		wellknown.AnnotationTTL, wellknown.AnnotationTTLSucceeded, wellknown.AnnotationTTLFailed, wellknown.AnnotationActiveDeadline,
		wellknown.AnnotationProtect, wellknown.AnnotationTTLSource, wellknown.AnnotationFinishedAt, "example.com/other",
	}
	annotationValues = []string{"", "5", "1h", "2d", "never", "soon", "true", "false", "namespace/ci", "object", "2026-12-24T11:00:00Z"}
)

// drawTime is an instant in whole seconds around noon, or none.
func drawTime(t *rapid.T, label string) time.Time {
	if rapid.IntRange(0, 5).Draw(t, label+" absent") == 0 {
		return time.Time{}
	}
	return noon.Add(time.Duration(rapid.IntRange(-5000, 5000).Draw(t, label)) * time.Second)
}

// drawMeta calls the setters that Job and Pod wrappers share.
func drawMeta(t *rapid.T, annotation, label func(key, value string), finalizer func(string), owner func(apiVersion, kind, name string)) {
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(annotationKeys), 0, 4, rapid.ID).Draw(t, "annotations") {
		annotation(key, rapid.SampledFrom(annotationValues).Draw(t, key))
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{wellknown.LabelMultiKueueOrigin, wellknown.LabelTTL}), 0, 2, rapid.ID).Draw(t, "labels") {
		label(key, rapid.SampledFrom([]string{"", "x"}).Draw(t, key))
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{wellknown.FinalizerJobTracking, "example.com/x"}), 0, 2).Draw(t, "finalizers") {
		finalizer(name)
	}
	if kind := rapid.SampledFrom([]string{"", "batch/v1 Job", "batch/v1 CronJob", "jobset.x-k8s.io/v1alpha2 JobSet"}).Draw(t, "owner"); kind != "" {
		var apiVersion, name string
		_, _ = fmt.Sscan(kind, &apiVersion, &name)
		owner(apiVersion, name, "owner")
	}
}

func drawJob(t *rapid.T) *builders.JobWrapper {
	job := builders.MakeJob("ci", "a").Created(drawTime(t, "created")).UID(types.UID(rapid.SampledFrom([]string{"", "u1"}).Draw(t, "uid"))).ResourceVersion(rapid.SampledFrom([]string{"", "7"}).Draw(t, "version"))
	drawMeta(t, func(k, v string) { job.Annotation(k, v) }, func(k, v string) { job.Label(k, v) }, func(n string) { job.Finalizer(n) }, func(a, k, n string) { job.ControlledBy(a, k, n) })
	if rapid.Bool().Draw(t, "deleting") {
		job.Deleting(noon)
	}
	if rapid.Bool().Draw(t, "has TTL") {
		job.TTL(rapid.Int32().Draw(t, "TTL"))
	}
	if rapid.Bool().Draw(t, "has deadline") {
		job.Deadline(rapid.Int64().Draw(t, "deadline"))
	}
	if rapid.Bool().Draw(t, "has suspend") {
		job.Suspend(rapid.Bool().Draw(t, "suspend"))
	}
	if manager := rapid.SampledFrom([]string{"-", "", wellknown.JobController, "example.com/x"}).Draw(t, "managedBy"); manager != "-" {
		job.ManagedBy(manager)
	}
	if instant := drawTime(t, "started"); !instant.IsZero() {
		job.Started(instant)
	}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		job.Condition(
			rapid.SampledFrom([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet}).Draw(t, "type"),
			rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, "status"),
			drawTime(t, "transition"))
	}
	return job
}

func drawPod(t *rapid.T) *builders.PodWrapper {
	pod := builders.MakePod("ci", "a").Created(drawTime(t, "created")).RestartPolicy(rapid.SampledFrom([]corev1.RestartPolicy{"", "Always", "OnFailure", "Never", "Odd"}).Draw(t, "restart")).
		Phase(rapid.SampledFrom([]corev1.PodPhase{"", "Pending", "Running", "Succeeded", "Failed", "Unknown"}).Draw(t, "phase"))
	drawMeta(t, func(k, v string) { pod.Annotation(k, v) }, func(k, v string) { pod.Label(k, v) }, func(n string) { pod.Finalizer(n) }, func(a, k, n string) { pod.ControlledBy(a, k, n) })
	if rapid.Bool().Draw(t, "deleting") {
		pod.Deleting(noon)
	}
	if rapid.Bool().Draw(t, "has deadline") {
		pod.Deadline(rapid.Int64().Draw(t, "deadline"))
	}
	if instant := drawTime(t, "started"); !instant.IsZero() {
		pod.Started(instant)
	}
	for range rapid.IntRange(0, 3).Draw(t, "containers") {
		instant := drawTime(t, "end")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			pod.Terminated(instant)
		case 1:
			pod.InitTerminated(instant)
		case 2:
			pod.EphemeralTerminated(instant)
		default:
			pod.LastTerminated(instant)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		pod.Condition(corev1.PodReady, drawTime(t, "transition"))
	}
	return pod
}
