package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// asController is the flag with which kubectl acts as the controller manager. What it creates
// for an owner is admitted with a warning, whatever the rule.
func (s *space) asController() string {
	s.Helper()
	const account = policy.ControllerManager // An account of a single controller counts for owners of its kind.
	_, err := suite.cluster.Client.RbacV1().RoleBindings(s.name).Create(s.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "controller"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: account}},
	}, metav1.CreateOptions{})
	s.ok(err)
	return "--as=" + account
}

// A controller creates a ReplicaSet from a template with a TTL label, which no rule denies. The
// Pods, which the ReplicaSet would create again and again, stay; a label of a Pod's own counts.
func TestLabelFromTheTemplateOfAnOwner(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	root := s.newConfigMap("root")
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: root.GetName(), UID: root.GetUID(), Controller: ptr.To(true)}
	labels := map[string]string{"app": "web", wellknown.LabelTTL: until(s.ahead(10 * second))}
	s.expectSuccess(s.kubectlInput(s.manifest(&appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(corev1.RestartPolicyAlways)},
		},
	}), "create", "-f", "-", s.asController()))
	pods := suite.cluster.Client.CoreV1().Pods(s.name)
	var first *corev1.PodList
	s.poll("two Pods", func(ctx context.Context) (bool, error) {
		var err error
		first, err = pods.List(ctx, metav1.ListOptions{})
		return err == nil && len(first.Items) == 2, err
	})
	for i := range first.Items {
		pod := &first.Items[i]
		s.poll("an Event on "+pod.Name, func(ctx context.Context) (bool, error) {
			events, err := suite.cluster.Client.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=Kept,involvedObject.name=" + pod.Name})
			return err == nil && len(events.Items) > 0 && strings.Contains(events.Items[0].Message, "comes from the template of ReplicaSet web"), err
		})
	}
	s.outlastLabel(now())
	for i := range first.Items {
		if sent := suite.proxy.Deletes(s.name, first.Items[i].Name); len(sent) != 0 {
			t.Errorf("DELETEs of %s: %+v", first.Items[i].Name, sent)
		}
	}
	s.expectStderr(s.kubectl("label", "pod", first.Items[0].Name, wellknown.LabelTTL+"="+until(s.ahead(5*second)), "--overwrite"),
		warned(labelField+"when this Pod is deleted, ReplicaSet web creates another one: set metadata.labels[curfew.dev/ttl] on the ReplicaSet or its owner to delete them together"))
	s.awaitGone(&first.Items[0])
	s.stillThere(&first.Items[1])
}

// A ReplicationController without labels gets its template's from the API server, and is kept. One
// with a label of its own expires.
func TestReplicationControllerWithLabelsOfItsTemplate(t *testing.T) {
	parallel(t)
	s := labelSpace(t) // The owner is a ConfigMap, which the controller must be able to read.
	controllers := corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
	s.grant("e2e-replication-controllers", controllers)
	s.awaitWatched("ReplicationController", true)
	s.follow("ReplicationController", controllers)
	root := s.newConfigMap("root")
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: root.GetName(), UID: root.GetUID(), Controller: ptr.To(true)}}}
	}
	expiry := s.ahead(15 * second)
	replicating := func(meta metav1.ObjectMeta, labels ...string) *corev1.ReplicationController {
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": meta.Name}}, Spec: podSpec(corev1.RestartPolicyAlways)}
		for _, label := range labels {
			template.Labels[label] = until(expiry)
		}
		return &corev1.ReplicationController{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"}, ObjectMeta: meta,
			Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](0), Selector: map[string]string{"app": meta.Name}, Template: &template}}
	}
	own := replicating(meta("own"))
	own.Labels = map[string]string{wellknown.LabelTTL: until(expiry.Add(second))}
	s.expectSuccess(s.kubectlInput(s.manifest(replicating(meta("copied"), wellknown.LabelTTL), own), "create", "-f", "-", s.asController()))
	get := func(name string) *corev1.ReplicationController {
		read, err := suite.cluster.Client.CoreV1().ReplicationControllers(s.name).Get(s.ctx, name, metav1.GetOptions{})
		s.ok(err)
		return read
	}
	copied := get("copied")
	if copied.Labels[wellknown.LabelTTL] != until(expiry) {
		t.Fatalf("the API server copies no labels of the template: %v", copied.Labels)
	}
	s.awaitGone(get("own"))
	s.poll("an Event on the ReplicationController", func(ctx context.Context) (bool, error) {
		events, err := suite.cluster.Client.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=Kept,involvedObject.name=copied"})
		return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "comes from the template of ReplicationController copied, whose labels apply to its Pods, and to itself if it has none")
		}), err
	})
	s.stillThere(copied)
	if sent := suite.proxy.Deletes(s.name, "copied"); len(sent) != 0 {
		t.Errorf("DELETEs: %+v", sent)
	}
}

