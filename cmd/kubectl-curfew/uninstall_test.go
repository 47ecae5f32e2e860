package main

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func init() {
	maps.Copy(clusterGoldens, map[string]golden{
		"uninstall-dry-run":   {args: words("uninstall --dry-run")},
		"uninstall-keep-crds": {args: words("uninstall --keep-crds --dry-run")},
		"uninstall-unasked":   {args: words("uninstall"), code: 2},
		"uninstall-server":    {args: words("uninstall --dry-run=server --keep-crds")},
		"uninstall-dry-what":  {args: words("uninstall --dry-run=yes"), code: 2},
		"uninstall-declined":  {args: words("uninstall"), scene: scene{terminal: true, stdin: "\n"}, code: 1},
		"uninstall-forbidden": {args: words("uninstall --yes"), scene: scene{notMine: []string{"patch pods"}}, code: 2},
		"uninstall-unread":    {args: words("uninstall --dry-run"), scene: scene{notMine: []string{"list clusterroles"}}, code: 2},
	})
	for group, kinds := range map[schema.GroupVersion][]string{
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {"ClusterRoleBinding", "RoleBinding", "Role"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {"FlowSchema"},
		{Group: "policy", Version: "v1"}:                       {"PodDisruptionBudget"},
		{Version: "v1"}:                                        {"ServiceAccount", "Service"},
		{Group: "cert-manager.io", Version: "v1"}:              {"Certificate", "Issuer"},
		{Group: "coordination.k8s.io", Version: "v1"}:          {"Lease"},
		{Group: "monitoring.coreos.com", Version: "v1"}:        {"PrometheusRule", "PodMonitor"},
	} {
		for _, kind := range kinds {
			unserved = append(unserved, group.WithKind(kind))
		}
	}
}
