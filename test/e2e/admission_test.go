package e2e

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// A default is filled into the native field and told to the person who creates the Job; the stamp
// says where it is from.
func TestDefaultTTLIsFilledInAndAnnounced(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectStderr(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultTTL+"=1d"))
	s.expectStderr(s.create(job("build")),
		`Warning: curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "`+s.name+`"`)
	if got := s.kubectl("get", "job", "build", "-o", "jsonpath={.spec.ttlSecondsAfterFinished}").stdout; got != "86400" {
		t.Errorf("ttlSecondsAfterFinished is %q, want 86400", got)
	}
	if got, want := s.getJob("build").Annotations[wellknown.AnnotationTTLSource], "namespace/"+s.name; got != want {
		t.Errorf("ttl-source is %q, want %q", got, want)
	}
}

// A patch that adds one annotation to an object without any must create the map, or the API server
// answers 500.
func TestPatchCreatesParents(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultPodTTL, "1h")
	created := s.newJob(job("bare"))
	if created.Spec.TTLSecondsAfterFinished == nil || created.Annotations[wellknown.AnnotationTTLSource] == "" {
		t.Errorf("a Job without annotations got %v and %v", created.Spec.TTLSecondsAfterFinished, created.Annotations)
	}
	bare := pod("bare", corev1.RestartPolicyNever)
	bare.Annotations = nil
	if got := s.newPod(bare).Annotations[wellknown.AnnotationTTL]; got != "1h" {
		t.Errorf("a Pod without annotations got %s=%q, want 1h", wellknown.AnnotationTTL, got)
	}
}

// mayEdit lets a ServiceAccount of the space work in it.
func (s *space) mayEdit(account string) {
	s.Helper()
	_, err := suite.cluster.Client.RbacV1().RoleBindings(s.name).Create(s.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: s.name}},
	}, metav1.CreateOptions{})
	s.ok(err)
}

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

func cronJob(name string) *batchv1.CronJob {
	return &batchv1.CronJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.CronJobSpec{Schedule: "30 2 29 2 *", JobTemplate: batchv1.JobTemplateSpec{Spec: job("").Spec}},
	}
}

// One default does not fit the bounds and is moved into them; what its author wrote is refused.
func TestBounds(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "30d", wellknown.AnnotationMinTTL, "10m", wellknown.AnnotationMaxTTL, "7d")
	s.expectStderr(s.create(job("default")),
		`Warning: curfew: ttlSecondsAfterFinished defaulted to 604800 (7d) from namespace "`+s.name+`"`)
	bound := func(which, value string) string {
		return "curfew.dev/" + which + "-ttl " + value + ` of namespace "` + s.name + `"`
	}
	s.expectRefusal(s.create(job("long", native(8*24*time.Hour))), denied("validate.curfew.dev",
		"spec.ttlSecondsAfterFinished: 691200 (8d) is above "+bound("max", "7d")+": use 7d or less"))
	s.expectRefusal(s.create(job("short", native(5*time.Minute))), denied("validate.curfew.dev",
		"spec.ttlSecondsAfterFinished: 300 (5m) is below "+bound("min", "10m")+": use 10m or more"))
	s.expectRefusal(s.create(job("never", annotated(wellknown.AnnotationTTL, "never"))), denied("validate.curfew.dev",
		"metadata.annotations[curfew.dev/ttl-after-finished]: never is above "+bound("max", "7d")+": use 7d or less"))
	s.expectStderr(s.create(job("fits", native(10*time.Minute))))
}