// The template of any other workload is read, too.
func TestLabelFromTheTemplateOfOtherOwners(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	root := s.newConfigMap("root")
	labels := map[string]string{"app": "web", wellknown.LabelTTL: until(s.ahead(10 * second))}
	// Without labels of its own a ReplicationController gets its template's.
	meta := metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: root.GetName(), UID: root.GetUID(), Controller: ptr.To(true)}}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(corev1.RestartPolicyAlways)}
	s.expectSuccess(s.kubectlInput(s.manifest(
		&appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template}},
		&corev1.ReplicationController{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"}, ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To[int32](1), Selector: map[string]string{"app": "web"}, Template: &template}},
		&appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template}},
	), "create", "-f", "-", s.asController()))
	// No Node here has a kubelet, so the DaemonSet's Pod is not its controller's.
	daemon, err := suite.cluster.Client.AppsV1().DaemonSets(s.name).Get(s.ctx, "web", metav1.GetOptions{})
	s.ok(err)
	own := pod("daemon", corev1.RestartPolicyAlways, hold, "true")
	own.Labels, own.OwnerReferences = labels, []metav1.OwnerReference{*metav1.NewControllerRef(daemon, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	s.newPod(own)
	for _, kind := range []string{"StatefulSet", "ReplicationController", "DaemonSet"} {
		s.poll("an Event on the Pod of the "+kind, func(ctx context.Context) (bool, error) {
			events, err := suite.cluster.Client.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=Kept,involvedObject.kind=Pod"})
			return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return strings.Contains(e.Message, "comes from the template of "+kind+" web")
			}), err
		})
	}
	s.outlastLabel(now())
	list, err := suite.cluster.Client.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	for i := range list.Items {
		if sent := suite.proxy.Deletes(s.name, list.Items[i].Name); len(sent) != 0 {
			t.Errorf("DELETEs of %s: %+v", list.Items[i].Name, sent)
		}
	}
}

// A namespace turns to dry-run while objects with an explicit TTL and a label wait.
func TestDryRunTakesEffectForWhatWaits(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	inTime(t, 6*second, func(wait time.Duration) bool {
		when, ok := now(), true
		explicit := s.finishJob("explicit-"+wait.String(), when, ttl(wait))
		labelled := s.newJob(job("labelled-"+wait.String(), inTemplate(hold, "true"), labelled(lifetime.FormatDuration(wait))))
		s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationMode+"=dry-run"))
		if time.Now().Before(when.Add(wait - 3*second)) { // In three seconds Curfew has read that.
			s.outlast(when.Add(wait))
			s.outlastLabel(when.Add(wait + second))
			s.stillThere(explicit)
			s.stillThere(labelled)
			s.onlyDryRuns(explicit.Name)
			s.onlyDryRuns(labelled.Name)
		} else {
			ok = false
		}
		s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationMode+"-"))
		s.awaitGone(explicit)
		s.awaitGone(labelled)
		return ok
	})
}

// onlyDryRuns fails the test if a DELETE of an object was sent that is no dry run.
func (s *space) onlyDryRuns(name string) {
	s.Helper()
	for _, sent := range suite.proxy.Deletes(s.name, name) {
		if len(sent.Options.DryRun) == 0 {
			s.Errorf("WRONG DELETE: one of %s was sent that is no dry run", name)
		}
	}
}

