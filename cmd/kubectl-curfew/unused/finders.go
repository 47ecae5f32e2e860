package unused

import (
	"fmt"
	"slices"
	"strings"
)

// kind is a kind that the command reports on.
type kind struct{ group, name, resource, short string }

// finder finds unused objects of its kinds, as a cleanup policy does.
type finder struct {
	policy, condition string // names of both
	expression        string
	// named: a user has to name its kinds, for example since it asks once for each object.
	named bool
	// reports: no policy deletes its kinds by a lookup.
	reports bool
	kinds   []kind
}

const (
	rbac      = "rbac.authorization.k8s.io"
	admission = "admissionregistration.k8s.io"
)

// finders are all of them.
var finders = []finder{
	{policy: "unused", condition: "unreferenced", expression: "!lookup.referenced", kinds: []kind{
		{"", "ConfigMap", "configmaps", "cm"}, {"", "Secret", "secrets", ""}, {"", "ServiceAccount", "serviceaccounts", "sa"},
		{"networking.k8s.io", "IngressClass", "ingressclasses", ""}, {"node.k8s.io", "RuntimeClass", "runtimeclasses", ""},
		{"scheduling.k8s.io", "PriorityClass", "priorityclasses", "pc"}, {"storage.k8s.io", "StorageClass", "storageclasses", "sc"},
	}},
	{policy: "unmounted-claims", condition: "unreferenced", expression: "!lookup.referenced", kinds: []kind{
		{"", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc"},
	}},
	{policy: "idle-services", condition: "selects-nothing", expression: "!lookup.selects", kinds: []kind{{"", "Service", "services", "svc"}}},
	{policy: "dangling", condition: "dangling", expression: "lookup.dangling", kinds: []kind{
		{"autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"}, {"networking.k8s.io", "Ingress", "ingresses", "ing"},
	}},
	{reports: true, expression: "!lookup.referenced", kinds: []kind{{rbac, "Role", "roles", ""}, {rbac, "ClusterRole", "clusterroles", ""}}},
	{reports: true, expression: "!lookup.selects", kinds: []kind{
		{"networking.k8s.io", "NetworkPolicy", "networkpolicies", "netpol"}, {"policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb"},
	}},
	{reports: true, expression: "lookup.dangling", kinds: []kind{
		{rbac, "RoleBinding", "rolebindings", ""}, {rbac, "ClusterRoleBinding", "clusterrolebindings", ""},
		{admission, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", ""},
		{admission, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", ""},
		{"storage.k8s.io", "VolumeAttachment", "volumeattachments", ""},
	}},
	{reports: true, expression: instances, named: true, kinds: []kind{ // Operators install many that are not used yet.
		{"apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "crd"},
	}},
	{policy: "empty-namespaces", condition: "empty", expression: instances, named: true, kinds: []kind{{"", "Namespace", "namespaces", "ns"}}},
	{policy: "empty-nodes", condition: "empty", expression: instances, named: true, kinds: []kind{{"", "Node", "nodes", "no"}}},
}

// clusterScoped are the kinds whose objects are in no namespace.
var clusterScoped = []string{
	"IngressClass", "RuntimeClass", "PriorityClass", "StorageClass", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration",
	"ValidatingWebhookConfiguration", "VolumeAttachment", "CustomResourceDefinition", "Namespace", "Node",
}

// instances asks once for each object.
const instances = "!lookup.instances"

// kindNames are the kinds of all finders.
func kindNames() (out []string) {
	for i := range finders {
		for _, kind := range finders[i].kinds {
			out = append(out, kind.name)
		}
	}
	return out
}

// findersOf are the finders of the kinds that a user named; by default all that need no name. In
// namespaces, cluster-scoped kinds are left out.
func findersOf(named []string, everywhere bool) (out []finder, left []string, err error) {
	known := map[string]bool{}
	for _, finder := range finders {
		var kinds []kind
		for _, kind := range finder.kinds {
			names := []string{strings.ToLower(kind.name), kind.resource, kind.short}
			chosen := len(named) == 0 && !finder.named
			for _, name := range names {
				known[name] = true
				chosen = chosen || slices.ContainsFunc(named, func(given string) bool { return name != "" && strings.EqualFold(given, name) })
			}
			switch {
			case chosen && !everywhere && slices.Contains(clusterScoped, kind.name):
				left = append(left, kind.name)
			case chosen:
				kinds = append(kinds, kind)
			}
		}
		if finder.kinds = kinds; len(kinds) > 0 {
			out = append(out, finder)
		}
	}
	for _, name := range named {
		if name == "" || !known[strings.ToLower(name)] {
			return nil, nil, fmt.Errorf("--kind %q: give %s", name, strings.Join(kindNames(), ", "))
		}
	}
	return out, left, nil
}
