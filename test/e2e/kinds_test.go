package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// kindsName is what the controller calls both of its webhook configurations.
const kindsName = "curfew-kinds"

// render is a kind that a test makes up: something that renders frames, with a list of stages that
// have pod templates.
type render struct {
	group string
}

func (r render) definition() string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: renders.` + r.group + `}
spec:
  group: ` + r.group + `
  scope: Namespaced
  names: {kind: Render, listKind: RenderList, plural: renders, singular: render}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                keep-for: {type: integer}
                deadline: {type: integer}
                stages:
                  type: array
                  items:
                    type: object
                    properties:
                      template: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
}

func (r render) profile() string {
	return `apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: renders.` + r.group + `}
spec:
  kind: {group: ` + r.group + `, version: v1, kind: Render, resource: renders}
  state:
    finished: object.?status.?done.orValue(false)
    finishTime: object.?status.?doneAt
    outcome: 'object.?status.?failed.orValue(false) ? "Failed" : "Succeeded"'
  fields: {ttl: spec.keep-for, deadline: spec.deadline}
  podTemplates: ['spec.stages[*].template']
  deadline: {allowDefault: true, enforcement: [{by: Controller}]}
`
}

// role lets the controller watch and delete the kind.
func (r render) role() string {
	return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: e2e-` + r.group + `
  labels: {curfew.dev/aggregate-to-controller: "true"}
rules: [{apiGroups: [` + r.group + `], resources: [renders], verbs: [get, list, watch, delete]}]
`
}

func (r render) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.group, Version: "v1", Resource: "renders"}
}

func (r render) object(name, rest string) string {
	return `{"apiVersion": "` + r.group + `/v1", "kind": "Render", "metadata": {"name": "` + name + `"` + rest + `}`
}

// An unknown kind is admitted as Jobs are, once it has a KindProfile, and costs nothing without
// one.
func TestKindProfileBringsAdmission(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	r := render{"admission.e2e.example.com"}
	s.apply(r.role())
	s.apply(r.definition())
	s.apply(r.profile())
	s.awaitRule(r.group)
	s.awaitDefault(r)
	plain := *s
	plain.name = s.name + "-plain"
	s.ok(suite.cluster.NewNamespace(s.ctx, plain.name, nil))

	s.expectStderr(s.kubectlInput(r.object("a", `}, "spec": {}`), "create", "-f", "-"),
		`Warning: curfew: keep-for defaulted to 86400 (1d) from namespace "`+s.name+`"`)
	s.expectRefusal(s.kubectlInput(r.object("b", `}, "spec": {"keep-for": 1000000}`), "create", "-f", "-"), denied("validate.renders."+r.group+".curfew.dev",
		`spec.keep-for: 1000000 (11d13h46m40s) is above curfew.dev/max-ttl 7d of namespace "`+s.name+`": use 7d or less`))
	template := `}, "spec": {"stages": [{}, {"template": {"metadata": {"annotations": {"curfew.dev/ttl-after-finished": "1h"}}}}]}`
	reason := "spec.stages[1].template.metadata.annotations[curfew.dev/ttl-after-finished]: a pod template cannot have a TTL: set spec.keep-for"
	s.expectRefusal(s.kubectlInput(r.object("c", template), "create", "-f", "-"), denied("validate.renders."+r.group+".curfew.dev", reason))

	// Where the namespace does not use Curfew, what says nothing of it is left alone.
	plain.expectRefusal(plain.kubectlInput(r.object("c", template), "create", "-f", "-"), denied("validate-marked.renders."+r.group+".curfew.dev", reason))
	plain.expectRefusal(plain.kubectlInput(r.object("d", `, "annotations": {"curfew.dev/ttl-after-finished": "soon"}}`), "create", "-f", "-"),
		denied("validate-marked.renders."+r.group+".curfew.dev", `metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: `+
			`use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`))
	// Other tests create Renders of their own meanwhile: this test counts only reviews of its own.
	quiet := false
	for i := 0; i < 10 && !quiet; i++ {
		before := s.reviews("Render")
		plain.expectStderr(plain.kubectlInput(r.object("e", `}, "spec": {"deadline": 5}`), "create", "-f", "-"))
		plain.expectSuccess(plain.kubectl("label", "renders."+r.group, "e", "a=b"))
		if quiet = s.reviews("Render") == before; !quiet {
			plain.expectSuccess(plain.kubectl("delete", "renders."+r.group, "e"))
		}
	}
	if !quiet {
		t.Error("a Render that says nothing of Curfew is reviewed")
	}
	out := plain.kubectl("annotate", "renders."+r.group, "e", "curfew.dev/ttl-after-finished=-1")
	if want := `admission webhook "validate-marked.renders.` + r.group; !out.failed || !strings.Contains(out.stderr, want) {
		t.Errorf("kubectl said %q, want %q", out.stderr, want)
	}

	s.expectSuccess(s.kubectl("delete", "kindprofile", "renders."+r.group))
	s.awaitNoRule(r.group)
	s.awaitAdmitted("a Render with a TTL in a template", func() output {
		return plain.kubectlInput(r.object("f", template), "create", "--dry-run=server", "-f", "-")
	})
}

