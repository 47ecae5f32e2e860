package convert

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/v1alpha1"
)

// builtin is a kind of Kubernetes.
type builtin struct {
	group, kind, plural string
	cluster             bool
}

// builtins are the kinds of Kubernetes that people clean up, or exclude.
var builtins = parseBuiltins(`
	/ConfigMap/configmaps /Endpoints/endpoints /Event/events /LimitRange/limitranges /Namespace/namespaces! /Node/nodes!
	/PersistentVolume/persistentvolumes! /PersistentVolumeClaim/persistentvolumeclaims /Pod/pods /PodTemplate/podtemplates
	/ReplicationController/replicationcontrollers /ResourceQuota/resourcequotas /Secret/secrets /Service/services
	/ServiceAccount/serviceaccounts
	apps/ControllerRevision/controllerrevisions apps/DaemonSet/daemonsets apps/Deployment/deployments apps/ReplicaSet/replicasets
	apps/StatefulSet/statefulsets
	autoscaling/HorizontalPodAutoscaler/horizontalpodautoscalers
	batch/CronJob/cronjobs batch/Job/jobs
	coordination.k8s.io/Lease/leases discovery.k8s.io/EndpointSlice/endpointslices
	apiregistration.k8s.io/APIService/apiservices!
	networking.k8s.io/Ingress/ingresses networking.k8s.io/IngressClass/ingressclasses! networking.k8s.io/NetworkPolicy/networkpolicies
	policy/PodDisruptionBudget/poddisruptionbudgets
	rbac.authorization.k8s.io/ClusterRole/clusterroles! rbac.authorization.k8s.io/ClusterRoleBinding/clusterrolebindings!
	rbac.authorization.k8s.io/Role/roles rbac.authorization.k8s.io/RoleBinding/rolebindings
	scheduling.k8s.io/PriorityClass/priorityclasses! storage.k8s.io/StorageClass/storageclasses!
	storage.k8s.io/VolumeAttachment/volumeattachments! apiextensions.k8s.io/CustomResourceDefinition/customresourcedefinitions!`)

// parseBuiltins reads group/Kind/plural; ! follows a cluster-scoped kind.
func parseBuiltins(text string) []builtin {
	var out []builtin
	for _, one := range strings.Fields(text) {
		plural, cluster := strings.CutSuffix(one, "!")
		parts := strings.Split(plural, "/")
		out = append(out, builtin{parts[0], parts[1], parts[2], cluster})
	}
	return out
}

func builtinBy(matches func(*builtin) bool) *builtin {
	for i := range builtins {
		if matches(&builtins[i]) {
			return &builtins[i]
		}
	}
	return nil
}

// pluralOf is the plural of a kind of exactly this group. It is a guess if the kind is not known.
func pluralOf(of schema.GroupKind) (plural string, known bool) {
	if b := builtinBy(func(b *builtin) bool { return b.kind == of.Kind && b.group == of.Group }); b != nil {
		return b.plural, true
	}
	guess, _ := meta.UnsafeGuessKindToResource(of.WithVersion(""))
	return guess.Resource, false
}

// kyvernoKind is Kind, version/Kind or group/version/Kind. Kyverno compares kinds by case, and finds
// none by a wildcard.
var kyvernoKind = regexp.MustCompile(`^(?:(?:([a-z0-9.-]+)/)?(\*|v[0-9]+(?:(?:alpha|beta)[0-9]+)?)/)?([A-Z][A-Za-z0-9]*)$`)

// rule turns a kind as Kyverno writes it into a rule. The reason is why that is not possible, and
// note what should be checked.
func rule(text string) (out v1alpha1.ResourceRule, note, reason string) {
	const form = "is converted as Kind or group/version/Kind only, with the kind's own case, without a wildcard or subresource"
	parts := kyvernoKind.FindStringSubmatch(text)
	if parts == nil {
		return out, "", form
	}
	group, version, kind := parts[1], parts[2], parts[3]
	if version != "" && version != "*" {
		out.APIVersions = []string{version}
	}
	known := builtinBy(func(b *builtin) bool { return strings.EqualFold(b.kind, kind) && (group == "" || group == b.group) })
	switch {
	case known != nil && known.kind != kind:
		return out, "", form
	case known != nil && group == "" && version != "" && version != "*" && known.group != "":
		return out, "", fmt.Sprintf("is a kind without a group to Kyverno, which finds none: write %q", known.group+"/"+text)
	case known != nil:
		out.APIGroups, out.Resources = []string{known.group}, []string{known.plural}
		return out, "", ""
	case group == "":
		return out, "", "is not a kind of Kubernetes: write it as group/version/Kind"
	}
	plural, _ := pluralOf(schema.GroupKind{Group: group, Kind: kind})
	out.APIGroups, out.Resources = []string{group}, []string{plural}
	return out, "the plural " + plural + " is a guess: check it by kubectl api-resources", ""
}
