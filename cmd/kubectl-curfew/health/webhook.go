package health

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// configuration is one of the four webhook configurations of Curfew. A validating one has the
// fields of a mutating one.
type configuration struct {
	kind, name string
	world.Presence
	webhooks []admissionv1.MutatingWebhook
}

// The names of the configurations, of either kind: that of manifests/webhook, and the controller's.
const (
	static   = "curfew"
	coverage = "curfew-kinds"
)

func (r *reader) readConfigurations() {
	for _, of := range []struct{ kind, resource string }{
		{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations"}, {"ValidatingWebhookConfiguration", "validatingwebhookconfigurations"},
	} {
		for _, name := range []string{static, coverage} {
			at := admissionv1.SchemeGroupVersion.WithResource(of.resource)
			read, presence, err := world.Read[admissionv1.MutatingWebhookConfiguration](r.ctx, r.w, at, "", name)
			one := &configuration{kind: of.kind, name: name, Presence: r.presence(presence, err, of.resource+"/"+name, "which requests the API server sends to Curfew")}
			if read != nil {
				one.webhooks = read.Webhooks
			}
			r.configurations = append(r.configurations, one)
		}
	}
}

// webhook checks that the API server calls the webhooks.
func (r *reader) webhook() (State, string) {
	for _, one := range r.configurations {
		if one.name == static && one.Presence == world.Missing {
			return Failed, fmt.Sprintf("there is no %s %s: admission does nothing", one.kind, one.name)
		}
	}
	workload, err := r.w.Workload(r.ctx, "curfew-webhook")
	r.presence(workload.Presence, err, fmt.Sprintf("deployments in namespace %q", r.w.Controller.Namespace), "how many replicas are ready")
	endpoints, known := r.endpoints()
	none := known && endpoints == 0 || workload.Presence == world.Found && workload.Ready == 0
	const without = ": objects are created without defaults and checks"
	switch {
	case r.probe.Tried && !r.probe.Defaults && !r.probe.Validates:
		message := "the API server does not reach it"
		if none {
			message = "no replica is ready"
		}
		return Failed, message + without
	case r.probe.Tried && !r.probe.Defaults:
		return Failed, "the API server does not call it for defaults"
	case r.probe.Tried && !r.probe.Validates:
		return Failed, "the API server does not call it for checks"
	case r.probe.Tried:
		return replicas(&workload, "the API server calls it")
	case none:
		return Failed, "no replica is ready" + without
	case known:
		return replicas(&workload, fmt.Sprintf("%d endpoints are ready; not tried, which takes the verb create on namespaces", endpoints))
	case workload.Presence == world.Found:
		return replicas(&workload, "not tried, which takes the verb create on namespaces")
	}
	return Unknown, "whether the API server reaches it is not known: you may not create namespaces in a dry run, nor get its Deployment and EndpointSlices"
}

var endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")

// endpoints counts the ready endpoints of the Service in front of the webhooks. known is false
// where there is none, or they cannot be read.
func (r *reader) endpoints() (ready int, known bool) {
	for _, one := range r.configurations {
		for i := range one.webhooks {
			service := one.webhooks[i].ClientConfig.Service
			if service == nil {
				continue
			}
			slices, presence, err := world.Items[discoveryv1.EndpointSlice](r.ctx, r.w, endpointSlices, service.Namespace, discoveryv1.LabelServiceName+"="+service.Name)
			r.presence(presence, err, fmt.Sprintf("endpointslices in namespace %q", service.Namespace), "how many endpoints are ready")
			for _, slice := range slices {
				for _, endpoint := range slice.Endpoints {
					if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
						ready += len(endpoint.Addresses)
					}
				}
			}
			return ready, presence == world.Found
		}
	}
	return 0, false
}
