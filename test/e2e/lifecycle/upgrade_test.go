package lifecycle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// previousVersion is what the programs of the previous version say.
const previousVersion = "v0.0.0-previous"

// before builds the previous version of Curfew and returns its folder.
func before(t *testing.T) string {
	t.Helper()
	if os.Getenv("FULL") == "" {
		t.Skip("FULL is not set: it builds the previous version")
	}
	dir := t.TempDir()
	if found, err := harness.UnpackPrevious(t.Context(), dir); err != nil {
		t.Fatal(err)
	} else if !found {
		t.Skip("the commit of the previous version is not here: this is a shallow clone or no clone")
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version="+previousVersion, "-o", "bin/", "./cmd/curfew", "./cmd/kubectl-curfew")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the previous version: %v\n%s", err, out)
	}
	return dir
}

// timed is how long the objects stay whose deletion is observed. It is longer than an upgrade.
const timed = "40s"

// Stamps of an older version keep their meaning: across an upgrade, a rollback, an uninstallation
// and a new installation no object is deleted sooner, and due objects are deleted. During upgrade
// and rollback people create Jobs all the time: no request fails.
func TestUpgrade(t *testing.T) {
	folder := before(t)
	f := newFixture(t)
	old := suite.cluster.Older(folder)
	f.start(old)
	f.stamp()
	observer, err := suite.cluster.Observe(f.ctx, "timed")
	f.ok(err)
	f.timed("first")
	stamps := f.stamps()
	f.says(stamps, "curfew.dev/ttl-source:namespace/ci", "ttlSecondsAfterFinished:3600", "curfew.dev/ttl-source:policy/nightly", "curfew.dev/ttl:9d")

	load := f.load()
	f.roll(suite.cluster)
	f.unchanged("the upgrade", stamps)
	f.onTime(observer, "first")
	f.plugin(suite.cluster, ", controller ")
	f.plugin(old, "kubectl-curfew "+previousVersion+", controller ")
	f.timed("second")

	f.roll(old)
	f.unchanged("the rollback", stamps)
	f.onTime(observer, "second")
	f.plugin(suite.cluster, ", controller "+previousVersion)
	load(observer)

	_, output := f.kubectl("", "curfew", "uninstall", "--yes")
	f.says(output, "Nothing of Curfew blocks anything")
	f.removeRest()
	f.ok(f.controller.Kill())
	f.ok(f.webhook.Kill())
	if after := f.stamps(); after != stamps {
		f.Errorf("after it was uninstalled the objects say\n%s\nand said\n%s", after, stamps)
	}
	f.start(suite.cluster)
	f.unchanged("the new installation", stamps)
}

// plugin runs a version of kubectl curfew beside the running version of Curfew: it explains an object,
// and status names both versions.
func (f *fixture) plugin(version *harness.Cluster, versions string) {
	f.Helper()
	explained, stderr, err := version.Kubectl(f.ctx, "curfew", "explain", "job/default", "-n", "ci", "-o", "jsonpath={.items[0].source}")
	f.ok(err)
	f.says(explained+stderr, "namespace/ci")
	f.await("the status to say "+versions, func(ctx context.Context) (bool, error) {
		output, _, _ := version.Kubectl(ctx, "curfew", "status") // It fails where it warns.
		return strings.Contains(output, versions), nil
	})
}

// stamp creates objects whose TTLs come from a namespace, from a policy, from their author and from
// a label; and one from before its namespace had a default, which that does not concern.
func (f *fixture) stamp() {
	f.Helper()
	for name, annotations := range map[string]map[string]string{
		"ci": {wellknown.AnnotationDefaultTTL: "1h", wellknown.AnnotationDefaultPodTTL: "2h"}, "late": nil, "timed": {wellknown.AnnotationDefaultTTL: timed},
	} {
		f.ok(suite.cluster.NewNamespace(f.ctx, name, annotations))
		f.Cleanup(func() {
			f.ok(suite.cluster.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(f.ctx), name, metav1.DeleteOptions{}))
		})
	}
	f.kubectl(`{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: nightly}, spec: {match: {kinds: [{group: batch, kind: Job}],
		objectSelector: {matchLabels: {policy: nightly}}}, defaults: {ttl: {value: 90m}}}}`, "create", "-f", "-")
	create := func(name, space, text, spec string) {
		f.kubectl(object(name, space, text, spec), "create", "-f", "-")
		f.kubectl("", "wait", "job/"+name, "-n", space, "--for=condition=Complete", "--timeout=10m")
	}
	create("before", "late", "none", "")
	f.kubectl("", "annotate", "namespace", "late", wellknown.AnnotationDefaultTTL+"=3s")
	f.await("the policy", func(ctx context.Context) (bool, error) {
		output, _, err := suite.cluster.KubectlInput(ctx, object("any", "default", "nightly", ""), "create", "--dry-run=server", "-f", "-", "-o", "yaml")
		return strings.Contains(output, "policy/nightly"), err
	})
	create("default", "ci", "none", "")
	create("own", "ci", "none", "ttlSecondsAfterFinished: 5400,")
	create("policy", "default", "nightly", "")
	f.Cleanup(func() {
		_, _, _ = suite.cluster.Kubectl(context.WithoutCancel(f.ctx), "delete", "job/policy", "cm/labelled", "-n", "default", "--ignore-not-found")
	})
	f.kubectl("{apiVersion: v1, kind: ConfigMap, metadata: {name: labelled, namespace: default, labels: {curfew.dev/ttl: 9d}}}", "create", "-f", "-")
	f.kubectl("{apiVersion: v1, kind: Pod, metadata: {name: once, namespace: ci}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}", "create", "-f", "-")
	f.kubectl("", "wait", "pod/once", "-n", "ci", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=10m")
}

