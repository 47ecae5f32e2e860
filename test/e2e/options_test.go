package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// The tests of this file start processes of Curfew with other options, so they do not run in
// parallel.

// A leader that is killed is followed by the other replica, which finds what fell due meanwhile
// (S3). Until then the other deletes nothing.
func TestLeaderIsKilled(t *testing.T) {
	s := newSpace(t)
	s.ok(suite.controller.Stop(s.ctx))
	defer restartController(s)()
	start := func() *harness.Curfew {
		controller, err := suite.cluster.StartController(s.ctx, harness.CurfewOptions{
			Proxy: suite.proxy, Args: []string{"--lease-duration=4s"}}) // the shipped 15s would only take longer
		s.ok(err)
		return controller
	}
	leader := start()
	defer func() { s.ok(leader.Kill()) }()
	s.awaitGone(s.finishJob("first", now(), ttl(second)))
	other := start()
	defer func() { s.ok(other.Stop(s.ctx)) }()
	s.awaitGone(s.finishJob("second", now(), ttl(second)))
	if sent := suite.proxy.Deletes(s.name, "second"); len(sent) != 1 {
		t.Errorf("%d DELETEs were sent, want 1: the replica that waits must not delete", len(sent))
	}

	due := s.finishJob("due", now(), ttl(2*second))
	s.ok(leader.Kill())
	s.awaitGone(due)
	if sent := suite.proxy.AwaitDeletes(s.ctx, s.name, "due", 1); len(sent) != 1 || sent[0].Status != http.StatusOK {
		t.Errorf("DELETEs sent: %+v, want one", sent)
	}
}

// A leader that was stopped until another replica led sends no DELETE when it goes on, although it
// does not know yet that it lost the Lease. Then it ends.
func TestLeaderStalls(t *testing.T) {
	s := newSpace(t)
	s.ok(suite.controller.Stop(s.ctx))
	defer restartController(s)()
	start := func(args ...string) *harness.Curfew {
		controller, err := suite.cluster.StartController(s.ctx, harness.CurfewOptions{Proxy: suite.proxy, Args: append(args, "--lease-duration=6s")})
		s.ok(err)
		return controller
	}
	holder := func(ctx context.Context) string {
		lease, err := suite.cluster.Client.CoordinationV1().Leases(harness.Namespace).Get(ctx, "curfew-controller", metav1.GetOptions{})
		s.ok(err)
		return *lease.Spec.HolderIdentity
	}
	leader := start()
	defer func() { s.ok(leader.Kill()) }()
	s.awaitGone(s.finishJob("first", now(), ttl(second)))
	other := start("--max-deletions-per-minute=1") // It deletes nothing in its first minute.
	defer func() { s.ok(other.Stop(s.ctx)) }()

	before, finished := holder(s.ctx), now()
	s.finishJob("due", finished, ttl(8*second))
	s.ok(syscall.Kill(leader.PID, syscall.SIGSTOP))
	s.poll("another replica to lead, and the expiry", func(ctx context.Context) (bool, error) {
		return holder(ctx) != before && time.Since(finished) > 9*second, nil
	})
	s.ok(syscall.Kill(leader.PID, syscall.SIGCONT))
	s.poll("the former leader to end", func(context.Context) (bool, error) {
		select {
		case <-leader.Ended():
			return true, nil
		default:
			return false, nil
		}
	})
	if sent := suite.proxy.Deletes(s.name, "due"); len(sent) != 0 {
		t.Errorf("DELETEs sent: %+v, want none", sent)
	}
}

