package coverage

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name of both configurations that the keeper keeps.
const Name = "curfew-kinds"

const (
	kindMutating   = "MutatingWebhookConfiguration"
	kindValidating = "ValidatingWebhookConfiguration"
)

// Configurations are what a keeper writes beside the static configurations; nil where nothing has to be sent.
func Configurations(in *Input, mutating *admissionv1.MutatingWebhookConfiguration, validating *admissionv1.ValidatingWebhookConfiguration,
	failure admissionv1.FailurePolicyType) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	of := newPlan(in)
	return mutatingConfiguration(of.mutating, mutating), validatingConfiguration(of.validating, validating, failure)
}

// Every field that the API server would fill in is set: what it stores is what was wanted, and can be compared with it.

func mutatingConfiguration(entries []entry, static *admissionv1.MutatingWebhookConfiguration) *admissionv1.MutatingWebhookConfiguration {
	at := mutatingTarget(static)
	if at == nil || len(entries) == 0 {
		return nil
	}
	out := &admissionv1.MutatingWebhookConfiguration{TypeMeta: typeMeta(kindMutating), ObjectMeta: objectMeta(at)}
	for _, of := range entries {
		out.Webhooks = append(out.Webhooks, admissionv1.MutatingWebhook{
			Name: of.name, ClientConfig: *at.client.DeepCopy(), Rules: of.rules,
			FailurePolicy: new(admissionv1.Ignore), MatchPolicy: new(admissionv1.Equivalent),
			NamespaceSelector: of.namespaces.DeepCopy(), ObjectSelector: of.objects.DeepCopy(),
			SideEffects: new(admissionv1.SideEffectClassNone), TimeoutSeconds: new(at.timeout),
			AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: new(admissionv1.IfNeededReinvocationPolicy),
			MatchConditions: of.conditions,
		})
	}
	return out
}

func validatingConfiguration(entries []entry, static *admissionv1.ValidatingWebhookConfiguration, failure admissionv1.FailurePolicyType) *admissionv1.ValidatingWebhookConfiguration {
	at := validatingTarget(static)
	if at == nil || len(entries) == 0 {
		return nil
	}
	out := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: typeMeta(kindValidating), ObjectMeta: objectMeta(at)}
	for _, of := range entries {
		out.Webhooks = append(out.Webhooks, admissionv1.ValidatingWebhook{
			Name: of.name, ClientConfig: *at.client.DeepCopy(), Rules: of.rules,
			FailurePolicy: new(failure), MatchPolicy: new(admissionv1.Equivalent),
			NamespaceSelector: of.namespaces.DeepCopy(), ObjectSelector: of.objects.DeepCopy(),
			SideEffects: new(admissionv1.SideEffectClassNone), TimeoutSeconds: new(at.timeout),
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: of.conditions,
		})
	}
	return out
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}

func objectMeta(at *target) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: Name,
		Labels: map[string]string{
			"app.kubernetes.io/name": "curfew", "app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/managed-by": "curfew",
		},
		OwnerReferences: []metav1.OwnerReference{at.owner},
	}
}
