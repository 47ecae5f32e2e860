package policy

import "k8s.io/apimachinery/pkg/runtime/schema"

// installed are the objects of Curfew's manifests outside of its own namespace, components and
// overlays included, by kind: cluster-scoped ones, and what the overlays put into the namespaces of
// --only-namespaces. A name that is taken cannot be given to another object. The author of a Role
// may take one of these names; no rule deletes Roles, so that only a TTL label of theirs has no
// effect then. A test in package manifests compares the names.
var installed = map[schema.GroupKind][]string{
	{Group: rbacGroup, Kind: "ClusterRole"}: {
		"curfew-cleanup", "curfew-controller", "curfew-controller-anything", "curfew-controller-builtin-kinds", "curfew-controller-cleanup",
		"curfew-controller-core", "curfew-controller-deadlines", "curfew-controller-default-labels", "curfew-controller-deletion",
		"curfew-controller-kinds", "curfew-controller-labels", "curfew-controller-pauses", "curfew-controller-runtimes", "curfew-controller-tally", "curfew-controller-webhooks",
		"curfew-edit-tallies", "curfew-impersonate", "curfew-pause", "curfew-status", "curfew-tenant-view", "curfew-view", "curfew-view-pauses", "curfew-webhook", "curfew-webhook-certificates",
		"curfew-webhook-http-api",
	},
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}: {
		"curfew-cleanup", "curfew-controller", "curfew-controller-kinds", "curfew-controller-pauses", "curfew-tenant-view", "curfew-webhook", "curfew-webhook-certificates", "curfew-webhook-http-api",
	},
	{Group: rbacGroup, Kind: "Role"}:                                     {"curfew-controller", "curfew-webhook"},
	{Group: rbacGroup, Kind: "RoleBinding"}:                              {"curfew-controller", "curfew-webhook"},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:          {"curfew-cleanup", "curfew-controller", "curfew-leader-election", "curfew-pauses"},
	{Group: registrationGroup, Kind: "MutatingWebhookConfiguration"}:     {"curfew", "curfew-kinds"},
	{Group: registrationGroup, Kind: "ValidatingWebhookConfiguration"}:   {"curfew", "curfew-kinds"},
	{Group: registrationGroup, Kind: "ValidatingAdmissionPolicy"}:        {"curfew-ca-bundle", "curfew-configurations", "curfew-controller", "curfew-status", "curfew-webhook"},
	{Group: registrationGroup, Kind: "ValidatingAdmissionPolicyBinding"}: {"curfew-ca-bundle", "curfew-configurations", "curfew-controller", "curfew-status", "curfew-webhook"},
}

const (
	rbacGroup         = "rbac.authorization.k8s.io"
	registrationGroup = "admissionregistration.k8s.io"
)

// Installed reports whether an object of Curfew's manifests outside of its own namespace has the
// kind and name.
func Installed(kind schema.GroupKind, name string) bool {
	return (&Facts{Profile: &Profile{Kind: kind.WithVersion("")}, Name: name}).CurfewsOwn()
}
