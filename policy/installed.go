package policy

import "k8s.io/apimachinery/pkg/runtime/schema"

// installed are the cluster-scoped objects of Curfew's manifests, components included, by kind. A
// name that is taken cannot be given to another object. A test in package manifests compares them.
var installed = map[schema.GroupKind][]string{
	{Group: rbacGroup, Kind: "ClusterRole"}: {
		"curfew-cleanup", "curfew-controller", "curfew-controller-anything", "curfew-controller-builtin-kinds", "curfew-controller-cleanup",
		"curfew-controller-core", "curfew-controller-deadlines", "curfew-controller-default-labels", "curfew-controller-deletion",
		"curfew-controller-kinds", "curfew-controller-labels", "curfew-controller-pauses", "curfew-controller-runtimes", "curfew-controller-tally", "curfew-controller-webhooks",
		"curfew-edit-tallies", "curfew-impersonate", "curfew-pause", "curfew-status", "curfew-view", "curfew-view-pauses", "curfew-webhook", "curfew-webhook-certificates",
		"curfew-webhook-http-api",
	},
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}: {
		"curfew-cleanup", "curfew-controller", "curfew-controller-kinds", "curfew-controller-pauses", "curfew-webhook", "curfew-webhook-certificates", "curfew-webhook-http-api",
	},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:          {"curfew-cleanup", "curfew-controller", "curfew-leader-election", "curfew-pauses"},
	{Group: registrationGroup, Kind: "MutatingWebhookConfiguration"}:     {"curfew", "curfew-kinds"},
	{Group: registrationGroup, Kind: "ValidatingWebhookConfiguration"}:   {"curfew", "curfew-kinds"},
	{Group: registrationGroup, Kind: "ValidatingAdmissionPolicy"}:        {"curfew-controller", "curfew-status", "curfew-webhook"},
	{Group: registrationGroup, Kind: "ValidatingAdmissionPolicyBinding"}: {"curfew-controller", "curfew-status", "curfew-webhook"},
}

const (
	rbacGroup         = "rbac.authorization.k8s.io"
	registrationGroup = "admissionregistration.k8s.io"
)

// Installed reports whether a cluster-scoped object of Curfew's manifests has the kind and name.
func Installed(kind schema.GroupKind, name string) bool {
	return (&Facts{Profile: &Profile{Kind: kind.WithVersion("")}, Name: name}).CurfewsOwn()
}
