package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/e2e/stale"
	"curfew.dev/curfew/test/harness"
)

// The tests of this file start processes of Curfew with other options, so they do not run in
// parallel.

// While a trigger is off, admission fills in nothing for it, and due objects stay. Once it is on
// again, it acts on all of them. The other triggers go on.
func TestTriggersOffAndOn(t *testing.T) {
	s := labelSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultDeadline, "2d")
	s.newRuns()
	port := suite.webhook.WebhookPort
	restart := func(args ...string) {
		s.Helper()
		s.ok(suite.webhook.Stop(s.ctx))
		s.ok(startWebhook(s.ctx, port, args...))
		s.ok(suite.controller.Stop(s.ctx))
		s.ok(startController(s.ctx, args...))
	}
	defer restart()
	defaults := func(name string, ttl, deadline bool) {
		s.Helper()
		made := s.newJob(job(name))
		if (made.Spec.TTLSecondsAfterFinished != nil) != ttl || (made.Spec.ActiveDeadlineSeconds != nil) != deadline {
			t.Errorf("%s has TTL %v and deadline %v", name, made.Spec.TTLSecondsAfterFinished, made.Spec.ActiveDeadlineSeconds)
		}
	}
	defaults("all-on", true, true)

	restart("--enable=label,deadline")
	defaults("no-ttl", false, true)
	job := s.finishJob("due", now(), ttl(second))
	s.awaitGone(s.newConfigMap("later", wellknown.LabelTTL, until(s.ahead(3*second))))
	s.stillThere(job)

	restart("--enable=ttl,deadline")
	s.awaitGone(job)
	labelled := s.newConfigMap("due", wellknown.LabelTTL, until(s.ahead(2*second)))
	s.awaitGone(s.finishJob("later", now(), ttl(4*second)))
	s.stillThere(labelled)

	restart("--enable=ttl,label")
	s.awaitGone(labelled)
	defaults("no-deadline", true, false)
	s.run("due", activeDeadline+`"2s"`, "")
	s.awaitGone(s.newConfigMap("last", wellknown.LabelTTL, until(s.ahead(4*second))))
	if got := s.getRun("due").conditions(); got != "" {
		t.Errorf("its conditions are %q, want none: deadlines are off", got)
	}

	restart()
	if got := s.awaitRun("due", "condition=Failed").conditions(); got != "Failed=True/DeadlineExceeded" {
		t.Errorf("its conditions are %q", got)
	}
}

