package coverage

import (
	"net/url"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The paths of the webhooks for objects of any kind.
const (
	pathMutate   = "/mutate"
	pathValidate = "/validate"
)

// maxTimeout bounds how long a request waits where Curfew does not answer.
const maxTimeout = 5

// target is what a static configuration says of where to send.
type target struct {
	client  admissionv1.WebhookClientConfig
	timeout int32
	owner   metav1.OwnerReference
}

// targetOf finds the webhook of a path; nil where there is none.
func targetOf(owner metav1.OwnerReference, path string, clients []admissionv1.WebhookClientConfig, timeouts []*int32) *target {
	for i := range clients {
		if pathOf(&clients[i]) != path {
			continue
		}
		out := &target{client: *clients[i].DeepCopy(), timeout: maxTimeout, owner: owner}
		if timeouts[i] != nil {
			out.timeout = min(out.timeout, *timeouts[i])
		}
		if out.client.Service != nil && out.client.Service.Port == nil {
			out.client.Service.Port = new(int32)
			*out.client.Service.Port = 443
		}
		return out
	}
	return nil
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

func ownerOf(kind string, object *metav1.ObjectMeta) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind, Name: object.Name, UID: object.UID}
}

func mutatingTarget(static *admissionv1.MutatingWebhookConfiguration) *target {
	var clients []admissionv1.WebhookClientConfig
	var timeouts []*int32
	for i := range static.Webhooks {
		clients, timeouts = append(clients, static.Webhooks[i].ClientConfig), append(timeouts, static.Webhooks[i].TimeoutSeconds)
	}
	return targetOf(ownerOf(kindMutating, &static.ObjectMeta), pathMutate, clients, timeouts)
}

func validatingTarget(static *admissionv1.ValidatingWebhookConfiguration) *target {
	var clients []admissionv1.WebhookClientConfig
	var timeouts []*int32
	for i := range static.Webhooks {
		clients, timeouts = append(clients, static.Webhooks[i].ClientConfig), append(timeouts, static.Webhooks[i].TimeoutSeconds)
	}
	return targetOf(ownerOf(kindValidating, &static.ObjectMeta), pathValidate, clients, timeouts)
}
