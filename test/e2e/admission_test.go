package e2e

import (
	"encoding/json"
	"strings"
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

// An object with a TTL keeps it, without a warning. Curfew removes a stamp that the author wrote.
func TestOwnTTLWins(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	s.expectStderr(s.create(job("own", native(time.Hour), annotated(wellknown.AnnotationTTLSource, "namespace/forged"))))
	created := s.getJob("own")
	if got := *created.Spec.TTLSecondsAfterFinished; got != 3600 {
		t.Errorf("its TTL became %d, want 3600", got)
	}
	if got := created.Annotations[wellknown.AnnotationTTLSource]; got != "object" {
		t.Errorf("ttl-source is %q, want object", got)
	}
}

// Defaults by outcome cannot stand in the native field, which the in-tree controller would act on
// whatever the outcome.
func TestDefaultsByOutcomeAreAnnotations(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTLSucceeded, "10m", wellknown.AnnotationDefaultTTLFailed, "3d")
	s.expectStderr(s.create(job("trial")),
		`Warning: curfew: curfew.dev/ttl-after-succeeded defaulted to 10m from namespace "`+s.name+`"`,
		`Warning: curfew: curfew.dev/ttl-after-failed defaulted to 3d from namespace "`+s.name+`"`)
	created := s.getJob("trial")
	if created.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("the native field became %d", *created.Spec.TTLSecondsAfterFinished)
	}
	if got := created.Annotations[wellknown.AnnotationTTLSucceeded] + " " + created.Annotations[wellknown.AnnotationTTLFailed]; got != "10m 3d" {
		t.Errorf("the annotations became %q, want 10m 3d", got)
	}
}

// Controllers create Jobs all day; their logs are no place for announcements.
func TestDefaultIsNotAnnouncedToServiceAccounts(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	s.mayEdit("builder")
	account := "system:serviceaccount:" + s.name + ":builder"
	s.expectStderr(s.kubectlInput(s.manifest(job("by-robot")), "--as", account, "create", "-f", "-"))
	if s.getJob("by-robot").Spec.TTLSecondsAfterFinished == nil {
		t.Error("it got no default")
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

// Children of live controllers get no default, and neither does any other managed object (S5).
func TestNoDefaultForWhatOthersManage(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	owner := s.newJob(job("owner", native(time.Hour), inTemplate(hold, "true")))
	for name, change := range map[string]func(*batchv1.Job){
		"owned": func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, jobKind)}
		},
		"managed":   byTest,
		"multikueu": func(j *batchv1.Job) { j.Labels = map[string]string{wellknown.LabelMultiKueueOrigin: "manager"} },
	} {
		if created := s.newJob(job(name, change)); created.Spec.TTLSecondsAfterFinished != nil {
			t.Errorf("%s: got a default of %d", name, *created.Spec.TTLSecondsAfterFinished)
		}
	}
}

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// A CronJob's Jobs do get one, and long enough for the CronJob's controller to see them finish.
func TestJobOfCronJobGetsAtLeastAMinute(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "5s")
	s.expectSuccess(s.create(cronJob("nightly")))
	s.expectSuccess(s.kubectl("create", "job", "tonight", "--from=cronjob/nightly"))
	created := s.getJob("tonight")
	if owner := metav1.GetControllerOf(created); owner == nil || owner.Kind != "CronJob" {
		t.Fatalf("its controller is %v, want the CronJob", owner)
	}
	if got := created.Spec.TTLSecondsAfterFinished; got == nil || *got != 60 {
		t.Errorf("its TTL is %v, want 60", got)
	}
	// The CronJob itself is validated, never changed.
	cron, err := suite.cluster.Client.BatchV1().CronJobs(s.name).Get(s.ctx, "nightly", metav1.GetOptions{})
	s.ok(err)
	if cron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished != nil || len(cron.Annotations) > 0 {
		t.Errorf("the CronJob was changed: %v %v", cron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished, cron.Annotations)
	}
}

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

func TestShortTTLIsWarned(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectStderr(s.create(job("quick", native(5*time.Second))),
		"Warning: curfew: spec.ttlSecondsAfterFinished: 5 (5s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more")
	s.expectStderr(s.create(job("calm", native(time.Minute))))
	s.expectStderr(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultTTL+"=10s"),
		"Warning: curfew: metadata.annotations[curfew.dev/default-ttl]: 10s is under 60s: a Job or Pod may be deleted before anyone reads its logs; use 60s or more")
}

// Where nothing of Curfew's is in use, nothing is said and nothing changed.
func TestUnusedNamespaceIsLeftAlone(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectStderr(s.create(job("plain"), pod("plain", corev1.RestartPolicyNever)))
	if created := s.getJob("plain"); len(created.Annotations) > 0 || created.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("the Job was changed: %v", created.Annotations)
	}
	namespace, err := suite.cluster.Client.CoreV1().Namespaces().Get(s.ctx, s.name, metav1.GetOptions{})
	s.ok(err)
	data, err := json.Marshal(namespace.ObjectMeta)
	s.ok(err)
	if strings.Contains(string(data), wellknown.Prefix) {
		t.Errorf("the namespace was changed: %s", data)
	}
}
