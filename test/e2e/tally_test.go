package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

var (
	tallyPods    = flag.Int("tally-pods", 300, "Pods of TestTallyIsKilled")
	tallyTallies = flag.Int("tally-tallies", 3, "PodTallies of TestTallyIsKilled")
	tallyKills   = flag.Int("tally-kills", 5, "how often TestTallyIsKilled kills the controller")
)

// tally creates a PodTally of the Pods with a label.
func (s *space) tally(name string) {
	s.Helper()
	s.expectStderr(s.kubectlInput(fmt.Sprintf(`{"apiVersion": "curfew.dev/v1alpha1", "kind": "PodTally", "metadata": {"name": %q}, "spec": {"selector": {"matchLabels": {"tally": %q}}}}`, name, name), "create", "-f", "-"))
}

func (s *space) readTally(ctx context.Context, name string) (*v1alpha1.PodTally, error) {
	live, err := s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(s.name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &v1alpha1.PodTally{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, out)
}

// awaitTally waits until a PodTally has counted so many Pods and waits for none.
func (s *space) awaitTally(name string, active, succeeded, failed int64) {
	s.Helper()
	var last *v1alpha1.PodTallyStatus
	defer func() {
		if s.Failed() {
			s.Logf("note: %s: %+v", name, last)
		}
	}()
	s.poll(fmt.Sprintf("PodTally %s to say %d active, %d succeeded, %d failed", name, active, succeeded, failed), func(ctx context.Context) (bool, error) {
		object, err := s.readTally(ctx, name)
		if err != nil {
			return false, err
		}
		last = &object.Status
		return last.Active == active && last.Succeeded == succeeded && last.Failed == failed && last.UncountedTerminatedPods == nil, nil
	})
}

// tallied is a Pod of a PodTally.
func tallied(name, text string, annotations ...string) *corev1.Pod {
	out := pod(name, corev1.RestartPolicyNever, annotations...)
	out.Labels = map[string]string{"tally": text}
	return out
}

// S7: the controller is killed at any moment, again and again, while Pods finish and are deleted at
// once: each is counted, exactly once, and no finalizer is left.
func TestTallyIsKilled(t *testing.T) {
	s := newSpace(t)
	defer restartController(s)()
	names := make([]string, *tallyTallies)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
		s.tally(names[i])
	}
	pods := suite.cluster.Client.CoreV1().Pods(s.name)
	var succeeded, failed = map[string]int64{}, map[string]int64{}
	kill := max(1, *tallyPods / *tallyKills)
	creates, ctx := errgroup.WithContext(s.ctx)
	creates.SetLimit(8)
	for i := range *tallyPods {
		name := names[rand.IntN(len(names))]
		object := tallied(fmt.Sprint("p", i), name)
		if rand.IntN(4) == 0 {
			object.Annotations = map[string]string{fail: "true"}
			failed[name]++
		} else {
			succeeded[name]++
		}
		creates.Go(func() error {
			_, err := pods.Create(ctx, object, metav1.CreateOptions{})
			return err
		})
		if i%kill == kill/2 {
			s.ok(suite.controller.Kill())
			s.ok(startController(s.ctx))
		}
	}
	s.ok(creates.Wait())
	for _, name := range names {
		s.awaitTally(name, 0, succeeded[name], failed[name])
	}
	list, err := pods.List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	for i := range list.Items {
		if p := &list.Items[i]; slices.Contains(p.Finalizers, wellknown.FinalizerTally) || p.Annotations[wellknown.AnnotationCountedBy] == "" {
			t.Errorf("Pod %s: finalizers %v, annotations %v", p.Name, p.Finalizers, p.Annotations)
		}
	}
}

