package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// teamPolicy is a file of --config-dir: a default for Pods, and a bound of Jobs.
const teamPolicy = `
apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: pods}
spec:
  match: {kinds: [{kind: Pod}]}
  defaults: {ttl: {value: 2h}}
---
apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: jobs}
spec:
  match: {kinds: [{group: batch, kind: Job}]}
  bounds: {minTTL: 1m}
`

// A webhook with the Roles of manifests/overlays/namespaced-webhook and no ClusterRole fills in and
// rejects in its namespace what the webhook of the cluster would. Next door, where it has the same
// Role and is sent the same requests by mistake, it changes and asks nothing. The other webhook and
// controller do not run meanwhile. (nothingForbidden sees its requests, too.)
func TestOnlyNamespacesWebhook(t *testing.T) {
	home := newSpace(t)
	port := suite.webhook.WebhookPort
	home.ok(suite.controller.Stop(home.ctx))
	defer func() { home.ok(startController(home.ctx)) }()
	home.ok(suite.webhook.Stop(home.ctx))
	defer func() { home.ok(startWebhook(home.ctx, port)) }()
	in, out := newSpace(t, wellknown.AnnotationDefaultTTL, "1d"), newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	bare := newSpace(t) // listed, too, and without annotations
	for _, s := range []*space{in, bare, out} {
		s.applyOverlay("namespaced/team.yaml", home.name, s.name)
		s.applyOverlay("namespaced-webhook/team.yaml", home.name, s.name)
		s.may("ann", "create", "get", "patch")
		s.may("bob", "create", "get", "patch", "delete")
	}
	home.applyOverlay("namespaced/roles.yaml", home.name, "")
	home.applyOverlay("namespaced-webhook/deployment/account.yaml", home.name, "")
	dir := t.TempDir()
	in.ok(os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(teamPolicy), 0o600))
	webhook, authority, err := suite.cluster.StartTeamWebhook(in.ctx, harness.CurfewOptions{Name: "team-webhook", Home: home.name,
		Args: []string{"--only-namespaces=" + in.name + "," + bare.name, "--config-dir=" + dir, "--require-delete"}})
	in.ok(err)
	defer func() { in.ok(webhook.Stop(in.ctx)) }()
	installTeamWebhooks(home, fmt.Sprint("https://127.0.0.1:", webhook.WebhookPort), authority, in.name, bare.name, out.name)

	// Mutating: by the Namespace, by a policy of a file.
	defaulted := func(ttl string) string {
		return warned(`ttlSecondsAfterFinished defaulted to ` + ttl + ` from namespace "` + in.name + `"`)
	}
	in.eventually(row{job("probe"), defaulted("86400 (1d)")})
	in.expectStderr(in.create(job("by-namespace")), defaulted("86400 (1d)"))
	if ttl := in.getJob("by-namespace").Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 86400 {
		t.Errorf("TTL %v, want a day", ttl)
	}
	in.expectSuccess(in.kubectl("annotate", "--overwrite", "namespace", in.name, wellknown.AnnotationDefaultTTL+"=2d"))
	in.expectStderr(in.create(job("at-once")), defaulted("172800 (2d)")) // no poll is awaited
	got := bare.newPod(pod("by-policy", corev1.RestartPolicyNever))
	if got.Annotations[wellknown.AnnotationTTL] != "2h" || got.Annotations[wellknown.AnnotationTTLSource] != "policy/pods" {
		t.Errorf("the Pod has %v, want the default of the file", got.Annotations)
	}

	// Validating: a bound of the file, a bad value, and what ann may not delete.
	short := job("short", native(5*time.Second))
	if said := in.create(short); !said.failed || !strings.Contains(said.stderr, `"validate.curfew.dev" denied the request: spec.ttlSecondsAfterFinished: `) {
		t.Errorf("a TTL below the bound of the file: %s", said.stderr)
	}
	if said := in.kubectl("annotate", "--overwrite", "namespace", in.name, wellknown.AnnotationDefaultTTL+"=soon"); !said.failed {
		t.Error("a bad default of the Namespace is let in")
	}
	binding := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"by-policy","uid":"` + string(got.UID) + `","annotations":{"curfew.dev/ttl-after-finished":"soon"}},"target":{"kind":"Node","name":"none"}}`
	if said := bare.kubectlInput(binding, "create", "--raw", "/api/v1/namespaces/"+bare.name+"/pods/by-policy/binding", "-f", "-"); !strings.Contains(said.stderr, `"bindings.curfew.dev" denied the request: metadata.annotations`) {
		t.Errorf("a Binding with a bad annotation: %s", said.stderr)
	}
	const refusal = "spec.ttlSecondsAfterFinished: sets when this Job is deleted"
	in.expectRefusal(in.kubectlInput(in.manifest(job("anns", native(time.Hour))), "--as=ann", "create", "-f", "-"),
		denied("validate.curfew.dev", refusal+in.notYours("Job")))
	in.expectStderr(in.kubectlInput(in.manifest(job("bobs", native(time.Hour))), "--as=bob", "create", "-f", "-"))

	// Next door nothing of this happens.
	out.expectStderr(out.create(job("plain"), short))
	out.expectStderr(out.kubectlInput(out.manifest(job("anns", native(time.Hour))), "--as=ann", "create", "-f", "-"))
	if plain := out.getJob("plain"); plain.Spec.TTLSecondsAfterFinished != nil || len(plain.Annotations) > 0 {
		t.Errorf("the Job next door was changed: %v, %v", plain.Spec.TTLSecondsAfterFinished, plain.Annotations)
	}
	out.expectStderr(out.kubectl("annotate", "--overwrite", "namespace", out.name, wellknown.AnnotationDefaultTTL+"=soon"))

	sent, err := suite.cluster.RequestsOf("system:serviceaccount:" + home.name + ":curfew-webhook")
	in.ok(err)
	reviewed := 0
	for _, request := range sent {
		verb, path, _ := strings.Cut(request+"/", " ")
		named := false
		for _, s := range []*space{in, bare} {
			if verb == "create" && strings.HasPrefix(path, "/apis/authorization.k8s.io/v1/namespaces/"+s.name+"/localsubjectaccessreviews/") {
				named, reviewed = true, reviewed+1
			}
			named = named || verb == "get" && strings.HasPrefix(path, "/api/v1/namespaces/"+s.name+"/")
		}
		if discovery := verb == "get" && !strings.Contains(path, "/namespaces"); !named && !discovery {
			t.Errorf("the webhook sent: %s", request)
		}
	}
	if reviewed < 3 {
		t.Errorf("%d access reviews among %q, want some about ann, bob and the controller", reviewed, sent)
	}
}

// applyOverlay applies a file of manifests/overlays for a team with one namespace.
func (s *space) applyOverlay(file, home, team string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "overlays", file))
	s.ok(err)
	s.expectSuccess(s.kubectlInput(strings.NewReplacer("curfew-system", home, "team-a", team).Replace(string(text)), "apply", "-f", "-"))
}

// installTeamWebhooks installs what an administrator would, for some namespaces and a process by
// URL, and removes it after the test.
func installTeamWebhooks(s *space, url string, authority []byte, namespaces ...string) {
	s.Helper()
	rendered := s.expectSuccess(s.kubectl("kustomize", filepath.Join("..", "..", "manifests", "overlays", "namespaced-webhook", "admin"))).stdout
	var configurations []any
	point := func(client *admissionv1.WebhookClientConfig, selector *metav1.LabelSelector) {
		whole := url + *client.Service.Path
		client.Service, client.URL, client.CABundle = nil, &whole, authority
		selector.MatchExpressions[0].Values = namespaces
	}
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		if strings.Contains(document, "\nkind: Mutating") {
			found := &admissionv1.MutatingWebhookConfiguration{}
			s.ok(yaml.UnmarshalStrict([]byte(document), found))
			for i := range found.Webhooks {
				point(&found.Webhooks[i].ClientConfig, found.Webhooks[i].NamespaceSelector)
			}
			configurations = append(configurations, found)
			continue
		}
		found := &admissionv1.ValidatingWebhookConfiguration{}
		s.ok(yaml.UnmarshalStrict([]byte(document), found))
		for i := range found.Webhooks {
			point(&found.Webhooks[i].ClientConfig, found.Webhooks[i].NamespaceSelector)
		}
		configurations = append(configurations, found)
	}
	s.Cleanup(func() {
		s.afterwards("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "curfew-team-a")
	})
	s.expectSuccess(s.create(configurations...))
}
