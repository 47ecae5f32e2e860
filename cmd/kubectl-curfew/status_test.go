package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/wellknown"
)

// installation is all that kubectl curfew status looks at. Tests change it.
type installation struct {
	definitions []*apiextensionsv1.CustomResourceDefinition
	// configurations of admission, and the Secret with their serving certificate.
	configurations []*admissionv1.MutatingWebhookConfiguration
	serving        []byte
	// statuses are the binding of the policy on statuses; without any there is no policy either.
	statuses  []admissionv1.ValidationAction
	webhook   int32 // ready replicas of the Deployment curfew-webhook, which runs with args
	args      []string
	endpoints []bool // those that are ready
	report    settings.Report
	settings  map[string]string
	lease     map[string]any
	accounts  []string // ServiceAccounts of kube-controller-manager
	// reached is whether the API server calls the webhooks.
	reached bool
	// refused names a webhook that the API server cannot call: it refuses requests. Where the webhook is
	// reached, it refuses the second one.
	refused string
	// absent: Curfew is not installed.
	absent bool
}

// issued is a certificate from half a year ago, and its CA, which is itself.
func issued(t *testing.T, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "curfew"}, NotBefore: noon.AddDate(0, -6, 0), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// healthy is an installation without a fault.
func healthy(t *testing.T) *installation {
	t.Helper()
	inst := &installation{
		serving: issued(t, noon.AddDate(0, 0, 60)), webhook: 2, endpoints: []bool{true, true}, reached: true,
		lease: map[string]any{}, accounts: []string{"namespace-controller", "ttl-after-finished-controller"},
		statuses: []admissionv1.ValidationAction{admissionv1.Deny},
		settings: map[string]string{settings.Version: console.Version, settings.ReportedAt: "2026-12-24T11:59:00Z"},
		report:   settings.Report{Tracked: 1200, LabelKinds: 2, Unlabelled: settings.ListOf(make([]string, 58)), Coverage: map[string]string{"MutatingWebhookConfiguration": settings.NoWebhooks}},
	}
	var err error
	if inst.definitions, err = crd.All(); err != nil {
		t.Fatal(err)
	}
	for _, definition := range inst.definitions {
		definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	}
	for _, file := range []string{"mutating", "validating"} {
		text, err := os.ReadFile(filepath.Join("../../manifests/webhook", file+".yaml"))
		must(t, err)
		configuration := &admissionv1.MutatingWebhookConfiguration{}
		must(t, yaml.Unmarshal(text, configuration))
		inst.configurations = append(inst.configurations, configuration)
	}
	kinds := inst.configurations[1].DeepCopy()
	kinds.Name, kinds.Webhooks = "curfew-kinds", kinds.Webhooks[:1]
	inst.configurations = append(inst.configurations, kinds)
	inst.report.Coverage["ValidatingWebhookConfiguration"] = settings.Fingerprint(kinds.Webhooks)
	for _, configuration := range inst.configurations {
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.CABundle = inst.serving
		}
	}
	return inst
}

