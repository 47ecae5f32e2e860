package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// job has a Pod that succeeds at once.
const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: %s, annotations: {%s}},
	spec: {%s template: {spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1.37"}]}}}}`

// goneAfter waits until a Job or Pod is deleted, and fails the test if that was less than its TTL
// after its finish.
func (s *space) goneAfter(observer *harness.Observer, name string, ttl time.Duration) {
	s.Helper()
	ctx, end := harness.Waiting(s.Context(), s.Name()+": "+name+" to be deleted")
	defer end()
	gone, err := observer.Await(ctx, func(e harness.Event) bool {
		return e.Type == watch.Deleted && e.GetName() == name && (e.Job() != nil || e.Pod() != nil)
	})
	if err != nil {
		s.Fatal(err)
	}
	var finish time.Time
	finished := false
	if gone.Job() != nil {
		finish, finished = harness.JobFinish(gone.Job())
	} else {
		finish, finished = harness.PodFinish(gone.Pod())
	}
	if due := finish.Add(ttl); !finished || gone.At.Before(due) {
		s.Errorf("%s was deleted %s before its time (finished: %t)", name, due.Sub(gone.At), finished)
	}
}

func (s *space) observe() *harness.Observer {
	s.Helper()
	observer, err := cluster.Observe(s.Context(), s.name)
	if err != nil {
		s.Fatal(err)
	}
	return observer
}

// A namespace's default is filled in, with its source and a note for a person, and deletes the Job.
func TestDefault(t *testing.T) {
	s := newSpace(t, `curfew.dev/default-ttl: "3"`)
	observer := s.observe()
	s.says(s.apply(fmt.Sprintf(job, "build", "", "")), `ttlSecondsAfterFinished defaulted to 3 (3s) from namespace "`+s.name+`"`)
	if got := s.get("job/build", `.metadata.annotations.curfew\.dev/ttl-source`); got != "" && got != "namespace/"+s.name {
		t.Errorf("its source is %q", got)
	}
	s.goneAfter(observer, "build", 3*time.Second)
}

// A TTL under a minute is admitted with a warning.
func TestWarning(t *testing.T) {
	s := newSpace(t, "")
	s.says(s.apply(fmt.Sprintf(job, "quick", "", "ttlSecondsAfterFinished: 30,")), "spec.ttlSecondsAfterFinished", "under 60s")
}

// A TTL above a maximum is denied, with the field and the fix.
func TestDenial(t *testing.T) {
	s := newSpace(t, `curfew.dev/max-ttl: 1h`)
	_, stderr, err := s.try(fmt.Sprintf(job, "long", "", "ttlSecondsAfterFinished: 7200,"), "create", "-f", "-")
	if err == nil {
		t.Fatal("it was admitted")
	}
	s.says(stderr, "denied the request", "spec.ttlSecondsAfterFinished", "is above curfew.dev/max-ttl 1h")
	if got := s.get("job/long", ".metadata.name"); got != "" {
		t.Error("it exists")
	}
}

// Curfew deletes by annotation objects that no other controller deletes, by outcome. It keeps
// protected ones.
func TestExpiry(t *testing.T) {
	s := newSpace(t, "")
	observer := s.observe()
	s.apply(fmt.Sprintf(job, "protected", `curfew.dev/ttl-after-succeeded: "1", curfew.dev/protect: "true"`, ""))
	s.apply(fmt.Sprintf(job, "failed-only", `curfew.dev/ttl-after-failed: "1"`, ""))
	s.kubectl("wait", "job/protected", "job/failed-only", "--for=condition=Complete", "--timeout=10m")
	s.apply(fmt.Sprintf(job, "done", `curfew.dev/ttl-after-succeeded: "3"`, ""))
	s.apply(`{apiVersion: v1, kind: Pod, metadata: {name: single, annotations: {curfew.dev/ttl-after-finished: "3"}},
		spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1.37"}]}}`)
	s.goneAfter(observer, "done", 3*time.Second)
	s.goneAfter(observer, "single", 3*time.Second)
	for _, name := range []string{"protected", "failed-only"} {
		if got := s.get("job/"+name, ".metadata.name"); got != name {
			t.Errorf("job %s was deleted", name)
		}
	}
}

// A label deletes any object at its age, and not once it is removed.
func TestLabel(t *testing.T) {
	s := newSpace(t, "")
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: removed, labels: {curfew.dev/ttl: 1h}}}`)
	s.kubectl("label", "configmap", "removed", wellknown.LabelTTL+"-")
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, labels: {curfew.dev/ttl: 5s}}}`)
	created, err := time.Parse(time.RFC3339, s.get("configmap/labelled", ".metadata.creationTimestamp"))
	if err != nil {
		t.Fatal(err)
	}
	s.poll("the ConfigMap to be deleted", func() bool { return s.get("configmap/labelled", ".metadata.name") == "" })
	if early := time.Until(created.Add(5 * time.Second)); early > 0 {
		t.Errorf("it was deleted %s early", early)
	}
	if s.get("configmap/removed", ".metadata.name") == "" {
		t.Error("the other was deleted")
	}
}

