package coverage

import (
	"net/url"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Name of both configurations that the keeper keeps.
const Name = "curfew-kinds"

// maxTimeout is the longest that a request waits for Curfew, in seconds.
const maxTimeout = 5

// variant is the difference between the two configurations.
type variant struct {
	kind string
	// path of the static webhook whose address is copied.
	path         string
	failure      admissionv1.FailurePolicyType
	reinvocation *admissionv1.ReinvocationPolicyType
	entries      func(*plan) []entry
}

// mutating never fails a request.
var mutating = variant{kind: "MutatingWebhookConfiguration", path: "/mutate", failure: admissionv1.Ignore,
	reinvocation: new(admissionv1.IfNeededReinvocationPolicy), entries: func(p *plan) []entry { return p.mutating }}

func validating(failure admissionv1.FailurePolicyType) variant {
	return variant{kind: "ValidatingWebhookConfiguration", path: "/validate", failure: failure, entries: func(p *plan) []entry { return p.validating }}
}

// Configurations are what a keeper writes beside the static configurations; nil where nothing has
// to be sent.
func Configurations(in *Input, static *admissionv1.MutatingWebhookConfiguration, staticValidating *admissionv1.ValidatingWebhookConfiguration,
	failure admissionv1.FailurePolicyType) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration, error) {
	plan := newPlan(in)
	typed, err := convert[webhooks](staticValidating)
	if err != nil {
		return nil, nil, err
	}
	mutates, validates := mutating.render(plan, static), validating(failure).render(plan, typed)
	if validates == nil {
		return mutates, nil, nil
	}
	out, err := convert[admissionv1.ValidatingWebhookConfiguration](validates)
	return mutates, out, err
}

// render makes the configuration; nil if there is nothing to send, or nowhere to send it. It sets
// every field that the API server would default, so that the stored configuration equals the wanted
// one.
func (v variant) render(of *plan, static *webhooks) *webhooks {
	entries := v.entries(of)
	client, timeout := v.target(static)
	if client == nil || len(entries) == 0 {
		return nil
	}
	version := admissionv1.SchemeGroupVersion.String()
	out := &webhooks{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: v.kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name,
			Labels: map[string]string{
				"app.kubernetes.io/name": "curfew", "app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/managed-by": "curfew",
			},
			Annotations:     injections(static.Annotations),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: v.kind, Name: static.Name, UID: static.UID}},
		},
	}
	for _, e := range entries {
		out.Webhooks = append(out.Webhooks, admissionv1.MutatingWebhook{
			Name: e.name, ClientConfig: *client.DeepCopy(), Rules: e.rules,
			FailurePolicy: new(v.failure), MatchPolicy: new(admissionv1.Equivalent),
			NamespaceSelector: e.namespaces.DeepCopy(), ObjectSelector: e.objects.DeepCopy(),
			SideEffects: new(admissionv1.SideEffectClassNone), TimeoutSeconds: new(timeout),
			AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: v.reinvocation, MatchConditions: e.conditions,
		})
	}
	return out
}

// target finds the address of the webhook in a static configuration; nil where there is none.
func (v variant) target(static *webhooks) (*admissionv1.WebhookClientConfig, int32) {
	for i := range static.Webhooks {
		webhook := &static.Webhooks[i]
		if pathOf(&webhook.ClientConfig) != v.path {
			continue
		}
		client, timeout := webhook.ClientConfig.DeepCopy(), int32(maxTimeout)
		if webhook.TimeoutSeconds != nil {
			timeout = min(timeout, *webhook.TimeoutSeconds)
		}
		if client.Service != nil && client.Service.Port == nil {
			client.Service.Port = new(int32(443))
		}
		return client, timeout
	}
	return nil, 0
}

func pathOf(client *admissionv1.WebhookClientConfig) string {
	switch {
	case client.Service != nil && client.Service.Path != nil:
		return *client.Service.Path
	case client.URL != nil:
		if parsed, err := url.Parse(*client.URL); err == nil {
			return parsed.Path
		}
	}
	return ""
}

func asUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: content}, err
}

func read[T any](object *unstructured.Unstructured) (*T, error) {
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out)
}

func convert[T any](object any) (*T, error) {
	content, err := asUnstructured(object)
	if err != nil {
		return nil, err
	}
	return read[T](content)
}
