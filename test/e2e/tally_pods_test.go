package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// Counted Pods are deleted on the tally's TTL, else on default-pod-ttl, executors of a driver
// included. A Pod that is not counted and has an owner gets no default (S5).
func TestCountedPodsAreDeleted(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultPodTTL, "1s")...)
	for name, ttl := range map[string]string{"soon": "1s", "never": "never", "silent": ""} {
		spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": name}}}
		if ttl != "" {
			spec["ttlAfterCounted"] = ttl
		}
		s.expectSuccess(s.create(map[string]any{"apiVersion": "curfew.dev/v1alpha1", "kind": "PodTally", "metadata": map[string]any{"name": name}, "spec": spec}))
	}
	s.poll("the tallies to count", func(context.Context) (bool, error) {
		out := s.kubectl("get", "podtallies", "-o", `jsonpath={.items[?(@.status.startTime)].metadata.name}`)
		return len(strings.Fields(out.stdout)) == 3, nil
	})
	driver := s.newPod(pod("driver", corev1.RestartPolicyNever, hold, "true"))
	made := map[string]metav1.Object{}
	for _, name := range []string{"soon", "never", "silent", "uncounted"} {
		executor := pod(name, corev1.RestartPolicyNever)
		executor.Labels = map[string]string{"app": name}
		executor.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(driver, corev1.SchemeGroupVersion.WithKind("Pod"))}
		made[name] = s.newPod(executor)
	}
	s.awaitGone(made["soon"])
	s.awaitGone(made["silent"])
	s.outlast(s.awaitPodFinish(made["never"]).Add(second))
	s.stillThere(made["never"])
	s.stillThere(made["uncounted"])
	s.stillThere(driver)
	for _, name := range []string{"soon", "never", "silent"} {
		s.poll("the count of "+name, func(context.Context) (bool, error) {
			return s.jsonpath("podtally", name, ".status.succeeded") == "1" && s.jsonpath("podtally", name, ".status.failed") == "0", nil
		})
	}
	if got := s.getPod("never").Annotations; got[wellknown.AnnotationTTL] != "" || got[wellknown.AnnotationCountedBy] == "" {
		t.Errorf("the annotations of a counted Pod are %v", got)
	}
}

// S7: a Pod that Curfew releases in order to delete it, which is denied, is counted after all. One
// that Curfew does delete is not.
func TestTallyOfPodsThatAreNotDeleted(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.tally("a")
	s.denyDeletion("", "pods", "this Pod is evidence")
	bad := s.newPod(tallied("bad", "a", hold, "true"))
	good := s.newPod(tallied("good", "a", hold, "true"))
	s.poll("the policy to hold", func(context.Context) (bool, error) {
		return s.kubectl("delete", "pod", "bad", "--dry-run=server").failed, nil
	})
	s.awaitTally("a", 2, 0, 0)
	s.expectSuccess(s.kubectl("label", "pod", "bad", "good", wellknown.LabelTTL+"="+until(s.ahead(3*second))))
	s.awaitGone(good)
	released := s.await("Pod bad to be released", func(e harness.Event) bool {
		return e.GetUID() == bad.UID && e.GetAnnotations()[wellknown.AnnotationCountedBy] == wellknown.CountedByNone
	})
	if slices.Contains(released.GetFinalizers(), wellknown.FinalizerTally) {
		t.Errorf("it was released with finalizers %v", released.GetFinalizers())
	}
	s.awaitTally("a", 1, 0, 0)
	s.patchPod("bad", `{"metadata":{"annotations":{"`+hold+`":null}}}`)
	s.awaitTally("a", 0, 1, 0)
	s.stillThere(bad)
	live, err := s.readTally(s.ctx, "a")
	s.ok(err)
	if by := s.getPod("bad").Annotations[wellknown.AnnotationCountedBy]; by != string(live.UID) {
		t.Errorf("it is counted by %q, want %q", by, live.UID)
	}
}
