package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// runKind is a kind that these tests make up, with nothing but a KindProfile to teach Curfew: it
// has no controller at all, so that whatever happens to it is Curfew's doing. Its conditions are no
// map by type, so that a second Failed would be kept.
const runKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: runs.deadline.example.com}
spec:
  group: deadline.example.com
  scope: Namespaced
  names: {plural: runs, singular: run, kind: Run}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {hold: {type: boolean}}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: e2e-runs
  labels: {curfew.dev/aggregate-to-controller: "true"}
rules:
  - apiGroups: [deadline.example.com]
    resources: [runs]
    verbs: [get, list, watch, delete, patch]
  - apiGroups: [deadline.example.com]
    resources: [runs/status]
    verbs: [patch]
---
apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: runs}
spec:
  kind: {group: deadline.example.com, version: v1, kind: Run, resource: runs}
  state:
    finished: object.?status.?conditions.orValue([]).exists(c, c.type in ["Complete", "Failed"] && c.status == "True")
    finishTime: object.?status.?conditions.orValue([]).filter(c, c.type in ["Complete", "Failed"] && c.status == "True")[?0].?lastTransitionTime
    outcome: 'object.status.conditions.exists(c, c.type == "Complete" && c.status == "True") ? "Succeeded" : "Failed"'
    started: object.?status.?resumedAt.or(object.?metadata.?creationTimestamp).orValue(null)
    suspended: object.?spec.?hold.orValue(false)
  fields:
    suspend: {path: spec.hold}
  deadline:
    allowDefault: true
    enforcement:
      - by: Curfew
        stop:
          - action: MarkFailed
          - action: Delete
            child: {group: batch, version: v1, kind: Job, resource: jobs, named: Owned}
          - action: DeletePods
`

// newRuns installs the kind, once for all tests.
func (s *space) newRuns() {
	s.Helper()
	runsOnce.Do(func() {
		s.expectSuccess(s.kubectlInput(runKind, "apply", "-f", "-"))
		s.awaitEstablished("runs.deadline.example.com")
		s.expectSuccess(s.kubectl("wait", "kindprofile/runs", "--for=condition=Ready", "--timeout=10m"))
	})
}

var runsOnce sync.Once

var runResource = schema.GroupVersionResource{Group: "deadline.example.com", Version: "v1", Resource: "runs"}

// run creates a Run and answers with its metadata.
func (s *space) run(name, annotations, spec string) metav1.Object {
	s.Helper()
	s.expectSuccess(s.kubectlInput(fmt.Sprintf(`{"apiVersion": "deadline.example.com/v1", "kind": "Run",
		"metadata": {"name": %q, "annotations": {%s}}, "spec": {%s}}`, name, annotations, spec), "create", "-f", "-"))
	return s.getRun(name)
}

// giveDeadline has a Run fail so long after its creation, in whole seconds. What the test needs to
// be there by then is there.
func (s *space) giveDeadline(run metav1.Object, deadline time.Duration) time.Duration {
	s.Helper()
	deadline = deadline.Truncate(second)
	_, err := s.objects(runResource).Namespace(s.name).Patch(s.ctx,
		run.GetName(), types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q: %q}}}`, wellknown.AnnotationActiveDeadline, deadline), metav1.PatchOptions{})
	s.ok(err)
	return deadline
}

type runObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct{ Hold bool }
	Status            struct{ Conditions []metav1.Condition }
}

func (s *space) getRun(name string) *runObject {
	s.Helper()
	out := s.expectSuccess(s.kubectl("get", "run.deadline.example.com", name, "-o", "json"))
	read := &runObject{}
	s.ok(json.Unmarshal([]byte(out.stdout), read))
	return read
}

