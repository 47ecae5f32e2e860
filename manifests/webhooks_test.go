package manifests

import (
	"bufio"
	"bytes"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/test/builders"
)

// webhook is an entry of either kind of configuration, as far as both have the same fields.
type webhook struct {
	config, configName, name string
	client                   admissionv1.WebhookClientConfig
	rules                    []admissionv1.RuleWithOperations
	namespaces, objects      *metav1.LabelSelector
	conditions               []admissionv1.MatchCondition
	timeout                  *int32
	failure                  *admissionv1.FailurePolicyType
	sideEffects              *admissionv1.SideEffectClass
}

func webhooks(t *testing.T, objects []runtime.Object) []webhook {
	t.Helper()
	var found []webhook
	for _, c := range only[*admissionv1.MutatingWebhookConfiguration](objects) {
		for _, w := range c.Webhooks {
			if w.ReinvocationPolicy == nil || *w.ReinvocationPolicy != admissionv1.IfNeededReinvocationPolicy {
				t.Errorf("%s: reinvocationPolicy is not IfNeeded", w.Name)
			}
			found = append(found, webhook{"mutating", c.Name, w.Name, w.ClientConfig, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions, w.TimeoutSeconds, w.FailurePolicy, w.SideEffects})
		}
	}
	for _, c := range only[*admissionv1.ValidatingWebhookConfiguration](objects) {
		for _, w := range c.Webhooks {
			found = append(found, webhook{"validating", c.Name, w.Name, w.ClientConfig, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions, w.TimeoutSeconds, w.FailurePolicy, w.SideEffects})
		}
	}
	if len(found) == 0 {
		t.Fatal("no webhooks")
	}
	return found
}

func newBuffered(data []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(data)) }

var must = builders.Must