// With --strict-labels a label that cannot be read is denied, with --require-delete a TTL of users
// who may not delete, and with --expired-labels=warn an expired label is not.
func TestStrictOptions(t *testing.T) {
	s := newSpace(t)
	lenient := newSpace(t, wellknown.AnnotationMode, "warn", wellknown.AnnotationMaxTTL, "7d")
	port := suite.webhook.WebhookPort
	s.ok(suite.webhook.Stop(s.ctx))
	s.ok(startWebhook(s.ctx, port, "--strict-labels", "--expired-labels=warn", "--require-delete"))
	defer func() {
		s.ok(suite.webhook.Stop(s.ctx))
		s.ok(startWebhook(s.ctx, port))
	}()
	const field = "metadata.labels[curfew.dev/ttl]: "
	const past = restoredDate + "Job was created: Curfew keeps it; use a later one"
	const bad = `"90y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`
	s.creates(
		row{job("past", labelled("2020-12-24")), warned(field + past)},
		row{job("bad", labelled("90y")), denied("validate-marked.curfew.dev", field+bad)},
		row{job("good", labelled("90m")), ""},
		row{labelledAs("v1", "ConfigMap", "bad", wellknown.LabelTTL, "90y"), denied("validate-labels.curfew.dev", field+bad)},
	)
	// A namespace's mode softens its own bounds, and not what flags have refused.
	lenient.creates(row{job("bad", labelled("90y")), denied("validate.curfew.dev", field+bad)})
	old := s.newJob(job("old", inTemplate(hold, "true")))
	s.outlast(old.CreationTimestamp.Add(2 * second))
	if output := s.expectSuccess(s.kubectl("label", "job", "old", wellknown.LabelTTL+"=1s")).stderr; !strings.Contains(output, ": Curfew deletes the Job at once; use a later one") {
		t.Errorf("kubectl said: %s", output)
	}
	s.awaitGone(old)

	for _, space := range []*space{s, lenient} {
		space.may("ann", "create", "get", "patch")
	}
	const refusal = "spec.ttlSecondsAfterFinished: sets when this Job is deleted"
	s.expectRefusal(s.kubectlInput(s.manifest(job("native", native(time.Hour))), "--as=ann", "create", "-f", "-"), denied("validate-marked.curfew.dev", refusal+s.notYours("Job")))
	s.expectStderr(s.kubectlInput(s.manifest(job("plain", inTemplate(hold, "true"))), "--as=ann", "create", "-f", "-"))
	s.expectRefusal(s.kubectl("--as=ann", "annotate", "job", "plain", wellknown.AnnotationTTL+"=1h"),
		`Error from server (Forbidden): admission webhook "validate-marked.curfew.dev" denied the request: `+
			"metadata.annotations[curfew.dev/ttl-after-finished]: sets when this Job is deleted"+s.notYours("Job"))
	lenient.expectRefusal(lenient.kubectlInput(s.manifest(job("native", native(time.Hour))), "--as=ann", "create", "-f", "-"), denied("validate.curfew.dev", refusal+lenient.notYours("Job")))
}

// restart restarts the webhook and the controller with further flags.
func (s *space) restart(args ...string) {
	s.Helper()
	port := suite.webhook.WebhookPort
	s.ok(suite.webhook.Stop(s.ctx))
	s.ok(startWebhook(s.ctx, port, args...))
	s.ok(suite.controller.Stop(s.ctx))
	s.ok(startController(s.ctx, args...))
}

// With --kyverno-label that label is reviewed and carried out as Curfew's own is, and stands back
// where that speaks.
func TestKyvernoLabel(t *testing.T) {
	s := labelSpace(t, wellknown.AnnotationMaxTTL, "90d")
	const key = wellknown.LabelKyvernoTTL
	const due = "2s"
	before := s.newConfigMap("before", key, due)
	s.expectStderr(s.create(labelledAs("v1", "ConfigMap", "unread", key, "soon")))

	s.stillThere(before)
	s.restart("--kyverno-label")
	defer s.restart()
	s.awaitGone(before)
	const field = "metadata.labels[cleanup.kyverno.io/ttl]: "
	notKyvernos := strings.Replace(notALabel, "a date:", "a date that Kyverno reads:", 1)
	bad := labelledAs("v1", "ConfigMap", "bad", key, "soon")
	s.eventually(row{bad, warned(field + `"soon"` + notKyvernos)})
	s.creates(
		row{bad, warned(field + `"soon"` + notKyvernos)},
		row{labelledAs("v1", "ConfigMap", "good", key, "90d"), ""},
		row{labelledAs("v1", "ConfigMap", "long", key, "91d"), denied("validate-labels-kyverno-in-use.curfew.dev",
			field+`91d is above curfew.dev/max-ttl 90d of namespace "`+s.name+`": use 90d or less`)},
		row{labelledAs("v1", "ConfigMap", "both", key, due, wellknown.LabelTTL, "1d"), ""},
	)
	status, answer, err := suite.cluster.Ask(s.ctx, suite.webhook, harness.Question{Path: "/v1/validate?offline=true", Manifests: s.manifest(bad)})
	s.ok(err)
	if status != http.StatusOK || !strings.Contains(answer, `"field":"metadata.labels[cleanup.kyverno.io/ttl]"`) {
		t.Errorf("the HTTP API answers %d %s", status, answer)
	}
	// A Job is sent for being in a namespace that uses Curfew as well: either of the webhooks may
	// answer first.
	out := s.create(job("long", func(j *batchv1.Job) { j.Labels = map[string]string{key: "91d"} }))
	if want := field + "91d is above"; !out.failed || !strings.Contains(out.stderr, want) {
		t.Errorf("kubectl said %q, want %q", out.stderr, want)
	}
}