func (s *space) setStatus(name, status string) {
	s.Helper()
	s.expectSuccess(s.kubectl("patch", "run.deadline.example.com", name, "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`))
}

func (s *space) awaitRun(name, condition string) *runObject {
	s.Helper()
	s.expectSuccess(s.kubectl("wait", "run.deadline.example.com/"+name, "--for="+condition, "--timeout=10m"))
	return s.getRun(name)
}

// conditionsOf are the conditions as type=status/reason, sorted as they stand.
func (r *runObject) conditions() string {
	var out []string
	for _, c := range r.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, " ")
}

func controlledBy(owner metav1.Object, kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "deadline.example.com/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
}

// childJob creates a Job that a Run controls and that runs until it is stopped; podOf waits for its
// Pod.
func (s *space) childJob(owner metav1.Object, name string) *batchv1.Job {
	s.Helper()
	child := job(name)
	child.OwnerReferences = controlledBy(owner, "Run")
	child.Spec.Template.Annotations = map[string]string{hold: "true"}
	return s.newJob(child)
}

func (s *space) podOf(child metav1.Object) metav1.Object {
	s.Helper()
	return s.await("the Pod of "+child.GetName(), func(e harness.Event) bool {
		owner := metav1.GetControllerOf(e)
		return e.Pod() != nil && owner != nil && owner.UID == child.GetUID()
	})
}

const activeDeadline = `"` + wellknown.AnnotationActiveDeadline + `": `

// A kind that a test makes up is failed and stopped at its deadline: with one condition, the one
// that said False before, nothing of it runs on, and no foreign object is touched.
func TestDeadlineOfAnInventedKind(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.newRuns()
	// Its Job, a Pod of its own, and others that only look like them.
	due := s.run("due", "", "")
	s.setStatus("due", `{"conditions":[{"type":"Ready","status":"True","reason":"Up"},{"type":"Failed","status":"False","reason":"Fine"}]}`)
	ours := s.childJob(due, "ours")
	oursPod := s.podOf(ours)
	bare := pod("bare", corev1.RestartPolicyNever, hold, "true")
	bare.OwnerReferences = controlledBy(due, "Run")
	bare = s.newPod(bare)
	far := s.run("far", activeDeadline+`"1h"`, "")
	others := s.childJob(far, "others")
	othersPod := s.podOf(others)
	s.run("held", activeDeadline+`"1s"`, `"hold": true`)
	s.run("none", "", "")
	s.run("kept", activeDeadline+`"1s", "`+wellknown.AnnotationProtect+`": "true"`, "")
	won := s.run("won", "", "")
	s.setStatus("won", `{"conditions":[{"type":"Complete","status":"True","reason":"Done","lastTransitionTime":"`+now().UTC().Format(time.RFC3339)+`"}]}`)
	s.giveDeadline(won, second)
	deadline := s.giveDeadline(due, now().Sub(due.GetCreationTimestamp().Time)+4*second)

	failed := s.awaitRun("due", "condition=Failed")
	if got, want := failed.conditions(), "Ready=True/Up Failed=True/DeadlineExceeded"; got != want {
		t.Errorf("its conditions are %q, want %q", got, want)
	}
	mark := failed.Status.Conditions[1]
	if when := due.GetCreationTimestamp().Add(deadline); mark.LastTransitionTime.Time.Before(when) {
		t.Errorf("it failed at %s, its deadline was %s", mark.LastTransitionTime, when)
	}
	if !strings.Contains(mark.Message, "longer than its deadline of "+deadline.String()) {
		t.Errorf("the message is %q", mark.Message)
	}
	s.awaitGone(ours)
	s.awaitGone(oursPod)
	s.awaitGone(bare)
	s.outlastDeadline(now())
	s.stillThere(others)
	s.stillThere(othersPod)
	for name, want := range map[string]string{"far": "", "held": "", "none": "", "kept": "", "won": "Complete=True/Done"} {
		if got := s.getRun(name).conditions(); got != want {
			t.Errorf("%s has the conditions %q, want %q", name, got, want)
		}
	}
	events := s.kubectl("get", "events", "--field-selector", "reason=DeadlineExceeded,involvedObject.kind=Run", "-o", "jsonpath={.items[*].involvedObject.name}").stdout
	if events != "due" {
		t.Errorf("Events of deadlines are on %q, want one, on due", events)
	}

	// Resumed, the whole window begins; raising and removing take effect.
	s.setStatus("held", `{"resumedAt":"`+now().UTC().Format(time.RFC3339)+`"}`)
	s.expectSuccess(s.kubectl("patch", "run.deadline.example.com", "held", "--type=merge", "-p", `{"spec":{"hold":false}}`))
	if got, want := s.awaitRun("held", "condition=Failed").conditions(), "Failed=True/DeadlineExceeded"; got != want {
		t.Errorf("resumed, it has the conditions %q, want %q", got, want)
	}
}

// Curfew repairs all that a stale controller does after the mark: it overwrites the conditions and
// creates a child again, and the first deletion of a child fails.
func TestDeadlineHolds(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.newRuns()
	var refused atomic.Int32
	remove := suite.proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		resource, namespace, name := harness.Target(r.URL.Path)
		if r.Method != http.MethodDelete || namespace != s.name || resource != "jobs" || name != "child" || refused.Add(1) > 1 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	defer remove()
	due := s.run("due", "", "")
	child := s.childJob(due, "child")
	running := s.podOf(child)
	s.giveDeadline(due, second)
	s.awaitRun("due", "condition=Failed")
	s.awaitGone(child)
	s.awaitGone(running)
	if n := refused.Load(); n < 2 {
		t.Errorf("the child was deleted with %d requests, although the first one failed", n)
	}
	// A reconcile that began before the mark writes its old state, and creates the deleted objects
	// again.
	s.setStatus("due", `{"conditions":[{"type":"Ready","status":"True","reason":"Up"}]}`)
	again := s.childJob(due, "child")
	if got, want := s.awaitRun("due", "condition=Failed").conditions(), "Ready=True/Up Failed=True/DeadlineExceeded"; got != want {
		t.Errorf("after it was overwritten its conditions are %q, want %q", got, want)
	}
	s.awaitGone(again)
	// The name belongs to another Run now, which has all its time (S2).
	s.expectSuccess(s.kubectl("delete", "run.deadline.example.com", "due"))
	fresh := s.run("due", activeDeadline+`"1h"`, "")
	theirs := s.childJob(fresh, "child")
	s.outlastDeadline(now().Add(2 * second))
	s.stillThere(theirs)
	if got := s.getRun("due").conditions(); got != "" {
		t.Errorf("the new one has the conditions %q", got)
	}
}