// The owner of a finished Job is deleted while the Job's TTL runs. Curfew neither reads nor deletes
// what the garbage collector deleted or is deleting, nor a new Job of that name. An orphan keeps
// its TTL.
func TestOwnerDeletedWhileATTLRuns(t *testing.T) {
	parallel(t)
	for name, c := range map[string]struct {
		propagation metav1.DeletionPropagation
		finalizers  []string
		// then reports whether the garbage collector was faster than the TTL.
		then func(s *space, job *batchv1.Job, expiry time.Time) bool
	}{
		"collected": {metav1.DeletePropagationBackground, nil, func(s *space, job *batchv1.Job, expiry time.Time) bool {
			s.awaitGone(job)
			next := s.finishJob("build", now())
			if !time.Now().Before(expiry) {
				return false
			}
			s.outlast(expiry)
			s.stillThere(next)
			return true
		}},
		"terminating": {metav1.DeletePropagationBackground, []string{foreignFinalizer}, func(s *space, job *batchv1.Job, expiry time.Time) bool {
			s.awaitDeletion(job)
			if !time.Now().Before(expiry) {
				return false
			}
			s.outlast(expiry)
			if got := s.getJob("build"); got == nil || !slices.Contains(got.Finalizers, foreignFinalizer) {
				s.Errorf("the Job became %+v, want that it waits for its finalizer", got)
			}
			s.patchJob("build", `{"metadata":{"finalizers":null}}`)
			s.awaitGone(job)
			return true
		}},
		"orphaned": {metav1.DeletePropagationOrphan, nil, func(s *space, job *batchv1.Job, expiry time.Time) bool {
			deletion := s.awaitDeletion(job)
			if len(suite.proxy.Deletes(s.name, "build")) == 0 {
				return false // The garbage collector deleted the Job, which it had not seen when the owner was deleted.
			}
			s.notEarly(deletion, expiry)
			history := s.observer.History(job.UID)
			if last := history[len(history)-1]; len(last.GetOwnerReferences()) > 0 {
				s.Errorf("when it was deleted it still had the owners %v", last.GetOwnerReferences())
			}
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			inTime(t, 6*second, func(long time.Duration) bool {
				s := newSpace(t)
				requests := s.jobRequests()
				root := s.newConfigMap("root")
				finish := now()
				job := s.finishJob("build", finish, ttl(long), func(j *batchv1.Job) {
					j.Finalizers = c.finalizers
					j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: root.GetUID(), Controller: ptr.To(true)}}
				})
				s.ok(s.objects(configMaps).Namespace(s.name).Delete(s.ctx, "root", metav1.DeleteOptions{PropagationPolicy: &c.propagation}))
				if !c.then(s, job, finish.Add(long)) {
					return false
				}
				if got := requests.Load(); got > 0 && name != "orphaned" {
					t.Errorf("the controller sent %d requests for Jobs of the namespace", got)
				}
				if lines := logLines(suite.controller.Log, s.name+"/", `"level":"error"`); len(lines) > 0 {
					t.Errorf("the controller logged:\n%s", strings.Join(lines, "\n"))
				}
				return true
			})
		})
	}
}

// jobRequests counts the requests of the controller for Jobs of the space.
func (s *space) jobRequests() *atomic.Int32 {
	var requests atomic.Int32
	s.Cleanup(suite.proxy.Handle(func(_ http.ResponseWriter, r *http.Request) bool {
		if resource, namespace, _ := harness.Target(r.URL.Path); resource == "jobs" && namespace == s.name {
			requests.Add(1)
		}
		return false
	}))
	return &requests
}

// MultiKueue's label keeps an object only while Kueue is installed.
func TestMultiKueueLabel(t *testing.T) {
	s := newSpace(t)
	create := func(name, ttl string, labels ...string) *unstructured.Unstructured {
		container := map[string]any{"name": "main", "image": "none"}
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": map[string]any{
			"suspend": true, "template": map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{container}}},
		}}}
		object.SetName(name)
		object.SetLabels(pairs(append(labels, wellknown.LabelTTL, ttl)))
		created, err := s.objects(jobs).Namespace(s.name).Create(s.ctx, object, metav1.CreateOptions{})
		s.ok(err)
		return created
	}
	s.awaitGone(create("no-copy", "1s", wellknown.LabelMultiKueueOrigin, "hub"))
	kueue := s.define("Workload", "kueue.x-k8s.io", true, version{name: "v1beta1", storage: true}).GroupResource().String()
	copied := create("copy", "1s", wellknown.LabelMultiKueueOrigin, "hub")
	s.awaitGone(create("other", "3s"))
	if _, err := s.objects(jobs).Namespace(s.name).Get(s.ctx, "copy", metav1.GetOptions{}); err != nil {
		t.Errorf("the copy was not kept: %v", err)
	}
	s.undefine(kueue)
	s.awaitGone(copied)
}