// cluster is that of testdata with the installation.
func (inst *installation) cluster(t *testing.T) *fakeCluster {
	t.Helper()
	if inst.absent {
		return uninstalled(t, false)
	}
	report, err := json.Marshal(inst.report)
	must(t, err)
	var added []runtime.Object
	for _, object := range objects(t) {
		obj, _ := object.(*unstructured.Unstructured)
		switch {
		case obj.GetName() == settings.Name:
			data, _ := obj.Object["data"].(map[string]any)
			data[settings.ReportKey] = string(report)
			for key, value := range inst.settings {
				data[key] = value
			}
		case obj.GetKind() == "Lease":
			spec, _ := obj.Object["spec"].(map[string]any)
			for key, value := range inst.lease {
				spec[key] = value
			}
		case obj.GetKind() == "Deployment" && obj.GetName() == "curfew-controller":
			obj.Object["status"] = map[string]any{"readyReplicas": int64(1)}
		}
		added = append(added, obj)
	}
	add := func(version, kind, namespace, name string, value any) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
		must(t, err)
		object := &unstructured.Unstructured{Object: content}
		object.SetAPIVersion(version)
		object.SetKind(kind)
		object.SetNamespace(namespace)
		object.SetName(name)
		added = append(added, object)
	}
	for _, definition := range inst.definitions {
		add(apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition", "", definition.Name, definition)
	}
	for _, configuration := range inst.configurations {
		add(admissionv1.SchemeGroupVersion.String(), configuration.Kind, "", configuration.Name, configuration)
	}
	if inst.statuses != nil {
		add(admissionv1.SchemeGroupVersion.String(), "ValidatingAdmissionPolicy", "", "curfew-status", &admissionv1.ValidatingAdmissionPolicy{})
	}
	if len(inst.statuses) > 0 {
		add(admissionv1.SchemeGroupVersion.String(), "ValidatingAdmissionPolicyBinding", "", "curfew-status",
			&admissionv1.ValidatingAdmissionPolicyBinding{Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: inst.statuses}})
	}
	add("v1", "Secret", "curfew-system", "curfew-webhook-tls", &corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: inst.serving}})
	add("apps/v1", "Deployment", "curfew-system", "curfew-webhook", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "curfew", Args: inst.args}}}}}, Status: appsv1.DeploymentStatus{ReadyReplicas: inst.webhook}})
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "curfew-webhook", wellknown.LabelTTL: "1h"}},
		Ports: []discoveryv1.EndpointPort{{Name: new("api"), Port: new(int32(8443))}, {Name: new("https"), Port: new(int32(9443))}}}
	for _, ready := range inst.endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	add(discoveryv1.SchemeGroupVersion.String(), "EndpointSlice", "curfew-system", "curfew-webhook-1", slice)
	for _, name := range inst.accounts {
		add("v1", "ServiceAccount", "kube-system", name, &corev1.ServiceAccount{})
	}
	out := newFakeCluster(t, added)
	out.objects.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, _ := action.(clienttesting.CreateActionImpl)
		object, _ := create.GetObject().(*unstructured.Unstructured)
		switch {
		case len(create.CreateOptions.DryRun) == 0:
			return true, nil, errors.New("not a dry run")
		case inst.refused != "" && (!inst.reached || object.GetAnnotations()[wellknown.AnnotationDefaultTTL] == "soon"):
			return true, nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: context deadline exceeded", inst.refused))
		case !inst.reached:
		case object.GetAnnotations()[wellknown.AnnotationDefaultTTL] == "soon":
			return true, nil, forbidden("create", "namespaces: metadata.annotations["+wellknown.AnnotationDefaultTTL+"]")
		default:
			object.SetLabels(map[string]string{wellknown.LabelInUse: ""})
		}
		return true, object, nil
	})
	return out
}

// failClosed has an outage refuse objects outside these namespaces.
func (inst *installation) failClosed(protect ...string) {
	for _, configuration := range inst.configurations {
		for i := range configuration.Webhooks {
			webhook := &configuration.Webhooks[i]
			if configuration.Kind != "ValidatingWebhookConfiguration" || configuration.Name != "curfew" {
				continue
			}
			webhook.FailurePolicy = new(admissionv1.Fail)
			if len(protect) > 0 {
				webhook.MatchConditions = append(webhook.MatchConditions, admissionv1.MatchCondition{Name: "not-protected", Expression: "!(" + judging.ProtectedRequest(protect) + ")"})
			}
		}
	}
}

// rows are the states and messages that status prints, by check.
func rows(stdout string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(stdout) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			state, message, _ := strings.Cut(strings.TrimSpace(rest), " ")
			out[name] = state + " " + strings.TrimSpace(message)
		}
	}
	return out
}

