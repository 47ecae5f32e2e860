package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
)

// The tests of this file are about which requests reach Curfew at all. Those that count, or take
// configurations away, do not run in parallel.

// calls is how often the API server has called a webhook of Curfew's, by what it counts itself:
// calls that fail count too.
func (s *space) calls() (count float64) {
	s.Helper()
	text, err := suite.cluster.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(s.ctx)
	s.ok(err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_admission_webhook_admission_duration_seconds_count{") && strings.Contains(line, wellknown.Group+`"`) {
			var value float64
			_, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value)
			s.ok(err)
			count += value
		}
	}
	return count
}

// What does not use Curfew does not pay for it: creating and changing workloads of every kind that
// Kubernetes has, and what their controllers make of them, is not sent anywhere. The same in a
// namespace with a default is.
func TestWhatDoesNotUseCurfewIsNotSent(t *testing.T) {
	var plain *space
	newSpace(t).sends("workloads in a namespace that does not use it", 0, func(int) {
		plain = newSpace(t)
		plain.work()
	})
	using := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultPodTTL, "1d")
	using.poll("the controller's stamp, which is sent", func(ctx context.Context) (bool, error) {
		live, err := suite.cluster.Client.CoreV1().Namespaces().Get(ctx, using.name, metav1.GetOptions{})
		return err == nil && live.Annotations[wellknown.AnnotationDefaultSince] != "" && live.Labels[wellknown.LabelInUse] != "", err
	})
	// Kinds that Curfew has nothing to say about: nowhere, whatever the namespace says, and whatever
	// the annotations.
	thing := using.define("Thing", using.name+".example.com", true, version{name: "v1", storage: true})
	for _, s := range []*space{plain, using} {
		s.sends("what has no label", 0, func(int) { s.store(thing) })
	}
	// A label has it sent once where there are bounds to know of, and where it is not plainly in
	// order.
	plain.grant("e2e-config-maps", configMaps)
	plain.awaitWatched("ConfigMap", true)
	for _, labelled := range []struct {
		in    *space
		value string
		want  float64
	}{{using, "30d", 1}, {plain, "2099-12-24", 1}, {plain, "30d", 0}} {
		plain.sends("a ConfigMap with label "+labelled.value, labelled.want, func(attempt int) {
			labelled.in.newConfigMap(fmt.Sprintf("labelled-%s-%d", strings.ToLower(labelled.value), attempt), wellknown.LabelTTL, labelled.value)
		})
	}
	before := using.calls()
	using.work()
	// A Job and its Pod, a Deployment's Pod, a Pod and a CronJob, by at least one side each.
	if after := using.calls(); after-before < 7 {
		t.Errorf("%v calls in a namespace that uses it, want some for every Job, Pod and CronJob: the test cannot fail", after-before)
	}
}

// sends fails the test unless the API server calls Curfew so often for some requests. Others may
// have something sent meanwhile, such as a stamp of the controller, but not each time.
func (s *space) sends(what string, want float64, do func(attempt int)) {
	s.Helper()
	var got []float64
	for attempt := range 5 {
		before := s.calls()
		do(attempt)
		calls := s.calls() - before
		if calls == want {
			return
		}
		got = append(got, calls)
	}
	s.Errorf("%v calls of Curfew's webhooks for %s, want %v", got, what, want)
}

// work does what people do all day.
func (s *space) work() {
	s.Helper()
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}}, Spec: podSpec(corev1.RestartPolicyAlways)}
	replicas := int32(1)
	s.expectSuccess(s.create(
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}},
		pod("bare", corev1.RestartPolicyNever), pod("server", corev1.RestartPolicyAlways),
		job("build", func(j *batchv1.Job) { deadline := int64(1000); j.Spec.ActiveDeadlineSeconds = &deadline }), cronJob("nightly")))
	s.awaitJobFinish(s.getJob("build"))
	s.awaitPodFinish(s.getPod("bare"))
	s.poll("the Deployment's Pod to run", func(ctx context.Context) (bool, error) {
		web, err := suite.cluster.Client.AppsV1().Deployments(s.name).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && web.Status.ReadyReplicas == 1, err
	})
	for _, object := range []string{"deployment/web", "pod/bare", "pod/server", "job/build", "cronjob/nightly"} {
		s.expectSuccess(s.kubectl("label", object, "team=blue"))
		s.expectSuccess(s.kubectl("annotate", object, "example.com/note=x"))
	}
	s.expectSuccess(s.kubectl("scale", "deployment/web", "--replicas=2"))
	s.expectSuccess(s.kubectl("patch", "cronjob", "nightly", "-p", `{"spec":{"suspend":true}}`))
	s.expectSuccess(s.kubectl("patch", "job", "build", "-p", `{"spec":{"parallelism":2}}`))
	s.expectSuccess(s.kubectl("create", "job", "tonight", "--from=cronjob/nightly"))
	s.expectSuccess(s.kubectl("delete", "deployment/web", "pod/server", "--wait=false"))
}

// store makes, changes and deletes objects of kinds without a profile. None has a label of
// Curfew's.
func (s *space) store(thing schema.GroupVersionResource) {
	s.Helper()
	names := []string{"configmap/settings", "secret/key", "service/web", "lease.coordination.k8s.io/leader", "serviceaccount/robot", "things." + thing.Group + "/thing"}
	s.expectSuccess(s.create(labelledAs("v1", "ConfigMap", "settings", "app", "x"), labelledAs("v1", "Secret", "key"), labelledAs("v1", "ServiceAccount", "robot"),
		labelledAs("coordination.k8s.io/v1", "Lease", "leader"), labelledAs(thing.Group+"/v1", "Thing", "thing"),
		map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"ports": []any{map[string]any{"port": 80}}}}))
	s.expectSuccess(s.kubectl("create", "clusterrole", "e2e-plain-"+s.name, "--verb=get", "--resource=pods"))
	for _, name := range append(names, "clusterrole/e2e-plain-"+s.name) {
		s.expectSuccess(s.kubectl("label", name, "team=blue"))
		s.expectSuccess(s.kubectl("annotate", name, "example.com/note=x", wellknown.AnnotationProtect+"=true"))
		s.expectSuccess(s.kubectl("annotate", name, wellknown.AnnotationProtect+"-"))
		s.expectSuccess(s.kubectl("delete", name))
	}
}

// lifecyclePolicy applies a LifecyclePolicy until the test ends.
func (s *space) lifecyclePolicy(name, spec string) {
	s.Helper()
	s.apply("apiVersion: curfew.dev/v1alpha1\nkind: LifecyclePolicy\nmetadata: {name: " + name + "}\nspec: " + spec + "\n")
	s.Cleanup(func() {
		if _, stderr, err := suite.cluster.Kubectl(context.Background(), "delete", "lifecyclepolicy", name, "--ignore-not-found"); err != nil {
			s.Errorf("%v: %s", err, stderr)
		}
	})
}

// eventuallySays creates objects in a dry run until kubectl says something.
func (s *space) eventuallySays(what, output string, objects ...any) {
	s.Helper()
	manifest := s.manifest(objects...)
	s.poll(what, func(context.Context) (bool, error) {
		return strings.Contains(s.kubectlInput(manifest, "create", "--dry-run=server", "-f", "-").stderr, output), nil
	})
}

// A policy by labels reaches Jobs and Pods of those labels alone, and its bounds what they set
// themselves.
func TestPolicyByLabelsReachesUnusedNamespaces(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.name + "-labels"
	mine := map[string]string{"e2e": s.name}
	s.lifecyclePolicy(name, `{match: {kinds: [{group: batch, kind: Job}, {group: "", kind: Pod}], objectSelector: {matchLabels: {e2e: `+s.name+`}}},
		defaults: {ttl: {value: 3h}}, bounds: {maxDeadline: 1h}}`)
	labelled := func(j *batchv1.Job) { j.Labels = mine }
	output := `Warning: curfew: ttlSecondsAfterFinished defaulted to 10800 (3h) from policy "` + name + `"`
	s.eventuallySays("a default of the policy", output, job("probe", labelled))
	s.expectStderr(s.create(job("build", labelled)), output)
	s.expectStderr(s.create(job("other")))

	bare := pod("bare", corev1.RestartPolicyNever)
	bare.Labels = mine
	s.expectStderr(s.create(bare), `Warning: curfew: curfew.dev/ttl-after-finished defaulted to 3h from policy "`+name+`"`)
	server := pod("server", corev1.RestartPolicyAlways)
	server.Labels = mine
	s.expectStderr(s.create(server))

	long := int64(7200)
	out := s.create(job("long", labelled, native(hour), func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &long }))
	if want := `spec.activeDeadlineSeconds: 7200 (2h) is above `; !out.failed || !strings.Contains(out.stderr, want) {
		t.Errorf("kubectl said %q, want %q", out.stderr, want)
	}
	// It carries nothing but a deadline, and is owned, so that it gets no default: the bound alone has
	// it sent.
	out = s.create(job("owned", labelled, func(j *batchv1.Job) {
		j.Spec.ActiveDeadlineSeconds = &long
		j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.getJob("other"), jobKind)}
	}))
	if want := `spec.activeDeadlineSeconds: 7200 (2h) is above `; !out.failed || !strings.Contains(out.stderr, want) {
		t.Errorf("kubectl said %q, want %q", out.stderr, want)
	}
	s.expectStderr(s.create(job("unlabelled", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &long })))
}

// The controller restores its configurations when another user changes or deletes them.
func TestEditsOfCoverageAreUndone(t *testing.T) {
	s := newSpace(t)
	r := render{"restored.e2e.example.com"}
	s.apply(r.role())
	s.apply(r.definition())
	s.apply(r.profile())
	defer func() { s.expectSuccess(s.kubectl("delete", "kindprofile", "renders."+r.group)) }()
	s.awaitRule(r.group)
	configurations := suite.cluster.Client.AdmissionregistrationV1()

	s.expectSuccess(s.kubectl("delete", "validatingwebhookconfiguration", kindsName))
	s.awaitRule(r.group)

	_, err := configurations.MutatingWebhookConfigurations().Patch(s.ctx, kindsName, types.MergePatchType, []byte(`{"webhooks":null}`), metav1.PatchOptions{})
	s.ok(err)
	s.awaitRule(r.group)

	current, err := configurations.ValidatingWebhookConfigurations().Get(s.ctx, kindsName, metav1.GetOptions{})
	s.ok(err)
	fail := []byte(`[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 30}, {"op": "add", "path": "/metadata/labels/team", "value": "blue"}]`)
	_, err = configurations.ValidatingWebhookConfigurations().Patch(s.ctx, kindsName, types.JSONPatchType, fail, metav1.PatchOptions{})
	s.ok(err)
	s.poll("the timeout to be restored", func(ctx context.Context) (bool, error) {
		now, err := configurations.ValidatingWebhookConfigurations().Get(ctx, kindsName, metav1.GetOptions{})
		if err != nil || now.ResourceVersion == current.ResourceVersion || *now.Webhooks[0].TimeoutSeconds != *current.Webhooks[0].TimeoutSeconds {
			return false, err
		}
		if now.Labels["team"] != "blue" {
			return false, fmt.Errorf("Curfew removed a foreign label: %v", now.Labels)
		}
		return true, nil
	})
	s.settled()
}

// settled fails the test if the controller goes on writing once there is nothing to change.
func (s *space) settled() {
	s.Helper()
	configurations := suite.cluster.Client.AdmissionregistrationV1()
	version := func() string {
		m, err := configurations.MutatingWebhookConfigurations().Get(s.ctx, kindsName, metav1.GetOptions{})
		s.ok(err)
		v, err := configurations.ValidatingWebhookConfigurations().Get(s.ctx, kindsName, metav1.GetOptions{})
		s.ok(err)
		return m.ResourceVersion + " " + v.ResourceVersion
	}
	before := version()
	s.outlast(now().Add(2 * second)) // More than the controller waits between two looks.
	if after := version(); after != before {
		s.Errorf("the configurations went from %s to %s with nothing to change", before, after)
	}
}

// Without the static configurations Curfew is not to be asked at all: whoever takes them away is
// rid of the others, too.
func TestCoverageGoesWithTheStaticConfigurations(t *testing.T) {
	s := newSpace(t)
	r := render{"uninstalled.e2e.example.com"}
	s.apply(r.role())
	s.apply(r.definition())
	s.apply(r.profile())
	defer func() { s.expectSuccess(s.kubectl("delete", "kindprofile", "renders."+r.group)) }()
	s.awaitRule(r.group)
	gone := func(when string) {
		t.Helper()
		s.poll("curfew-kinds to be gone "+when, func(ctx context.Context) (bool, error) {
			for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
				out := s.kubectl("get", kind, kindsName, "--ignore-not-found", "-o", "name")
				if out.failed || out.stdout != "" {
					return false, nil
				}
			}
			return true, nil
		})
	}
	reinstall := func() {
		t.Helper()
		s.ok(suite.cluster.Install(s.ctx, suite.webhook.WebhookPort))
		s.ok(suite.cluster.WaitForWebhook(s.ctx))
		s.awaitRule(r.group)
		s.awaitValidated(r)
	}
	remove := func() {
		t.Helper()
		s.expectSuccess(s.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "curfew"))
	}
	remove()
	gone("while the controller runs")
	reinstall()

	// The garbage collector does not need Curfew.
	s.ok(suite.controller.Stop(s.ctx))
	defer restartController(s)()
	remove()
	gone("without a controller")
	s.expectStderr(s.kubectlInput(r.object("a", `, "annotations": {"curfew.dev/ttl-after-finished": "soon"}}`), "create", "-f", "-"))
	s.ok(startController(s.ctx))
	reinstall()
}

// While no controller runs, the webhook itself keeps its CA in what the controller has written.
func TestWebhookRestoresItsCA(t *testing.T) {
	s := newSpace(t)
	s.ok(suite.controller.Stop(s.ctx))
	defer restartController(s)()
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		bundle := func() string { return s.jsonpath(kind, kindsName, ".webhooks[0].clientConfig.caBundle") }
		before := bundle()
		if before == "" {
			t.Fatalf("%s %s has no CA", kind, kindsName)
		}
		s.expectSuccess(s.kubectl("patch", kind, kindsName, "--type=json", "-p", `[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]`))
		s.poll("the CA in the "+kind, func(context.Context) (bool, error) { return bundle() == before, nil })
	}
}

// awaitValidated waits until the validating side refuses what it has to.
func (s *space) awaitValidated(r render) {
	s.Helper()
	s.poll("the validating side of "+r.group, func(context.Context) (bool, error) {
		out := s.kubectlInput(r.object("probe", `, "annotations": {"curfew.dev/ttl-after-finished": "soon"}}`), "create", "--dry-run=server", "-f", "-")
		return out.failed && strings.Contains(out.stderr, "denied the request"), nil
	})
}

// With --fail-closed the API server refuses requests that Curfew could not validate. Requests that
// do not concern Curfew pass, and defaults never block a request.
func TestFailClosed(t *testing.T) {
	s := newSpace(t)
	r := render{"closed.e2e.example.com"}
	s.apply(r.role())
	s.apply(r.definition())
	s.apply(r.profile())
	defer func() { s.expectSuccess(s.kubectl("delete", "kindprofile", "renders."+r.group)) }()
	s.ok(suite.controller.Stop(s.ctx))
	s.ok(startController(s.ctx, "--fail-closed"))
	defer func() {
		s.ok(suite.controller.Stop(s.ctx))
		s.ok(startController(s.ctx))
	}()
	s.awaitRule(r.group)
	s.awaitValidated(r)
	port := suite.webhook.WebhookPort
	s.ok(suite.webhook.Stop(s.ctx))
	defer func() { s.ok(startWebhook(s.ctx, port)) }()
	marked := r.object("a", `, "annotations": {"curfew.dev/ttl-after-finished": "1h"}}`)
	s.poll("the API server to refuse", func(context.Context) (bool, error) {
		out := s.kubectlInput(marked, "create", "--dry-run=server", "-f", "-")
		return out.failed && strings.Contains(out.stderr, `failed calling webhook "validate-marked.renders.`+r.group), nil
	})
	s.expectStderr(s.kubectlInput(r.object("b", `}, "spec": {}`), "create", "-f", "-"))
	s.expectStderr(s.create(job("marked", ttl(hour)))) // the static configuration is another matter
}
