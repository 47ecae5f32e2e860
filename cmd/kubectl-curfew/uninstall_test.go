package main

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func init() {
	for group, kinds := range map[schema.GroupVersion][]string{
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {"ClusterRoleBinding", "RoleBinding", "Role"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {"FlowSchema"},
		{Group: "policy", Version: "v1"}:                       {"PodDisruptionBudget"},
		{Version: "v1"}:                                        {"ServiceAccount", "Service", "ResourceQuota"},
		{Group: "cert-manager.io", Version: "v1"}:              {"Certificate", "Issuer"},
		{Group: "networking.k8s.io", Version: "v1"}:            {"NetworkPolicy"},
		{Group: "monitoring.coreos.com", Version: "v1"}:        {"PrometheusRule", "PodMonitor", "ServiceMonitor"},
	} {
		for _, kind := range kinds {
			unserved = append(unserved, group.WithKind(kind))
		}
	}
}