// object is a Job with a label that the policy selects, or with a spec of its own.
func object(name, space, policy, spec string) string {
	return strings.NewReplacer("NAME", name, "SPACE", space, "POLICY", policy, "SPEC", spec).Replace(
		"{apiVersion: batch/v1, kind: Job, metadata: {name: NAME, namespace: SPACE, labels: {policy: POLICY}}, spec: {SPEC template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}")
}

// roll replaces the running version as a rollout does: the new processes are ready before the old
// ones end.
func (f *fixture) roll(version *harness.Cluster) {
	f.Helper()
	webhook, controller := f.webhook, f.controller
	f.start(version)
	f.ok(controller.Stop(f.ctx))
	f.ok(webhook.Stop(f.ctx))
}

// load creates Jobs without a pause: each second one in namespace timed, which is deleted, and one
// in namespace kept, which is not. The returned function ends it and checks them.
func (f *fixture) load() func(*harness.Observer) {
	f.Helper()
	f.ok(suite.cluster.NewNamespace(f.ctx, "kept", nil))
	f.Cleanup(func() {
		f.ok(suite.cluster.Client.CoreV1().Namespaces().Delete(context.WithoutCancel(f.ctx), "kept", metav1.DeleteOptions{}))
	})
	ctx, end := context.WithCancel(f.ctx)
	var creating sync.WaitGroup
	created := 0
	creating.Go(func() {
		for ; ctx.Err() == nil; created++ {
			for _, space := range []string{"timed", "kept"} {
				job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("load-%05d", created)}, Spec: batchv1.JobSpec{
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
				if _, err := suite.cluster.Client.BatchV1().Jobs(space).Create(f.ctx, job, metav1.CreateOptions{}); err != nil {
					f.Errorf("creating job/%s in %s: %v", job.Name, space, err)
				}
			}
			_ = loop.Pause(ctx, clock.RealClock{}, time.Second)
		}
	})
	return func(observer *harness.Observer) {
		f.Helper()
		end()
		creating.Wait()
		kept, err := suite.cluster.Client.BatchV1().Jobs("kept").List(f.ctx, metav1.ListOptions{})
		f.ok(err)
		if len(kept.Items) != created {
			f.Errorf("%d of %d Jobs are left that have no TTL", len(kept.Items), created)
		}
		f.onTime(observer, "load-00000")
		f.onTime(observer, fmt.Sprintf("load-%05d", created-1))
		deleted := 0
		for _, event := range observer.All() {
			if event.Type != watch.Deleted || event.Job() == nil || !strings.HasPrefix(event.GetName(), "load-") {
				continue
			}
			deleted++
			f.notTooSoon(event)
		}
		f.Logf("note: %d Jobs were created in each namespace, %d were deleted", created, deleted)
	}
}

// timed creates a Job with the default of its namespace.
func (f *fixture) timed(name string) {
	f.Helper()
	f.kubectl("", "create", "job", name, "-n", "timed", "--image=i")
	f.kubectl("", "wait", "job/"+name, "-n", "timed", "--for=condition=Complete", "--timeout=10m")
}

// onTime waits until a Job of timed is deleted, which is not before its time.
func (f *fixture) onTime(observer *harness.Observer, name string) {
	f.Helper()
	ctx, end := harness.Waiting(f.ctx, f.Name()+": job/"+name+" to be deleted")
	defer end()
	gone, err := observer.Await(ctx, func(e harness.Event) bool { return e.Type == watch.Deleted && e.Job() != nil && e.GetName() == name })
	f.ok(err)
	f.notTooSoon(gone)
}

func (f *fixture) notTooSoon(gone harness.Event) {
	f.Helper()
	after, err := time.ParseDuration(timed)
	f.ok(err)
	finished, ok := harness.JobFinish(gone.Job())
	if due := finished.Add(after); !ok || gone.At.Before(due) {
		f.Errorf("job/%s was deleted %s before its time", gone.GetName(), due.Sub(gone.At))
	}
}

// unchanged waits until the running version has deleted a Job by the default of namespace late, so
// that it has judged the others, and compares these with what they were.
func (f *fixture) unchanged(what, stamps string) {
	f.Helper()
	jobs := suite.cluster.Client.BatchV1().Jobs("late")
	f.kubectl("", "create", "job", "after", "-n", "late", "--image=i")
	f.await("job/after to be deleted", func(ctx context.Context) (bool, error) {
		_, err := jobs.Get(ctx, "after", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if now := f.stamps(); now != stamps {
		f.Errorf("after %s the objects say\n%s\nand said\n%s", what, now, stamps)
	}
}

// stamps has the stamps on the objects of stamp, and since when each default applies.
func (f *fixture) stamps() string {
	f.Helper()
	const each = `{{.metadata.name}} {{.metadata.uid}} {{.metadata.labels}} {{.metadata.annotations}} ttlSecondsAfterFinished:{{.spec.ttlSecondsAfterFinished}}{{"\n"}}`
	var out strings.Builder
	for _, args := range [][]string{{"job/before", "-n", "late"}, {"job/default", "-n", "ci"}, {"job/own", "-n", "ci"}, {"pod/once", "-n", "ci"}, {"job/policy", "-n", "default"}, {"cm/labelled", "-n", "default"}} {
		output, _ := f.kubectl("", append([]string{"get", "-o", "go-template=" + each}, args...)...)
		out.WriteString(output)
	}
	return out.String()
}
