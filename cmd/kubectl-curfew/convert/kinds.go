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

var versionName = regexp.MustCompile(`^(\*|v[0-9]+((alpha|beta)[0-9]+)?)$`)

// parseKind reads a kind as Kyverno does: Kind, version/Kind or group/version/Kind. An absent group
// or version is "*". The reason is why no object has this kind: a cleanup run matches no
// subresource.
func parseKind(text string) (group, version, kind, reason string) {
	parts := strings.Split(text, "/")
	last := len(parts) - 1
	kind, subresource, dotted := strings.Cut(parts[last], ".")
	versioned := versionName.MatchString(parts[0])
	switch {
	case text == "*/*":
		return "*", "*", "*", ""
	case dotted || last == 1 && (!versioned || parts[0] == "*" && strings.ToLower(kind) == kind) || last == 2 && versioned || last > 2:
		if !dotted {
			subresource = kind
		}
		return "", "", "", fmt.Sprintf("is the subresource %q, and no object: name the kind alone", subresource)
	case last == 2 && !versionName.MatchString(parts[1]):
		return "", "", "", fmt.Sprintf("has %q as version: write a version such as v1, or *", parts[1])
	case last == 2:
		return parts[0], parts[1], kind, ""
	case last == 1:
		return "*", parts[0], kind, ""
	}
	return "*", "*", kind, ""
}

// noKind is why Kyverno matches no object of a kind that is absent or in another case; "" if not.
func noKind(group, kind string) string {
	known := builtinBy(func(b *builtin) bool {
		return (group == "*" || group == b.group) && (strings.EqualFold(b.kind, kind) || b.plural == strings.ToLower(kind))
	})
	switch {
	case kind == "":
		return "names no kind: write it as Kind or group/version/Kind"
	case known != nil && known.kind != kind:
		return fmt.Sprintf("matches no object, since Kyverno compares kinds by case: write %q", known.kind)
	case known == nil && strings.ToUpper(kind[:1]) != kind[:1]:
		return "begins with a lower-case letter, and Kyverno compares kinds by case: write it as in the kind of an object"
	}
	return ""
}

// rule turns a kind as Kyverno writes it into a rule. The reason is why that is not possible, and
// note what should be checked.
func rule(text string) (out v1alpha1.ResourceRule, note, reason string) {
	group, version, kind, reason := parseKind(text)
	if reason != "" {
		return out, "", reason
	}
	if version != "*" {
		out.APIVersions = []string{version}
	}
	if kind == "*" {
		out.APIGroups, out.Resources = []string{group}, []string{"*"}
		return out, "", ""
	}
	if strings.ContainsAny(kind, "*?") || group != "*" && strings.ContainsAny(group, "*?") {
		return out, "", "has a wildcard, by which Kyverno finds no kind: name it"
	}
	if reason = noKind(group, kind); reason != "" {
		return out, "", reason
	}
	known := builtinBy(func(b *builtin) bool { return b.kind == kind && (group == "*" || group == b.group) })
	switch {
	case known != nil && group == "*" && version != "*" && known.group != "":
		return out, "", fmt.Sprintf("is a kind without a group to Kyverno, which finds none: write %q", known.group+"/"+text)
	case known != nil:
		out.APIGroups, out.Resources = []string{known.group}, []string{known.plural}
		return out, "", ""
	}
	plural, _ := pluralOf(schema.GroupKind{Group: "?", Kind: kind})
	out.Resources = []string{plural}
	if group == "*" {
		return out, "", "is not a kind of Kubernetes: write it as group/version/Kind"
	}
	out.APIGroups = []string{group}
	return out, "the plural " + plural + " is a guess: check it by kubectl api-resources", ""
}
