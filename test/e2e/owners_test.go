package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
)

// A controller creates a ReplicaSet from a template with a TTL label, which no rule denies. The Pods, which
// the ReplicaSet would create again and again, stay; a label of a Pod's own counts.
func TestLabelFromTheTemplateOfAnOwner(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.passes(s.kubectl("create", "serviceaccount", "builder"))
	s.mayEdit("builder")
	root := s.newConfigMap("root")
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: root.GetName(), UID: root.GetUID(), Controller: ptr.To(true)}
	labels := map[string]string{"app": "web", policy.LabelTTL: until(now().Add(5 * second))}
	s.passes(s.kubectlInput(s.manifest(&appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(corev1.RestartPolicyAlways)},
		},
	}), "create", "-f", "-", "--as=system:serviceaccount:"+s.name+":builder"))
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
	s.outlast(now())
	for i := range first.Items {
		if sent := suite.proxy.Deletes(s.name, first.Items[i].Name); len(sent) != 0 {
			t.Errorf("DELETEs of %s: %+v", first.Items[i].Name, sent)
		}
	}
	s.passes(s.kubectl("label", "pod", first.Items[0].Name, policy.LabelTTL+"="+until(now().Add(second)), "--overwrite"))
	s.awaitGone(&first.Items[0])
	s.stillThere(&first.Items[1])
}

// A namespace turns to dry-run while objects with an explicit TTL and a label wait.
func TestDryRunTakesEffectForWhatWaits(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	at := now()
	explicit := s.finishJob("explicit", at, ttl(15*second))
	labelled := s.newJob(job("labelled", inTemplate(hold, "true")))
	s.passes(s.kubectl("label", "job", "labelled", policy.LabelTTL+"="+until(at.Add(15*second))))
	s.passes(s.kubectl("annotate", "namespace", s.name, policy.AnnotationMode+"=dry-run"))
	if !time.Now().Before(at.Add(12 * second)) {
		t.Fatal("this machine was too slow for the test to say anything")
	}
	s.outlast(at.Add(15 * second))
	s.stillThere(explicit)
	s.stillThere(labelled)
	for _, name := range []string{"explicit", "labelled"} {
		for _, sent := range suite.proxy.Deletes(s.name, name) {
			if len(sent.Options.DryRun) == 0 {
				t.Errorf("a DELETE of %s was sent that is no dry run", name)
			}
		}
	}
	s.passes(s.kubectl("annotate", "namespace", s.name, policy.AnnotationMode+"-"))
	s.awaitGone(explicit)
	s.awaitGone(labelled)
}
