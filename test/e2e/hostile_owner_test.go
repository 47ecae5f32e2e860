package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

const cronJobController = "system:serviceaccount:kube-system:cronjob-controller"

// byControllerManager are the flags of a request of kube-controller-manager, with every permission.
var byControllerManager = []string{"--as=system:kube-controller-manager", "--as-group=system:masters"}

// A tenant's ServiceAccount that names an owner gets past no rule. The CronJob controller does, for
// a CronJob that has the value, and no other.
func TestHostileForgedOwner(t *testing.T) {
	s := newSpace(t)
	s.mayEdit("default")
	token, err := suite.cluster.Client.CoreV1().ServiceAccounts(s.name).CreateToken(s.ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.ok(err)
	mine := s.newConfigMap("mine")
	cron := cronJob("older")
	cron.Spec.Suspend, cron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = new(true), new(int32(30))
	older, err := suite.cluster.Client.BatchV1().CronJobs(s.name).Create(s.ctx, cron, metav1.CreateOptions{})
	s.ok(err)
	s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationMinTTL+"=1h", wellknown.AnnotationMaxTTL+"=7d"))
	s.poll("the bounds to be known to the webhook", func(context.Context) (bool, error) {
		return s.kubectlInput(s.manifest(job("plain", native(0))), "create", "--dry-run=server", "-f", "-").failed, nil
	})

	owned := func(name string, ttl time.Duration, owner metav1.OwnerReference) *batchv1.Job {
		return job(name, native(ttl), func(j *batchv1.Job) { j.OwnerReferences = []metav1.OwnerReference{owner} })
	}
	byMine := *metav1.NewControllerRef(mine, mine.GroupVersionKind())
	byCron := *metav1.NewControllerRef(older, batchv1.SchemeGroupVersion.WithKind("CronJob"))
	const field = "spec.ttlSecondsAfterFinished"
	for what, object := range map[string]*batchv1.Job{
		"TTL 0":                         owned("forged", 0, byMine),
		"a TTL over max-ttl":            owned("forged", tooLong, byMine),
		"the TTL of a CronJob":          owned("forged", 30*time.Second, byCron),
		"an owner that it has made up":  owned("forged", 0, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "a", UID: "u", Controller: new(true)}),
		"the TTL of a CronJob, other 0": owned("forged", 0, byCron),
	} {
		request := s.creation(s.jobsPath(), object)
		request.token = token.Status.Token
		s.refusesHostile(what, request, field)
	}
	template := `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"forged","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"mine","uid":"` + string(mine.GetUID()) + `","controller":true}]},
		"spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x","curfew.dev/ttl":"1h"}},"spec":{"containers":[{"name":"main","image":"busybox"}]}}}}`
	s.refusesHostile("a template", hostile{method: http.MethodPost, path: "/apis/apps/v1/namespaces/" + s.name + "/replicasets", body: []byte(template), token: token.Status.Token}, "spec.template")

	byController := func(object *batchv1.Job) hostile {
		request := s.creation(s.jobsPath(), object)
		request.as = cronJobController
		return request
	}
	gone := byCron
	gone.UID = "00000000-0000-4000-8000-000000000000"
	s.refusesHostile("another TTL than the CronJob's", byController(owned("other", 40*time.Second, byCron)), field)
	s.refusesHostile("a CronJob that is gone", byController(owned("gone", 30*time.Second, gone)), field)
	if got := s.send(byController(owned("nightly", 30*time.Second, byCron))); got.code != http.StatusCreated || !strings.Contains(strings.Join(got.warnings, "\n"), "admitted only because CronJob older controls it") {
		t.Errorf("the CronJob controller: %s", got)
	}
}

// Each kind of owner with a known template is read before its controller gets past a rule.
func TestOwnersOfChildrenAreRead(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	for kind, name := range map[string]string{"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
		"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"} {
		child := job("child", annotated(wellknown.AnnotationTTL, "soon"), func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: name, Kind: kind, Name: "gone", UID: "u", Controller: new(true)}}
		})
		text, err := json.Marshal(child)
		s.ok(err)
		out := s.kubectlInput(string(text), append([]string{"create", "--dry-run=server", "-f", "-"}, byControllerManager...)...)
		if !out.failed || !strings.Contains(out.stderr, `"soon" is not a duration`) {
			t.Errorf("a child of a %s that is gone: %s%s", kind, out.stdout, out.stderr)
		}
	}
}

// A runtime of the namespace that the webhook does not know is read live.
func TestRuntimeOfATrainJobIsRead(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	s.expectStderr(s.create(s.trainJob("lonely", "gone", at("spec.runtimeRef.kind", "TrainingRuntime"))),
		`Warning: curfew: spec.runtimeRef.name: runtime "gone" does not exist: this TrainJob is kept until it exists and sets a TTL`)
}
