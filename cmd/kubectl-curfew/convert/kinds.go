package convert

import (
	"fmt"
	"regexp"
	"slices"
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

// builtins are the kinds of Kubernetes that people clean up, or exclude, each after its group. A
// cluster-scoped kind has an exclamation mark.
var builtins = parseBuiltins(map[string]string{
	"": "ConfigMap Endpoints Event LimitRange Namespace! Node! PersistentVolume! PersistentVolumeClaim Pod PodTemplate " +
		"ReplicationController ResourceQuota Secret Service ServiceAccount",
	"apps":                      "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
	"autoscaling":               "HorizontalPodAutoscaler",
	"batch":                     "CronJob Job",
	"coordination.k8s.io":       "Lease",
	"discovery.k8s.io":          "EndpointSlice",
	"apiregistration.k8s.io":    "APIService!",
	"networking.k8s.io":         "Ingress IngressClass! NetworkPolicy",
	"policy":                    "PodDisruptionBudget",
	"rbac.authorization.k8s.io": "ClusterRole! ClusterRoleBinding! Role RoleBinding",
	"scheduling.k8s.io":         "PriorityClass!",
	"storage.k8s.io":            "StorageClass! VolumeAttachment!",
	"apiextensions.k8s.io":      "CustomResourceDefinition!",
})

func parseBuiltins(kinds map[string]string) []builtin {
	var out []builtin
	for group, names := range kinds {
		for _, name := range strings.Fields(names) {
			kind, cluster := strings.CutSuffix(name, "!")
			out = append(out, builtin{group, kind, plural(kind), cluster})
		}
	}
	return out
}

// plural is the plural of a kind of Kubernetes, and a guess for any other.
func plural(kind string) string {
	resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return resource.Resource
}

// builtinBy returns nil for a kind that is not built in. No two kinds have the same name or plural.
func builtinBy(matches func(*builtin) bool) *builtin {
	if i := slices.IndexFunc(builtins, func(b builtin) bool { return matches(&b) }); i >= 0 {
		return &builtins[i]
	}
	return nil
}

// builtinOf is the kind with a plural, in one of the groups.
func builtinOf(plural string, groups []string) *builtin {
	return builtinBy(func(b *builtin) bool { return b.plural == plural && slices.Contains(groups, b.group) })
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
	guess := plural(kind)
	out.APIGroups, out.Resources = []string{group}, []string{guess}
	return out, "the plural " + guess + " is a guess: check it by kubectl api-resources", ""
}
