package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// may lets a person do some things with Jobs and Pods of the space.
func (s *space) may(person string, verbs ...string) {
	s.Helper()
	roles := suite.cluster.Client.RbacV1()
	_, err := roles.Roles(s.name).Create(s.ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: person},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"", "batch"}, Resources: []string{"jobs", "pods"}, Verbs: verbs}},
	}, metav1.CreateOptions{})
	s.ok(err)
	_, err = roles.RoleBindings(s.name).Create(s.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: person},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: person},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person}},
	}, metav1.CreateOptions{})
	s.ok(err)
}

const notYours = ", but you may not delete it yourself: ask for the verb delete"

// notYours ends the warning about an object of a kind in the space.
func (s *space) notYours(kind string) string {
	on := map[string]string{"Job": " on jobs.batch", "Pod": " on pods", "Service": " on services"}[kind]
	return notYours + on + ` in namespace "` + s.name + `"`
}

// A TTL is a delete permission in disguise: users who may not delete are warned, for what they
// write themselves and not for what a default fills in. --require-delete refuses, see
// options_test.go.
func TestTTLOfThoseWhoMayNotDelete(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	s.may("ann", "create", "get", "patch")
	s.may("bob", "create", "get", "patch", "delete")
	objects := func(who string) string {
		return s.manifest(job("native-"+who, native(time.Hour)), job("label-"+who, labelled("1d"), native(2*time.Hour)),
			pod("pod-"+who, corev1.RestartPolicyNever, wellknown.AnnotationTTL, "1h"), job("never-"+who, annotated(wellknown.AnnotationTTL, "never")))
	}
	s.expectStderr(s.kubectlInput(objects("ann"), "--as=ann", "create", "-f", "-"),
		warned("spec.ttlSecondsAfterFinished: sets when this Job is deleted"+s.notYours("Job")),
		warned("metadata.annotations[curfew.dev/ttl-after-finished]: sets when this Pod is deleted"+s.notYours("Pod")))
	s.expectStderr(s.kubectlInput(objects("bob"), "--as=bob", "create", "-f", "-"))
	s.expectStderr(s.kubectlInput(s.manifest(job("default", inTemplate(hold, "true"))), "--as=ann", "create", "-f", "-"),
		warned(`ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "`+s.name+`"`))

	s.expectStderr(s.kubectl("--as=ann", "label", "job", "default", wellknown.LabelTTL+"=2d"),
		warned("metadata.labels[curfew.dev/ttl]: sets when this Job is deleted"+s.notYours("Job")))
	s.expectStderr(s.kubectl("--as=ann", "label", "job", "default", "team=blue"))
	s.expectStderr(s.kubectl("--as=bob", "label", "--overwrite", "job", "default", wellknown.LabelTTL+"=3d"))
}
