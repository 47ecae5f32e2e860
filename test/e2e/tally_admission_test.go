package e2e

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// podTally is the manifest of a PodTally.
func podTally(name, spec string) string {
	return "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: " + name + "}, spec: {" + spec + "}}"
}

// awaitPodsInUse waits until the API server sends the Pods of the namespace, or does not.
func (s *space) awaitPodsInUse(want bool) {
	s.Helper()
	s.poll("label pods-in-use", func(ctx context.Context) (bool, error) {
		namespace, err := suite.cluster.Client.CoreV1().Namespaces().Get(ctx, s.name, metav1.GetOptions{})
		return err == nil && (namespace.Labels[wellknown.LabelPodsInUse] == "true") == want, err
	})
}

// runningPod is a Pod that runs until the test ends.
func runningPod(name string, labels map[string]string, restart corev1.RestartPolicy) *corev1.Pod {
	out := pod(name, restart, hold, "true")
	out.Labels = labels
	return out
}

// The API server asks the webhook about new Pods of a namespace with a PodTally, and each Pod that
// the PodTally counts has the finalizer when it is stored. TestHold of webhook has more Pods.
func TestTallyFinalizer(t *testing.T) {
	parallel(t)
	s, plain := newSpace(t), newSpace(t)
	build := map[string]string{"app": "build"}
	s.expectStderr(s.kubectlInput(podTally("builds", "selector: {matchLabels: {app: build}}"), "create", "-f", "-"))
	s.awaitPodsInUse(true)
	plain.awaitPodsInUse(false)
	pods := suite.cluster.Client.CoreV1().Pods(s.name)

	// The webhook learns of the PodTally at about the same time as the controller that labels the
	// namespace. A Pod of a dry run is stored nowhere, so that no controller adopts it.
	s.poll("the webhook to know the PodTally", func(ctx context.Context) (bool, error) {
		created, err := pods.Create(ctx, runningPod("probe", build, corev1.RestartPolicyNever), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && slices.Contains(created.Finalizers, wellknown.FinalizerTally), err
	})
	// Stored, and from a template.
	if created := s.newPod(runningPod("stored", build, corev1.RestartPolicyNever)); !slices.Contains(created.Finalizers, wellknown.FinalizerTally) {
		t.Errorf("finalizers %q", created.Finalizers)
	}
	build2 := job("build")
	build2.Spec.Template.Labels, build2.Spec.Template.Annotations = build, map[string]string{hold: "true"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: build}, Spec: podSpec(corev1.RestartPolicyAlways)}
	replicas := int32(1)
	s.expectSuccess(s.create(build2, &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: build}, Template: template}}))
	s.poll("a Pod of each", func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Name != "stored" && slices.Contains(p.Finalizers, wellknown.FinalizerTally) {
				t.Errorf("Pod %s of %v has the finalizer", p.Name, p.OwnerReferences)
			}
		}
		return len(list.Items) == 3, nil
	})

	s.expectSuccess(s.kubectl("delete", "podtally", "builds"))
	s.awaitPodsInUse(false)
}
