package serving

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/test/harness"
)

// enforced is the requirement that the enforcer adds.
var enforced = map[string]any{"key": "control-plane", "operator": "NotIn", "values": []any{"true"}}

var enforcedResources = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

// Another controller adds a requirement to the namespaceSelector of every webhook, as the admissions
// enforcer of AKS would do without its label. Curfew's controller does not fight it, and still
// writes what follows from policies.
func TestNoFightWithAnEnforcer(t *testing.T) {
	f := &fixture{T: t}
	webhook, err := suite.cluster.StartWebhook(t.Context(), harness.CurfewOptions{Name: "webhook-enforced"})
	f.ok(err)
	t.Cleanup(func() { f.stop(webhook) })
	f.ok(suite.cluster.WaitForWebhook(t.Context()))
	proxy, err := harness.NewProxy(suite.cluster.Config)
	f.ok(err)
	t.Cleanup(proxy.Close)
	var writes atomic.Int64
	proxy.Handle(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "webhookconfigurations") {
			writes.Add(1)
		}
		return false
	})
	controller, err := suite.cluster.StartController(t.Context(), harness.CurfewOptions{Name: "controller-enforced", Proxy: proxy})
	f.ok(err)
	t.Cleanup(func() { f.stop(controller) })
	f.applyPolicy("first")
	f.enforce()
	webhooks := f.awaitAccepted("the enforcer's requirements to be accepted", 0)
	before := writes.Load()
	f.ok(suite.cluster.Install(t.Context(), webhook.WebhookPort)) // takes the requirements out of the static ones
	f.awaitAccepted("them to be accepted after the manifests were applied again", 0)
	if got := writes.Load(); got != before {
		t.Errorf("the controller wrote %d times while the enforcer was at work, want 0", got-before)
	}

	// The next write shows that nothing else was left to write.
	f.applyPolicy("second")
	f.awaitAccepted("the webhook for the second policy to be accepted", webhooks+1)
	if got := writes.Load(); got != before+2 {
		t.Errorf("the controller wrote %d times because of the policy, want once for each configuration", got-before)
	}
}

// applyPolicy has the controller add a webhook to each configuration.
func (f *fixture) applyPolicy(name string) {
	f.Helper()
	f.kubectl(fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: %s}, spec: {match: {kinds: [{group: '', kind: ConfigMap}], "+
		"namespaceSelector: {matchLabels: {enforced: %[1]s}}}, defaults: {ttlLabel: {value: 7d}}}}", name), "apply", "-f", "-")
	f.Cleanup(func() { f.kubectl("", "delete", "lifecyclepolicy", name) })
}

// enforce adds the requirement to Curfew's configurations whenever a webhook lacks it.
func (f *fixture) enforce() {
	f.Helper()
	all, err := dynamic.NewForConfig(suite.cluster.Config)
	f.ok(err)
	ctx, cancel := context.WithCancel(f.Context())
	f.Cleanup(cancel)
	for _, resource := range enforcedResources {
		configurations := all.Resource(admissionv1.SchemeGroupVersion.WithResource(resource))
		events, err := configurations.Watch(ctx, metav1.ListOptions{})
		f.ok(err)
		go func() {
			for event := range events.ResultChan() {
				object, ok := event.Object.(*unstructured.Unstructured)
				if !ok || event.Type == "DELETED" || !strings.HasPrefix(object.GetName(), "curfew") || !enforceIn(object) {
					continue
				}
				// After a conflict another event follows.
				_, _ = configurations.Update(ctx, object, metav1.UpdateOptions{FieldManager: "enforcer"})
			}
		}()
	}
}

// enforceIn adds the requirement where it is missing, and reports whether it did.
func enforceIn(object *unstructured.Unstructured) (added bool) {
	webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	for _, webhook := range webhooks {
		webhook, _ := webhook.(map[string]any)
		all, _, _ := unstructured.NestedSlice(webhook, "namespaceSelector", "matchExpressions")
		has := func(r any) bool { return r.(map[string]any)["key"] == enforced["key"] }
		if !slices.ContainsFunc(all, has) {
			_ = unstructured.SetNestedSlice(webhook, append(all, runtime.DeepCopyJSON(enforced)), "namespaceSelector", "matchExpressions")
			added = true
		}
	}
	_ = unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
	return added
}

// awaitAccepted waits until every webhook has the requirement, and the controller reports that this is
// as it should be. The mutating webhooks of the controller are then as many; 0 means any number. It
// returns their number.
func (f *fixture) awaitAccepted(what string, want int) (have int) {
	f.Helper()
	configurations, err := dynamic.NewForConfig(suite.cluster.Config)
	f.ok(err)
	f.await(what, func(ctx context.Context) (bool, error) {
		published, err := suite.cluster.Client.CoreV1().ConfigMaps(harness.Namespace).Get(ctx, settings.Name, metav1.GetOptions{})
		if err != nil {
			return false, client.IgnoreNotFound(err) // The controller publishes it soon.
		}
		report, _, _, err := settings.ReadReport(published.Data)
		if err != nil || report.Foreign.Count != 4 { // one for each configuration
			return false, err
		}
		for _, resource := range enforcedResources {
			all, err := configurations.Resource(admissionv1.SchemeGroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=curfew"})
			if err != nil || len(all.Items) != 2 || slices.ContainsFunc(all.Items, func(o unstructured.Unstructured) bool { return enforceIn(&o) }) {
				return false, err
			}
			kinds := &admissionv1.MutatingWebhookConfiguration{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all.Items[1].Object, kinds); err != nil || report.Coverage[kinds.Kind] != settings.Fingerprint(kinds.Webhooks) {
				return false, err
			}
			if kinds.Kind == "MutatingWebhookConfiguration" {
				have = len(kinds.Webhooks)
			}
		}
		return want == 0 || have == want, nil
	})
	return have
}
