package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
)

// haltKind is the kind of [runKind], but its deadline suspends it.
var haltKind = strings.NewReplacer("deadline.example.com", "halt.example.com", "e2e-runs", "e2e-halts", "metadata: {name: runs}", "metadata: {name: halts}",
	"- action: MarkFailed", "- action: Suspend").Replace(runKind)

// A kind that is suspended at its deadline has no deadline from then on, and yet its Pods are
// deleted: Curfew recorded that the suspension was its own.
func TestSuspendAtTheDeadline(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectSuccess(s.kubectlInput(haltKind, "apply", "-f", "-"))
	s.awaitEstablished("runs.halt.example.com")
	s.expectSuccess(s.kubectl("wait", "kindprofile/halts", "--for=condition=Ready", "--timeout=10m"))
	s.expectSuccess(s.kubectlInput(`{"apiVersion": "halt.example.com/v1", "kind": "Run", "metadata": {"name": "a"}, "spec": {"hold": false}}`, "create", "-f", "-"))
	get := func(path string) string {
		return s.expectSuccess(s.kubectl("get", "run.halt.example.com", "a", "-o", "jsonpath="+path)).stdout
	}
	yes := true
	child := pod("child", corev1.RestartPolicyNever, hold, "true")
	child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "halt.example.com/v1", Kind: "Run", Name: "a", UID: types.UID(get("{.metadata.uid}")), Controller: &yes}}
	child = s.newPod(child)
	s.expectSuccess(s.kubectl("annotate", "run.halt.example.com", "a", wellknown.AnnotationActiveDeadline+"=1s"))
	s.expectSuccess(s.kubectl("wait", "run.halt.example.com/a", "--for=jsonpath={.spec.hold}=true", "--timeout=10m"))
	s.awaitGone(child)
	record := get(`{.metadata.annotations.curfew\.dev/suspended-at}`)
	suspendedAt, generation, _ := strings.Cut(record, "/")
	if _, err := time.Parse(time.RFC3339, suspendedAt); err != nil || generation != get("{.metadata.generation}") {
		t.Errorf("the record is %q, want a time and generation %s", record, get("{.metadata.generation}"))
	}

	// Its author resumes it and suspends it again, which is no business of Curfew's.
	s.expectSuccess(s.kubectl("annotate", "run.halt.example.com", "a", wellknown.AnnotationActiveDeadline+"=1h", "--overwrite"))
	for _, held := range []bool{false, true} {
		s.expectSuccess(s.kubectl("patch", "run.halt.example.com", "a", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"hold":%t}}`, held)))
	}
	other := pod("other", corev1.RestartPolicyNever, hold, "true")
	other.OwnerReferences = child.OwnerReferences
	other = s.newPod(other)
	s.expectSuccess(s.kubectl("annotate", "run.halt.example.com", "a", wellknown.AnnotationActiveDeadline+"=1s", "--overwrite"))
	s.outlastDeadline(now())
	s.stillThere(other)
}