// TestStatus: each fault is found by the check that it concerns, and decides the exit status. The
// others are as in a healthy installation.
func TestStatus(t *testing.T) {
	tenant := []string{"get validatingadmissionpolicies", "get validatingadmissionpolicybindings", "get configmaps", "get leases", "get deployments", "get secrets", "get serviceaccounts", "get customresourcedefinitions",
		"get mutatingwebhookconfigurations", "get validatingwebhookconfigurations", "list endpointslices", "create namespaces", "list lifecyclepolicies", "list kindprofiles"}
	_, usual, _, _ := executeIn(t, healthy(t).cluster(t), scene{}, "status")
	for name, test := range map[string]struct {
		change              func(inst *installation)
		notMine, notAllowed []string
		code                int
		want                map[string]string // rows that differ from a healthy installation
		note                string
	}{
		"healthy": {},
		"killed": {change: func(i *installation) { i.lease["renewTime"] = "2026-12-24T11:59:25.000000Z" }, code: 1, want: map[string]string{
			"controller":  "failed no replica of Curfew's controller leads: curfew-controller-0 last renewed its Lease 35s ago; ready replicas: 1 of 1",
			"deletions":   "unknown before the controller stopped: 1200 objects wait",
			"permissions": "unknown before the controller stopped: ", "cleanup": "unknown before the controller stopped: no policy is stalled",
		}, note: "Curfew deletes and stops nothing until one does"},
		"no webhook": {change: func(inst *installation) {
			inst.reached, inst.webhook, inst.endpoints = false, 0, []bool{false}
		}, code: 1, want: map[string]string{"webhook": "failed no replica is ready: objects are created without defaults and checks"}},
		"a webhook behind a firewall": {change: func(i *installation) { i.reached = false }, code: 1, want: map[string]string{
			"webhook": "failed the API server does not reach it: objects are created without defaults and checks. 2 endpoints are ready: a firewall or NetworkPolicy may block port 9443 "}},
		"… that refuses requests": {change: func(i *installation) { i.reached, i.refused = false, "namespaces.curfew.dev" }, code: 1, want: map[string]string{
			"webhook":     `failed the API server refuses requests because it cannot call it: Internal error occurred: failed calling webhook "namespaces.curfew.dev": context deadline exceeded. 2 endpoints are ready: a firewall`,
			"certificate": "ok the webhook's CA"}},
		"… to one of two replicas": {change: func(i *installation) { i.refused = "namespaces.curfew.dev" }, code: 1, want: map[string]string{
			"webhook": "failed the API server refuses requests because it cannot call it: "}},
		"another's webhook refuses requests": {change: func(i *installation) { i.reached, i.refused = false, "curfew.dev.example.com" }, want: map[string]string{
			"webhook": "ok 2 endpoints are ready; not tried"},
			note: `failed calling webhook "curfew.dev.example.com": context deadline exceeded: whether the API server calls the webhook was not tried`},
		"foreign requirements": {change: func(inst *installation) {
			inst.report.Foreign = settings.ListOf([]string{"MutatingWebhookConfiguration curfew: !control-plane"})
		}, want: map[string]string{
			"coverage": "warning others added requirements to namespaceSelectors, which can exempt namespaces: MutatingWebhookConfiguration curfew: !control-plane"}},
		"one replica of the webhook": {change: func(i *installation) { i.webhook = 1 }, want: map[string]string{"webhook": "warning the API server calls it; ready replicas: 1 of 2"}},
		"not tried":                  {notMine: []string{"create namespaces"}, want: map[string]string{"webhook": "ok 2 endpoints are ready; not tried, which takes the verb create on namespaces; ready replicas: 2 of 2"}},
		"not tried, and not ready": {change: func(i *installation) { i.endpoints = []bool{false} }, notMine: []string{"create namespaces"}, code: 1, want: map[string]string{
			"webhook": "failed no replica is ready"}},
		"no configuration": {change: func(i *installation) { i.configurations = i.configurations[1:] }, code: 1, want: map[string]string{
			"webhook": "failed there is no MutatingWebhookConfiguration curfew: admission does nothing", "coverage": "ok 9 webhooks"}},
		"an expired certificate": {change: func(i *installation) { i.serving = issued(t, noon.Add(-time.Hour)) }, code: 1, want: map[string]string{
			"certificate": "failed the webhook's CA expired 2026-12-24 12:00:00 CET: the API server does not call the webhook"}},
		"a certificate that is not renewed": {change: func(inst *installation) {
			inst.serving = issued(t, noon.AddDate(0, 0, 7))
			for _, configuration := range inst.configurations {
				for i := range configuration.Webhooks {
					configuration.Webhooks[i].ClientConfig.CABundle = inst.serving
				}
			}
		}, want: map[string]string{"certificate": "warning the webhook's CA is valid until 2026-12-31 13:00:00 CET, and should have been renewed by now"}},
		"a foreign certificate": {change: func(i *installation) { i.serving = issued(t, noon.AddDate(0, 0, 60)) }, code: 1, want: map[string]string{
			"certificate": "failed the API server does not trust the webhook's CA: x509: "}},
		"no CA bundle": {change: func(i *installation) { i.configurations[0].Webhooks[0].ClientConfig.CABundle = nil }, code: 1, want: map[string]string{
			"certificate": "failed no valid CA: 1 of 15 webhooks, which the API server does not call"}},
		"an expired CA": {change: func(inst *installation) {
			inst.configurations[0].Webhooks[0].ClientConfig.CABundle = issued(t, noon.Add(-time.Hour))
		}, code: 1, want: map[string]string{
			"certificate": "failed no valid CA: 1 of 15 webhooks"}},
		"the Secret may not be read": {notMine: []string{"get secrets"}, want: map[string]string{"certificate": "ok the API server accepts it; you may not get the Secret, which shows until when"}},
		"anyone writes statuses": {change: func(i *installation) { i.statuses = nil }, want: map[string]string{
			"statuses": "warning there is no ValidatingAdmissionPolicy curfew-status: anyone with permission for the statuses of Curfew's kinds can falsify them"}},
		"… without a binding": {change: func(i *installation) { i.statuses = []admissionv1.ValidationAction{} }, want: map[string]string{
			"statuses": "warning there is no ValidatingAdmissionPolicyBinding curfew-status"}},
		"… which is audited": {change: func(i *installation) { i.statuses = []admissionv1.ValidationAction{admissionv1.Audit} }, want: map[string]string{
			"statuses": "warning ValidatingAdmissionPolicyBinding curfew-status does not deny"}},
		"… which is not read": {notMine: []string{"get validatingadmissionpolicies"}, want: map[string]string{"statuses": "unknown not read"},
			note: "you may not get validatingadmissionpolicies/curfew-status: who may write the statuses of Curfew's kinds is not known"},
		"other coverage": {change: func(i *installation) { i.configurations[2].Webhooks[0].Rules = nil }, code: 1, want: map[string]string{
			"coverage": "failed ValidatingWebhookConfiguration curfew-kinds is not what the controller wrote last: requests may not be reviewed"}},
		"no coverage": {change: func(i *installation) { i.configurations = i.configurations[:2] }, code: 1, want: map[string]string{
			"coverage": "failed ValidatingWebhookConfiguration curfew-kinds is not what the controller wrote last"}},
		"an outage refuses nothing": {change: func(i *installation) { i.failClosed("kube-system", "kube-public", "kube-node-lease") }},
		"an outage refuses nothing, Curfew's own": {change: func(inst *installation) {
			inst.settings["protect"] = "kube-system,openshift-*,kube-public,curfew-system"
			inst.args = []string{"webhook", "--protect=curfew-system,kube-public,openshift-*,kube-system"}
			inst.failClosed("openshift-*", "kube-public", "curfew-system", "kube-system")
		}},
		"an outage refuses requests in kube-system": {change: func(i *installation) { i.failClosed() }, want: map[string]string{
			"coverage": "warning an outage refuses requests in namespaces of --protect: 8 webhooks of ValidatingWebhookConfiguration curfew without match condition not-protected: " +
				`!(request.?namespace.orValue("") in ["kube-node-lease", "kube-public", "kube-system"])`}},
		"… also by a pattern": {change: func(inst *installation) {
			inst.settings["protect"], inst.args = "kube-system,openshift-*", []string{"webhook", "--protect=openshift-*", "--protect", "kube-system"}
			inst.failClosed("kube-system")
		}, want: map[string]string{"coverage": "warning an outage refuses requests in namespaces of --protect: 8 webhooks of ValidatingWebhookConfiguration curfew without match condition not-protected: " +
			`!(request.?namespace.orValue("") in ["kube-system"] || request.?namespace.orValue("").matches("^(openshift-.*)$"))`}},
		"another --protect": {change: func(i *installation) { i.settings["protect"] = "kube-system,openshift-*" }, want: map[string]string{
			"coverage": "warning the webhook runs with --protect=kube-node-lease,kube-public,kube-system, the controller with --protect=kube-system,openshift-*"}},
		"coverage fails":    {change: func(i *installation) { i.report.CoverageError = "no" }, code: 1, want: map[string]string{"coverage": "failed no"}},
		"another version":   {change: func(i *installation) { i.settings[settings.Version] = "v9" }, want: map[string]string{"version": "warning kubectl-curfew dev, controller v9"}},
		"another schema":    {change: func(i *installation) { i.definitions[0].Spec.Versions[0].Schema = nil }, want: map[string]string{"kinds": "warning other schemas than in kubectl-curfew dev: c"}},
		"a kind is missing": {change: func(i *installation) { i.definitions = i.definitions[1:] }, code: 1, want: map[string]string{"kinds": "failed missing: c"}},
		"a trigger is off": {change: func(i *installation) { i.settings["enable"] = "ttl,label,deadline" }, want: map[string]string{
			"triggers": "ok on: ttl, label, deadline; off: cleanup, tally", "cleanup": "ok off"}},
		"dry-run": {change: func(i *installation) { i.settings["dry-run"] = "true" }, want: map[string]string{
			"triggers": "warning on: ttl, label, cleanup, deadline, tally; the controller only reports due objects (--dry-run)"}},
		"a paused source": {change: func(inst *installation) {
			inst.report.Paused = settings.ListOf([]string{`deletions are paused: Job of source "namespace/ci" in namespace "ci" (Refused)`})
		}, want: map[string]string{
			"deletions": `warning deletions are paused: Job of source "namespace/ci" in namespace "ci" (Refused); 1200 objects wait for their expiry`}},
		"all is paused": {change: func(inst *installation) {
			inst.report.Paused, inst.report.AllPaused = settings.ListOf([]string{"deletions are paused: everything (Unreachable)"}), true
		}, code: 1, want: map[string]string{"deletions": "failed deletions are paused: everything (Unreachable)"}},
		"a backlog": {change: func(inst *installation) {
			inst.report.Overdue, inst.report.OldestDue = 3, new(noon.Add(-10*time.Minute))
		}, want: map[string]string{"deletions": "warning 1200 objects wait for their expiry; 3 are overdue, the oldest since 2026-12-24 12:50:00 CET, as of"}},
		"a moment overdue": {change: func(inst *installation) {
			inst.report.Overdue, inst.report.OldestDue = 3, new(noon.Add(-time.Minute))
		}, want: map[string]string{"deletions": "ok 1200 objects wait for their expiry; 3 are overdue"}},
		"a kind that is not all known": {change: func(inst *installation) {
			inst.report.Incomplete, inst.report.IncompleteKinds = []settings.Incomplete{{Group: "batch", Kind: "Job", Since: noon.Add(-10 * time.Minute)}}, 1
		}, want: map[string]string{
			"deletions": "warning not all objects are known of kind Job.batch (since 2026-12-24 12:50:00 CET); 1200 objects wait for their expiry, as of"}},
		"a missing permission": {change: func(inst *installation) {
			inst.report.Skipped = settings.ListOf([]string{"JobSet.jobset.x-k8s.io (permission)"})
		}, want: map[string]string{"permissions": "warning kinds with a profile are skipped: JobSet.jobset.x-k8s.io (permission), TTL labels have an effect on 2 kinds"}},
		"labels without effect": {notAllowed: []string{"delete secrets", "delete deployments", "delete persistentvolumeclaims", "delete jobs", "delete endpointslices"}, want: map[string]string{
			"permissions": "warning TTL labels have an effect on 2 kinds, and not on 58 that the controller may not delete, although there are labeled objects of persistentvolumeclaims, secrets, deployments.apps, as of"}},
		"… perhaps":                {notMine: []string{"list secrets", "list persistentvolumeclaims"}, note: "note: whether there are labeled objects of 2 kinds more is not known: you may not list them, or not ask what the controller may do"},
		"… which may not be asked": {notMine: []string{"create subjectaccessreviews"}, notAllowed: []string{"delete secrets"}, note: "note: whether there are labeled objects of 7 kinds more is not known"},
		"stalled policies": {change: func(inst *installation) {
			inst.report.Stalled = settings.ListOf([]string{"cleanuppolicy/ci/nightly (Forbidden)", "clustercleanuppolicy/pods (TooManyMatches)", "clustercleanuppolicy/x (InvalidSchedule)"})
		}, want: map[string]string{"cleanup": "warning 3 stalled: cleanuppolicy/ci/nightly (Forbidden), clustercleanuppolicy/pods (TooManyMatches), clustercleanuppolicy/x (InvalidSchedule). " +
			"Forbidden: create its service account if it does not exist, and grant it what condition PermissionsGranted names; TooManyMatches: look at kubectl curfew preview, then raise its limit or match less; " +
			"InvalidSchedule: condition Ready names the field to correct, as of 2026-12-24 12:59:00 CET"}},
		"in-tree controller off":     {change: func(i *installation) { i.accounts = []string{"namespace-controller"} }, want: map[string]string{"in-tree TTL": "ok off: kube-controller-manager has never run it"}},
		"in-tree controller unknown": {change: func(i *installation) { i.accounts = nil }, want: map[string]string{"in-tree TTL": "unknown on by Kubernetes' default"}},
		"no report": {change: func(i *installation) { i.settings[settings.ReportedAt] = "then" }, want: map[string]string{
			"coverage": "unknown ConfigMap curfew-settings", "deletions": "unknown ConfigMap curfew-settings", "permissions": "unknown ConfigMap curfew-settings",
			"cleanup": "unknown ConfigMap curfew-settings"}},
		"for a tenant": {notMine: tenant, code: 2, want: map[string]string{
			"statuses": "unknown not read", "kinds": "unknown not read", "controller": `unknown you may not get leases/curfew-controller in namespace "curfew-system"`,
			"webhook": "unknown whether the API server reaches it is not known", "certificate": "unknown not read",
			"coverage": "unknown you may not get configmaps/curfew-settings", "version": "unknown kubectl-curfew dev; that of the controller is not known",
			"triggers": "unknown you may not get", "deletions": "unknown you may not get", "permissions": "unknown you may not get", "cleanup": "unknown you may not get", "in-tree TTL": "unknown on by Kubernetes' default",
		}, note: "note: you may not get customresourcedefinitions: it is not known whether Curfew's have the schemas of this version"},
	} {
		t.Run(name, func(t *testing.T) {
			inst := healthy(t)
			if test.change != nil {
				test.change(inst)
			}
			code, stdout, stderr, patched := executeIn(t, inst.cluster(t), scene{notMine: test.notMine, notAllowed: test.notAllowed}, "status")
			expectExit(t, "the command", code, test.code, stdout+stderr)
			expectPart(t, "stderr", stderr, test.note, true)
			expectCount(t, "patches", patched, 0)
			have := rows(stdout)
			for check, row := range rows(usual) {
				want, differs := test.want[check]
				if differs && !strings.HasPrefix(have[check], want) || !differs && have[check] != row {
					t.Errorf("%s: %q, want %q", check, have[check], want)
				}
			}
		})
	}
}