// apply applies a manifest of the cluster.
func (s *space) apply(manifest string) {
	s.Helper()
	s.expectSuccess(s.kubectlInput(manifest, "apply", "-f", "-"))
}

// rules are the groups and resources whose requests the API server sends.
func (s *space) rules(ctx context.Context) (mutating, validating string, err error) {
	text := func(rules []admissionv1.RuleWithOperations) (out string) {
		for _, rule := range rules {
			out += fmt.Sprintf("%v/%v ", rule.APIGroups, rule.Resources)
		}
		return out
	}
	m, err := suite.cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, kindsName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", "", err
	}
	for _, webhook := range m.Webhooks {
		mutating += text(webhook.Rules)
	}
	v, err := suite.cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, kindsName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", "", err
	}
	for _, webhook := range v.Webhooks {
		validating += text(webhook.Rules)
	}
	return mutating, validating, nil
}

// poll waits for a condition that no event tells.
func (s *space) poll(what string, condition func(ctx context.Context) (bool, error)) {
	s.Helper()
	if err := harness.Poll(s.ctx, s.Name()+": "+what, condition); err != nil {
		s.Fatalf("waited in vain for %s: %v", what, err)
	}
}

func (s *space) awaitRule(group string) {
	s.Helper()
	s.poll("rules of "+group, func(ctx context.Context) (bool, error) {
		mutating, validating, err := s.rules(ctx)
		return strings.Contains(mutating, group) && strings.Contains(validating, group), err
	})
}

func (s *space) awaitNoRule(group string) {
	s.Helper()
	s.poll("no rules of "+group, func(ctx context.Context) (bool, error) {
		mutating, validating, err := s.rules(ctx)
		return !strings.Contains(mutating+validating, group), err
	})
}

// awaitDefault waits until both sides answer for a new kind: the API server does not report when it
// has read a configuration.
func (s *space) awaitDefault(r render) {
	s.Helper()
	s.poll("a default for "+r.group, func(context.Context) (bool, error) {
		out := s.kubectlInput(r.object("probe", `}, "spec": {}`), "create", "--dry-run=server", "-f", "-")
		if out.failed {
			return false, fmt.Errorf("kubectl: %s", out.stderr)
		}
		return strings.Contains(out.stderr, "defaulted"), nil
	})
}

// awaitAdmitted waits until something that was refused no longer is.
func (s *space) awaitAdmitted(what string, try func() output) {
	s.Helper()
	s.poll(what+" to be admitted", func(context.Context) (bool, error) { return !try().failed, nil })
}

// reviews counts the requests that Curfew has reviewed of a kind.
func (s *space) reviews(kind string) (count float64) {
	s.Helper()
	text, err := suite.webhook.Scrape(s.ctx)
	s.ok(err)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "curfew_admission_reviews_total{") && strings.Contains(line, `kind="`+kind+`"`) {
			var value float64
			_, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value)
			s.ok(err)
			count += value
		}
	}
	return count
}