// A JobSet that exceeds its deadline is failed, and another one is not.
func TestDeadline(t *testing.T) {
	s := newSpace(t, "")
	for name, deadline := range map[string]string{"hangs": "2s", "far": "1h"} {
		s.apply(`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: ` + name + `, annotations: {curfew.dev/active-deadline: ` + deadline + `}},
			spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1.37"}]}}}}}]}}`)
	}
	s.kubectl("wait", "jobset/hangs", "--for=condition=Failed", "--timeout=10m")
	if got := s.get("jobset/hangs", ".status.conditions[*].reason"); got != policy.ReasonDeadlineExceeded {
		t.Errorf("its conditions have the reasons %q", got)
	}
	if got := s.get("jobset/far", ".status.conditions[*].reason"); got != "" {
		t.Errorf("the other has conditions with the reasons %q", got)
	}
}

// A cleanup policy deletes what matches, at its time, and says how many.
func TestCleanup(t *testing.T) {
	s := newSpace(t, "")
	for name, app := range map[string]string{"a": "tmp", "b": "tmp", "c": "other"} {
		s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `, labels: {app: ` + app + `}}}`)
	}
	// It has one run a year: the next minute. Too slow a machine creates it when that has passed.
	for margin := 5 * time.Second; ; margin *= 2 {
		instant := time.Now().Add(margin).Truncate(time.Minute).Add(time.Minute).UTC()
		s.apply(fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: %[1]s}, spec: {schedule: "%d %d %d %d *",
			matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}, objectSelector: {matchLabels: {app: tmp}},
			resourceRules: [{apiGroups: [""], resources: [configmaps]}]}}}`, s.name, instant.Minute(), instant.Hour(), instant.Day(), int(instant.Month())))
		created, err := time.Parse(time.RFC3339, s.get("clustercleanuppolicy/"+s.name, ".metadata.creationTimestamp"))
		if err != nil {
			t.Fatal(err)
		}
		if created.Before(instant) {
			break
		}
		s.kubectl("delete", "clustercleanuppolicy", s.name)
	}
	s.poll("the run to end", func() bool { return s.get("clustercleanuppolicy/"+s.name, ".status.lastRun.phase") == "Completed" })
	if got := s.get("clustercleanuppolicy/"+s.name, ".status.deleted"); got != "2" {
		t.Errorf("it says that it deleted %q", got)
	}
	left, _ := s.kubectl("get", "configmaps", "-l", "app", "-o", "name")
	if left != "configmap/c\n" {
		t.Errorf("left: %s", left)
	}
}

// A PodTally counts Pods by outcome, those that are deleted at once included.
func TestTally(t *testing.T) {
	s := newSpace(t, "")
	s.apply(`{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: runs}, spec: {selector: {matchLabels: {app: run}}, ttlAfterCounted: 0s}}`)
	for _, name := range []string{"one", "two", "three"} {
		s.apply(`{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, labels: {app: run}},
			spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1.37"}]}}`)
	}
	s.poll("three Pods to be counted and deleted", func() bool {
		left, _ := s.kubectl("get", "pods", "-l", "app=run", "-o", "name")
		return left == "" && s.get("podtally/runs", ".status['succeeded','active']") == "3 0"
	})
}

// kubectl curfew explain says when an object is deleted, and which setting decided.
func TestExplain(t *testing.T) {
	s := newSpace(t, `curfew.dev/default-ttl: 1h`)
	s.apply(fmt.Sprintf(job, "build", "", ""))
	s.kubectl("wait", "job/build", "--for=condition=Complete", "--timeout=10m")
	output, _ := s.kubectl("curfew", "explain", "job/build")
	s.says(output, "job.batch/build in namespace "+s.name+" expires ", `by its TTL of 1h from namespace "`+s.name+`"`)
	if listed, _ := s.kubectl("curfew", "expiring", "--within", "2h", "-o", "name"); strings.TrimSpace(listed) != "job.batch/build" {
		t.Errorf("expiring lists %q", listed)
	}
}
