package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// questions are manifests about which admission has much to say, and nothing that depends on who
// asks.
func questions() []any {
	templated := cronJob("templated")
	templated.Spec.JobTemplate.Spec.Template.Annotations = map[string]string{wellknown.AnnotationTTL: "1h"}
	return []any{
		job("default"),
		job("short", native(5*time.Second), annotated("helm.sh/hook", "test")),
		job("long", native(8*24*time.Hour), annotated(wellknown.AnnotationProtect, "yes")),
		job("unreadable", annotated(wellknown.AnnotationTTLFailed, "soon")),
		job("label", native(time.Hour), labelled("90s")),
		templated,
		pod("pod", corev1.RestartPolicyNever),
		pod("server", corev1.RestartPolicyAlways, wellknown.AnnotationTTL, "1h"),
	}
}

// asKubectlTells returns the lines that kubectl would print to stderr for a report: the warnings
// first, and at the end the refusals.
func asKubectlTells(s *space, data string, objects int) []string {
	s.Helper()
	report := s.lintReport(data)
	if report.Objects != objects || report.Allowed {
		s.Fatalf("%d objects, allowed: %t", report.Objects, report.Allowed)
	}
	refused := map[string]string{}
	webhooks := map[string]string{}
	for _, finding := range report.Findings {
		if finding.Severity == rules.Deny {
			name := finding.Object.Name
			refused[name] = strings.TrimPrefix(refused[name]+"; "+finding.Finding.String(), "; ")
			webhooks[name] = "validate.curfew.dev"
			if finding.Object.Kind == "Pod" {
				webhooks[name] = "validate-pods.curfew.dev"
			}
		}
	}
	var lines []string
	for _, filled := range report.Defaults {
		if _, ok := refused[filled.Object.Name]; !ok {
			lines = append(lines, warned(filled.Field+" defaulted to "+filled.Value+" from "+lifetime.ParseSource(filled.Source).Phrase()))
		}
	}
	for _, finding := range report.Findings {
		if finding.Severity == rules.Warn {
			lines = append(lines, warned(finding.Finding.String()))
		}
	}
	for name, reason := range refused {
		lines = append(lines, denied(webhooks[name], reason))
	}
	return lines
}

// lintReport reads what the HTTP API answers, or what kubectl curfew lint prints with -o json: a
// list like that of all its commands.
func (s *space) lintReport(data string) *lint.Report {
	s.Helper()
	report := &lint.Report{}
	list := struct {
		Items []lint.Finding `json:"items"`
	}{}
	s.ok(json.Unmarshal([]byte(data), report))
	s.ok(json.Unmarshal([]byte(data), &list))
	report.Findings = append(report.Findings, list.Items...)
	return report
}

// The HTTP API answers what admission does, to those who may ask: /v1/validate what kubectl is
// told, /v1/default what the API server stores.
func TestHTTPAPIAnswersAsAdmissionDoes(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	s.expectSuccess(s.kubectl("create", "serviceaccount", "ci"))
	s.mayEdit("ci")
	token := strings.TrimSpace(s.expectSuccess(s.kubectl("create", "token", "ci", "--audience", "curfew.dev")).stdout)
	manifests := s.manifest(questions()...)
	ask := func(question harness.Question) (int, string) {
		status, answer, err := suite.cluster.Ask(s.ctx, suite.webhook, question)
		s.ok(err)
		return status, answer
	}
	path := "/v1/validate?namespace=" + s.name
	if status, answer := ask(harness.Question{Path: path, Manifests: manifests}); status != http.StatusUnauthorized || !strings.Contains(answer, "Authorization: Bearer TOKEN") {
		t.Errorf("without a token it answers %d %s", status, answer)
	}
	others := strings.TrimSpace(s.expectSuccess(s.kubectl("create", "token", "ci")).stdout)
	if status, answer := ask(harness.Question{Path: path, Manifests: manifests, Token: others}); status != http.StatusUnauthorized || !strings.Contains(answer, "--audience=curfew.dev") {
		t.Errorf("with a token for the API server it answers %d %s", status, answer)
	}
	if status, answer := ask(harness.Question{Path: path, Manifests: manifests, Token: token}); status != http.StatusForbidden || !strings.Contains(answer, "may not post /v1/validate") {
		t.Errorf("without a permission it answers %d %s", status, answer)
	}
	s.mayAsk("ci")

	var status int
	var answer string
	s.ok(harness.Poll(s.ctx, "the permission to count, since a no is cached", func(context.Context) (bool, error) {
		status, answer = ask(harness.Question{Path: path, Manifests: manifests, Token: token})
		return status != http.StatusForbidden, nil
	}))
	if status != http.StatusOK {
		t.Fatalf("it answers %d %s", status, answer)
	}
	output := s.kubectlInput(manifests, "create", "-f", "-", "--dry-run=server")
	messages := strings.Split(strings.TrimSuffix(output.stderr, "\n"), "\n")
	foretold := asKubectlTells(s, answer, len(questions()))
	for _, line := range without(messages, foretold) {
		t.Errorf("only kubectl was told:\n%s", line)
	}
	for _, line := range without(foretold, messages) {
		t.Errorf("only the HTTP API told:\n%s", line)
	}

	status, answer = ask(harness.Question{Path: "/v1/default?namespace=" + s.name, Manifests: s.manifest(job("filled")), Token: token, Accept: "application/yaml"})
	if status != http.StatusOK || !strings.Contains(answer, `# curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "`+s.name+`"`) {
		t.Fatalf("it answers %d %s", status, answer)
	}
	var filled batchv1.Job
	s.ok(yaml.Unmarshal([]byte(answer), &filled))
	s.expectSuccess(s.create(job("filled")))
	stored := s.getJob("filled")
	if got, want := filled.Spec.TTLSecondsAfterFinished, stored.Spec.TTLSecondsAfterFinished; got == nil || want == nil || *got != *want {
		t.Errorf("it fills in %v, admission %v", got, want)
	}
	if got, want := filled.Annotations[wellknown.AnnotationTTLSource], stored.Annotations[wellknown.AnnotationTTLSource]; got != want {
		t.Errorf("its source is %q, admission's %q", got, want)
	}
	// What it answers can be applied, and comes to the same.
	s.expectStderr(s.kubectlInput(strings.ReplaceAll(answer, "name: filled", "name: applied"), "apply", "-f", "-"),
		warned(`ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "`+s.name+`"`))
	if got := s.getJob("applied").Annotations[wellknown.AnnotationTTLSource]; got != "namespace/"+s.name {
		t.Errorf("applied, its source is %q", got)
	}
}

// mayAsk lets a ServiceAccount of the space use the HTTP API.
func (s *space) mayAsk(account string) {
	s.Helper()
	roles := suite.cluster.Client.RbacV1()
	_, err := roles.ClusterRoles().Create(s.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-api"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/v1/default", "/v1/validate"}, Verbs: []string{"post"}}},
	}, metav1.CreateOptions{})
	s.ok(err)
	_, err = roles.ClusterRoleBindings().Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-api"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.name + "-api"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: s.name}},
	}, metav1.CreateOptions{})
	s.ok(err)
}