// A trigger with feeds and an action of its own is one package, one entry in the list of triggers
// and one registration in cmd/curfew. It acts on real objects once they are due, and on no others.
func TestTriggerOfAnotherPackage(t *testing.T) {
	full(t) // It builds Curfew with that package.
	s := newSpace(t)
	root, err := harness.Root()
	s.ok(err)
	program := filepath.Join(t.TempDir(), "curfew")
	build := exec.CommandContext(s.ctx, "go", "build", "-tags", "e2e", "-o", program, "./cmd/curfew")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.expectSuccess(s.kubectlInput(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"e2e-leases",
		"labels":{"curfew.dev/aggregate-to-controller":"true"}},
		"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get","list","watch","patch"]}]}`, "apply", "-f", "-"))
	s.ok(suite.controller.Stop(s.ctx))
	defer restartController(s)()
	controller, err := suite.cluster.StartController(s.ctx, harness.CurfewOptions{
		Proxy: suite.proxy, Program: program})
	s.ok(err)
	defer func() { s.ok(controller.Stop(s.ctx)) }()

	leases := suite.cluster.Client.CoordinationV1().Leases(s.name)
	lease := func(name string, renewed time.Time, change func(*coordinationv1.Lease)) {
		s.Helper()
		holder, duration, microTime := "it", int32(5), metav1.NewMicroTime(renewed)
		object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{stale.Label: ""}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &duration, RenewTime: &microTime}}
		if change != nil {
			change(object)
		}
		_, err := leases.Create(s.ctx, object, metav1.CreateOptions{})
		s.ok(err)
	}
	soon := s.ahead(3 * second)
	lease("stale", soon.Add(-time.Hour), nil)
	lease("soon", soon.Add(-5*second), nil)
	lease("renewed", soon.Add(time.Hour), nil)
	lease("unlabelled", soon.Add(-time.Hour), func(l *coordinationv1.Lease) { l.Labels = nil })
	lease("protected", soon.Add(-time.Hour), func(l *coordinationv1.Lease) {
		l.Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
	})
	awaitTaken := func(name string) {
		s.Helper()
		s.poll("Lease "+name+" to be taken", func(context.Context) (bool, error) {
			read, err := leases.Get(s.ctx, name, metav1.GetOptions{})
			return err == nil && *read.Spec.HolderIdentity == "", err
		})
	}
	awaitTaken("stale")
	awaitTaken("soon")
	if early := soon.Sub(now()); early > 0 {
		t.Errorf("a Lease was taken %s before it was due", early)
	}
	for _, name := range []string{"renewed", "unlabelled", "protected"} {
		read, err := leases.Get(s.ctx, name, metav1.GetOptions{})
		s.ok(err)
		if *read.Spec.HolderIdentity != "it" {
			t.Errorf("%s lost its holder", name)
		}
	}
	// It is a trigger like any other: it can be switched off, and its deletions are counted by no
	// other.
	s.awaitGone(s.finishJob("beside", now(), ttl(second)))
}

// With --leave-native-ttl a Job whose author set the native field is left to Kubernetes, which does
// nothing here. Defaults and annotations are Curfew's as ever.
func TestLeaveNativeTTL(t *testing.T) {
	if suite.inTreeTTL {
		t.Skip("the in-tree controller deletes the Job: the runs without it (make test, make test-e2e) show this")
	}
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "2s")...)
	restart := func(args ...string) {
		s.Helper()
		s.ok(suite.controller.Stop(s.ctx))
		s.ok(startController(s.ctx, args...))
	}
	defer restart()
	restart("--leave-native-ttl")
	own := s.newJob(job("own", native(second)))
	given := s.newJob(job("given"))
	if given.Spec.TTLSecondsAfterFinished == nil {
		t.Fatal("the default is not in the native field, so that this test shows nothing")
	}
	s.awaitGone(given)
	s.awaitGone(s.finishJob("annotated", now(), ttl(second)))
	s.outlast(s.awaitJobFinish(own).Add(2 * second))
	s.stillThere(own)
	restart()
	s.awaitGone(own)
}

// With --builtin-profiles=false Curfew knows Jobs, Pods and the kinds of KindProfiles in the
// cluster. A JobSet gets no default, and its TTL has no effect until the built-in profiles are
// back.
func TestWithoutBuiltinProfiles(t *testing.T) {
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "2s")...)
	r := render{"alone.e2e.example.com"}
	suite.revoked.Store(r.group, true) // at the end, its role may be deleted before its definition
	s.apply(r.role())
	s.apply(r.definition())
	s.apply(r.profile())
	t.Cleanup(func() { s.afterwards("delete", "kindprofile", "renders."+r.group) })
	port := suite.webhook.WebhookPort
	restart := func(args ...string) {
		s.Helper()
		s.ok(suite.webhook.Stop(s.ctx))
		s.ok(startWebhook(s.ctx, port, args...))
		s.ok(suite.controller.Stop(s.ctx))
		s.ok(startController(s.ctx, args...))
	}
	defer restart()
	restart("--builtin-profiles=false")
	s.awaitNoRule("jobset.x-k8s.io")
	s.awaitRule(r.group)
	s.awaitDefault(r)

	s.expectStderr(s.create(s.jobSet("default")))
	s.expectStderr(s.create(s.jobSet("own", noted(wellknown.AnnotationTTL, "1s"))))
	end := now()
	s.finished("jobset", "default", "Completed", end)
	s.finished("jobset", "own", "Completed", end)
	if got := s.jsonpath("jobset", "default", ".spec.ttlSecondsAfterFinished"); got != "" {
		t.Errorf("a JobSet was given TTL %s", got)
	}
	s.awaitGone(s.finishJob("job", now(), ttl(second)))
	c := s.ofKind("Render", r.resource(), false)
	filled := c.create("filled", `{}`)
	c.status("filled", renderDone(now(), false))
	s.awaitGone(filled)
	s.outlast(end.Add(2 * second))
	s.there("jobset", "default")
	s.there("jobset", "own")

	restart()
	s.goneBy("jobset", "default", end.Add(2*second))
	s.goneBy("jobset", "own", end.Add(second))
}