// With --dry-run nothing is deleted, and each deletion that would be is told once.
func TestControllerDryRun(t *testing.T) {
	s := newSpace(t)
	s.ok(suite.controller.Stop(s.ctx))
	s.ok(startController(s.ctx, "--dry-run"))
	due := s.finishJob("due", now(), ttl(second))
	later := s.finishJob("later", now(), ttl(3*second))
	s.awaitLog(suite.controller.Log, s.name+"/later", "dry")
	s.awaitLog(suite.controller.Log, s.name+"/due", "dry")
	s.stillThere(due)
	s.stillThere(later)
	for _, name := range []string{"due", "later"} {
		// The API server is asked, so that what it would refuse is told too.
		if sent := suite.proxy.Deletes(s.name, name); len(sent) != 1 || !slices.Equal(sent[0].Options.DryRun, []string{metav1.DryRunAll}) || sent[0].Status != http.StatusOK {
			t.Errorf("DELETEs of %s: %+v, want one with dryRun All that is accepted", name, sent)
		}
	}
	s.ok(suite.controller.Stop(s.ctx))
	s.ok(startController(s.ctx))
	s.awaitGone(due)
	s.awaitGone(later)
}

// Nothing is deleted in the namespaces that --protect names.
func TestProtectedNamespaces(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	system := *s
	system.name = metav1.NamespaceSystem
	var err error
	system.observer, err = suite.cluster.Observe(s.ctx, system.name)
	s.ok(err)
	due := system.finishJob("e2e-protected", now(), ttl(second))
	s.outlast(now().Add(second))
	system.stillThere(due)
	s.ok(system.tryDeleteJob("e2e-protected"))
}

// A LifecyclePolicy without a namespace selector writes nothing into objects of namespaces that
// --protect names, be it by a pattern.
func TestProtectedNamespacesGetNoDefault(t *testing.T) {
	s, guarded := newSpace(t), newSpace(t)
	system := *s
	system.name = metav1.NamespaceSystem
	s.restart("--protect=" + strings.Join(judging.DefaultProtect(), ",") + "," + guarded.name + "*")
	defer s.restart()
	s.Cleanup(func() { s.afterwards("delete", "lifecyclepolicy", s.name, "--ignore-not-found") })
	s.apply(fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: %[1]s}, spec: {match: {kinds: [{group: batch, kind: Job}],
		objectSelector: {matchLabels: {tier: %[1]s}}}, defaults: {ttl: {value: 1h}, deadline: {value: 2h}, ttlLabel: {value: 3d}}}}`, s.name))
	s.poll("the policy to give defaults elsewhere", func(context.Context) (bool, error) {
		out := s.expectSuccess(s.kubectlInput(s.manifest(job("probe", tier(s.name))), "create", "--dry-run=server", "-o", "json", "-f", "-"))
		return strings.Contains(out.stdout, `"ttlSecondsAfterFinished": 3600`) && strings.Contains(out.stdout, wellknown.LabelTTL), nil
	})
	for _, each := range []*space{&system, guarded} {
		made := each.newJob(job("e2e-without-defaults", tier(s.name)))
		if made.Spec.TTLSecondsAfterFinished != nil || made.Spec.ActiveDeadlineSeconds != nil || len(made.Annotations) > 0 || len(made.Labels) != 1 {
			t.Errorf("in %s, a Job got %v, %v, annotations %v and labels %v", each.name, made.Spec.TTLSecondsAfterFinished, made.Spec.ActiveDeadlineSeconds, made.Annotations, made.Labels)
		}
		each.ok(each.tryDeleteJob(made.Name))
	}
}

// The metrics tell what was done, and how late.
func TestMetrics(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.awaitGone(s.finishJob("due", now(), ttl(second)))
	s.awaitLog(suite.controller.Log, s.name+"/due", "deleted") // which comes after the counters
	for _, series := range []string{
		`curfew_deletion_attempts_total{group="batch",kind="Job",result="deleted",trigger="ttl"}`,
		`curfew_deletion_lateness_seconds_count{group="batch",kind="Job",trigger="ttl"}`,
	} {
		if value, err := strconv.ParseFloat(metric(t, s.ctx, series), 64); err != nil || value < 1 {
			t.Errorf("%s is %v (%v), want at least 1", series, value, err)
		}
	}
}
