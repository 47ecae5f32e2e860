package convert

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/v1alpha1"
)

// defaultFilters are the resourceFilters of Kyverno's chart for the kinds that a policy can match.
const defaultFilters = "[Event,*,*] [*,kube-system,*] [*,kube-public,*] [*,kube-node-lease,*] [*,kyverno,*] [Node,*,*] [APIService,*,*] " +
	"[ReplicaSet,*,*] [EphemeralReport,*,*] [ClusterEphemeralReport,*,*] [ClusterRole,*,kyverno:*] [ClusterRoleBinding,*,kyverno:*]"

var (
	resourceFilter = regexp.MustCompile(`\[[^\[\]]*\]`)
	numbered       = regexp.MustCompile(`^v[0-9]`)
)

// filtered keeps the objects that Kyverno skips: those that it manages, and those that its
// resourceFilters name.
func (d *draft) filtered() {
	d.condition("not-kyverno", `object.metadata.?labels[?"app.kubernetes.io/managed-by"].orValue("") != "kyverno"`)
	text := defaultFilters
	if known := d.filters; known != nil {
		text = *known
	} else {
		d.note("resourceFilters", "the defaults of Kyverno's chart are assumed: give convert the ConfigMap kyverno, too, if yours differ")
	}
	var all []string
	for _, filter := range resourceFilter.FindAllString(text, -1) {
		filter, ok := d.filter(filter)
		if !ok {
			continue
		}
		some := []resources{filter}
		// Kyverno compares the namespace of a filter with the name of a Namespace, and not its name.
		if d.matches("namespaces") && len(filter.Names) > 0 && (len(filter.Kinds) == 0 || anyMatches(filter.Kinds, "Namespace")) {
			some = append(some, resources{Kinds: []string{"Namespace"}, Namespaces: filter.Namespaces})
		}
		for i := range some {
			code, err := exclusion(&some[i])
			if err != nil { // [*,*,*]: Kyverno skips every object.
				code = "false"
			}
			all = append(all, code)
		}
	}
	if len(all) > 0 {
		d.condition("resource-filters", strings.Join(all, " && "))
	}
}

// filter is a filter [kind,namespace,name] that may match an object of the policy. An absent part
// matches anything, and so does a group or version, which keeps more.
func (d *draft) filter(text string) (out resources, ok bool) {
	parts := console.Map(strings.Split(strings.Trim(text, "[]"), ","), strings.TrimSpace)
	if len(parts) > 3 {
		d.lost("resourceFilters", "%s is not [kind,namespace,name]: correct it", text)
		return out, false
	}
	kind := kindOf(parts[0])
	parts = append([]string{kind}, append(parts[1:], "", "")...)
	if d.namespaced && d.namespace != "" && parts[1] != "" && !anyMatches(parts[1:2], d.namespace) {
		return out, false
	}
	for i, into := range []*[]string{&out.Kinds, &out.Namespaces, &out.Names} {
		if value := parts[i]; value != "" && value != "*" && value != "." {
			*into = []string{value}
		}
	}
	return out, d.mayMatch(kind)
}

// kindOf is the kind of a selector such as v1/Pod. A subresource follows a slash or a dot; any of them,
// as in Pod.*, also means the object itself.
func kindOf(text string) string {
	i := strings.LastIndex(text, "/") + 1
	text = text[:i] + strings.ReplaceAll(text[i:], ".", "/")
	if owner, all := strings.CutSuffix(text, "/*"); all && !numbered.MatchString(path.Base(owner)) {
		text = owner
	}
	return path.Base(text)
}

// anyMatches reports whether a text is one of the patterns.
func anyMatches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return regexp.MustCompile(wildcard(pattern)).MatchString(text)
	})
}

// mayMatch reports whether the policy may match objects of a kind. Only for kinds of Kubernetes is the
// plural known.
func (d *draft) mayMatch(kind string) bool {
	known := builtinBy(func(b *builtin) bool { return b.kind == kind })
	return strings.ContainsAny(kind, "*?.") || slices.ContainsFunc(d.spec.MatchConstraints.ResourceRules, func(rule v1alpha1.ResourceRule) bool {
		return slices.ContainsFunc(rule.Resources, func(plural string) bool {
			return known != nil && known.plural == plural || known == nil && builtinOf(plural, rule.APIGroups) == nil
		})
	})
}

// inNamespaces restricts a selector of namespaces, or nil, to some names.
func inNamespaces(selector *metav1.LabelSelector, names []string) *metav1.LabelSelector {
	return both(selector, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names}}})
}

// both are the labels that match two selectors; nil matches all.
func both(a, b *metav1.LabelSelector) *metav1.LabelSelector {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := a.DeepCopy()
	for _, key := range slices.Sorted(maps.Keys(b.MatchLabels)) {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{b.MatchLabels[key]}})
	}
	out.MatchExpressions = append(out.MatchExpressions, b.MatchExpressions...)
	return out
}