// What becomes of Pods before they are counted: deleted, relabelled, of a tally that did not exist
// yet, or of one that is deleted.
func TestTally(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.newPod(tallied("before", "a"))
	s.awaitPodFinish(s.newPod(tallied("finished", "a", fail, "true")))
	s.tally("a")
	s.awaitTally("a", 0, 1, 1)

	deleted := s.newPod(tallied("deleted", "a", hold, "true"))
	s.newPod(tallied("relabelled", "a", hold, "true"))
	unscheduled := tallied("unscheduled", "a")
	unscheduled.Spec.SchedulerName = "none"
	unscheduled = s.newPod(unscheduled)
	s.awaitTally("a", 3, 1, 1)
	s.expectSuccess(s.kubectl("delete", "pod", "deleted", "unscheduled", "--wait=false"))
	s.awaitGone(deleted)
	s.awaitGone(unscheduled)
	s.expectSuccess(s.kubectl("label", "pod", "relabelled", "tally=other", "--overwrite"))
	s.awaitTally("a", 0, 1, 3)
	s.awaitReleased("relabelled")

	expired := tallied("expired", "a", hold, "true") // Curfew deletes it, so that it is not counted.
	expired.Labels[wellknown.LabelTTL] = "3s"
	if expired = s.newPod(expired); !slices.Contains(expired.Finalizers, wellknown.FinalizerTally) {
		t.Errorf("admission gave it finalizers %v", expired.Finalizers)
	}
	s.awaitGone(expired)
	s.awaitTally("a", 0, 1, 3)

	s.newPod(tallied("released", "a", hold, "true"))
	s.awaitTally("a", 1, 1, 3)
	s.expectSuccess(s.kubectl("delete", "podtally", "a"))
	s.awaitReleased("released")
}

// awaitReleased waits until a Pod does not have the finalizer.
func (s *space) awaitReleased(name string) {
	s.Helper()
	s.poll("Pod "+name+" to lose the finalizer", func(ctx context.Context) (bool, error) {
		p, err := suite.cluster.Client.CoreV1().Pods(s.name).Get(ctx, name, metav1.GetOptions{})
		return err == nil && !slices.Contains(p.Finalizers, wellknown.FinalizerTally), err
	})
}

// A status that someone edits is noticed and restored.
func TestTallyStatusIsEdited(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.tally("a")
	s.newPod(tallied("one", "a"))
	s.awaitTally("a", 0, 1, 0)
	tallies := s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(s.name)
	live, err := tallies.Get(s.ctx, "a", metav1.GetOptions{})
	s.ok(err)
	s.ok(unstructured.SetNestedField(live.Object, int64(0), "status", "succeeded"))
	body, err := live.MarshalJSON()
	s.ok(err)
	s.expectSuccess(s.kubectlInput(string(body), append([]string{"replace", "--subresource=status", "--field-manager=another-writer", "-f", "-"}, byController...)...))
	s.newPod(tallied("two", "a"))
	s.awaitTally("a", 0, 2, 0)
	s.awaitLog(suite.controller.Log, s.name+"/a", "another-writer")
}

// Switched off, all Pods lose the finalizer; switched on again, none is counted twice.
func TestTallyIsSwitchedOff(t *testing.T) {
	s := newSpace(t)
	defer restartController(s)()
	s.tally("a")
	s.newPod(tallied("counted", "a"))
	s.newPod(tallied("running", "a", hold, "true"))
	s.awaitTally("a", 1, 1, 0)
	s.ok(suite.controller.Stop(s.ctx))
	s.ok(startController(s.ctx, "--enable=ttl,label,cleanup,deadline"))
	s.awaitReleased("running")
	s.ok(suite.controller.Stop(s.ctx))
	s.ok(startController(s.ctx))
	s.newPod(tallied("another", "a"))
	s.awaitTally("a", 1, 2, 0)
}

// A label that is taken out of an applied manifest is removed from the PodTally: Curfew's writes of
// the status take it from no owner.
func TestTallyKeepsOwnersOfLabels(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	apply := func(labels string) {
		s.Helper()
		s.expectSuccess(s.kubectlInput(`{"apiVersion": "curfew.dev/v1alpha1", "kind": "PodTally", "metadata": {"name": "a", "labels": `+labels+`},
			"spec": {"selector": {"matchLabels": {"tally": "a"}}}}`, "apply", "--server-side", "--field-manager=test", "-f", "-"))
	}
	apply(`{"team": "a", "stage": "test"}`)
	s.newPod(tallied("counted", "a"))
	s.awaitTally("a", 0, 1, 0)
	apply(`{"team": "a"}`)
	if out := s.kubectl("get", "podtally", "a", "-o", "jsonpath={.metadata.labels}"); out.stdout != `{"team":"a"}` {
		s.Errorf("the labels are %s", out.stdout)
	}
}
