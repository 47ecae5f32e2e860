package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// createSample creates one of manifests/samples in this namespace, with some of its text replaced.
func (s *space) createSample(name string, replaced ...string) {
	s.Helper()
	text := string(readFile(s.T, "../../manifests/samples/"+name+".yaml"))
	for i := 0; i < len(replaced); i += 2 {
		if strings.Count(text, replaced[i]) != 1 {
			s.Fatalf("sample %s does not say %q once", name, replaced[i])
		}
		text = strings.Replace(text, replaced[i], replaced[i+1], 1)
	}
	s.expectSuccess(s.kubectlInput(strings.ReplaceAll(text, "namespace: ci\n", "namespace: "+s.name+"\n"), "create", "-f", "-"))
}

// Each sample of a PodTally counts the Pods that it is for, and has them deleted. Those that look
// much like them stay, and are not counted.
func TestTallySamples(t *testing.T) {
	parallel(t)
	for name, sample := range map[string]struct {
		tally, ttl string
		labels     map[string]string
		others     []map[string]string
	}{
		"21-tally-prow": {"prow-builds", "1h", map[string]string{"created-by-prow": "true", "prow.k8s.io/type": "presubmit"},
			[]map[string]string{{"created-by-prow": "false"}, {"prow.k8s.io/type": "presubmit"}}},
		"22-tally-jenkins": {"jenkins-agents", "10m", map[string]string{"jenkins": "slave", "jenkins/label": "linux"},
			[]map[string]string{{"jenkins": "master"}, {"jenkins/label": "slave"}}},
		"23-tally-spark": {"spark-executors", "5m", map[string]string{"spark-role": "executor", "spark-app-selector": "spark-1"},
			[]map[string]string{{"spark-role": "driver"}, {"spark-app-selector": "spark-1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			s.createSample(name, "ttlAfterCounted: "+sample.ttl, "ttlAfterCounted: 1s")
			s.poll("the tally to count", func(context.Context) (bool, error) {
				return s.jsonpath("podtally", sample.tally, ".status.startTime") != "", nil
			})
			driver := s.newPod(pod("parent", corev1.RestartPolicyNever, hold, "true"))
			child := func(name string, labels map[string]string, annotations ...string) *corev1.Pod {
				out := pod(name, corev1.RestartPolicyNever, annotations...)
				out.Labels = labels
				out.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(driver, corev1.SchemeGroupVersion.WithKind("Pod"))}
				return s.newPod(out)
			}
			var others []metav1.Object
			for _, labels := range sample.others {
				others = append(others, child("other-"+string(rune('a'+len(others))), labels))
			}
			alone := pod("alone", corev1.RestartPolicyNever) // Not a child of the driver, as with Prow.
			alone.Labels = sample.labels
			s.newPod(alone)
			deleted := child("deleted", sample.labels, hold, "true")
			s.awaitGone(child("succeeds", sample.labels))
			s.awaitGone(child("fails", sample.labels, fail, "true"))
			s.expectSuccess(s.kubectl("delete", "pod", "deleted", "--wait=false"))
			s.awaitGone(deleted)
			s.awaitTally(sample.tally, 0, 2, 2)
			for _, other := range others {
				s.outlast(s.awaitPodFinish(other).Add(second))
				s.stillThere(other)
			}
			s.stillThere(driver)
		})
	}
}

// The sample of Jobs: the finished Pods of one are deleted while it runs on. The Pods of the other
// stay longer than the default of the namespace.
func TestJobPodsSample(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultPodTTL, "2s")...)
	s.createSample("20-job-pods", "pod-ttl: 10m", "pod-ttl: 1s", "parallelism: 50", "parallelism: 2",
		"  template:\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: frame",
		"  template:\n    metadata: {annotations: {"+hold+": \"true\"}}\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: frame")
	render := s.getJob("render")
	running := func() *corev1.Pod {
		return s.await("a running Pod of render", func(e harness.Event) bool {
			return e.Pod() != nil && e.Pod().Status.Phase == corev1.PodRunning && metav1.IsControlledBy(e.Pod(), render)
		}).Pod()
	}
	frame := running()
	s.patchPod(frame.Name, `{"metadata":{"annotations":{"`+hold+`":null}}}`)
	s.awaitGone(frame)
	if got := s.getJob("render").Status; got.Succeeded != 1 || got.Failed != 0 || got.CompletionTime != nil {
		t.Errorf("render: %+v, want it to run on with 1 succeeded", got)
	}

	s.expectSuccess(s.kubectl("create", "job", "audit-now", "--from=cronjob/audit"))
	audit := s.getJob("audit-now")
	kept := s.await("a finished Pod of audit", func(e harness.Event) bool {
		return e.Pod() != nil && e.Pod().Status.Phase == corev1.PodSucceeded && metav1.IsControlledBy(e.Pod(), audit)
	})
	silent := s.newJob(job("silent", sized(1, 1)))
	s.awaitGone(s.await("a Pod without a pod-ttl", func(e harness.Event) bool { return e.Pod() != nil && metav1.IsControlledBy(e.Pod(), silent) }))
	s.outlast(s.awaitPodFinish(kept).Add(2 * second))
	s.stillThere(kept)
}
