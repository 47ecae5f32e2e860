package convert

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultFilters are the resourceFilters of Kyverno's chart for the kinds that a policy can match.
const defaultFilters = "[Event,*,*] [*,kube-system,*] [*,kube-public,*] [*,kube-node-lease,*] [*,kyverno,*] [Node,*,*] [APIService,*,*] " +
	"[ReplicaSet,*,*] [EphemeralReport,*,*] [ClusterEphemeralReport,*,*] [ClusterRole,*,kyverno:*] [ClusterRoleBinding,*,kyverno:*]"

const (
	// maxFilters of a ConfigMap.
	maxFilters = 1000
	// maxJoined is how many names one condition lists.
	maxJoined = 32
)

var (
	resourceFilter = regexp.MustCompile(`\[[^\[\]]*\]`)
	numbered       = regexp.MustCompile(`^v[0-9]`)
)

// filtered keeps the objects that Kyverno skips: those that it manages, and those that its
// resourceFilters name.
func (d *draft) filtered() {
	d.condition("not-kyverno", `object.metadata.?labels[?"app.kubernetes.io/managed-by"].orValue("") != "kyverno"`)
	text := defaultFilters
	if known := d.options.known.filters; known != nil {
		text = *known
	} else {
		d.note("resourceFilters", "the defaults of Kyverno's chart are assumed: give convert the ConfigMap kyverno, too, if yours differ")
	}
	found := resourceFilter.FindAllString(text, maxFilters+1)
	if len(found) > maxFilters {
		d.broader("resourceFilters", "only the first %d are read: join some of them by wildcards", maxFilters)
		found = found[:maxFilters]
	}
	var all []resources
	for _, one := range found {
		filter, ok := d.filter(one)
		if !ok {
			continue
		}
		all = append(all, filter)
		// Kyverno compares the namespace of a filter with the name of a Namespace, and not its name.
		if d.hasNamespaces() && len(filter.Names) > 0 && (len(filter.Kinds) == 0 || anyMatches(filter.Kinds, "Namespace")) {
			all = append(all, resources{Kinds: []string{"Namespace"}, Namespaces: filter.Namespaces})
		}
	}
	all = merged(all, func(r *resources) *[]string { return &r.Namespaces })
	all = merged(all, func(r *resources) *[]string { return &r.Kinds })
	for i := range all {
		code, err := exclusion(&all[i])
		if err != nil { // [*,*,*]: Kyverno skips every object.
			code = "false"
		}
		d.condition("resource-filters", code)
	}
}

// filter is a filter [kind,namespace,name] that may match an object of the policy. An absent part
// matches anything, and so does a group or version, which keeps more.
func (d *draft) filter(text string) (out resources, ok bool) {
	parts := strings.Split(strings.Trim(text, "[]"), ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) > 3 {
		d.broader("resourceFilters", "%s is not [kind,namespace,name]: correct it", text)
		return out, false
	}
	parts = append(parts, "", "")
	kind := parts[0]
	if owner, all := strings.CutSuffix(kind, "/*"); all && !numbered.MatchString(path.Base(owner)) {
		kind = owner // Any subresource, and the object itself.
	}
	kind = path.Base(kind)
	if kind[0] >= 'a' && kind[0] <= 'z' {
		return out, false // One subresource.
	}
	if d.namespaced && d.namespace != "" && parts[1] != "" && !anyMatches(parts[1:2], d.namespace) {
		return out, false
	}
	for i, into := range []*[]string{&out.Kinds, &out.Namespaces, &out.Names} {
		value := parts[i]
		if i == 0 {
			value = kind
		}
		if value != "" && value != "*" && value != "." {
			*into = []string{value}
		}
	}
	return out, d.mayMatch(kind)
}

// anyMatches reports whether a text is one of the patterns.
func anyMatches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return regexp.MustCompile(wildcard(pattern)).MatchString(text)
	})
}

// mayMatch reports whether the policy may match objects of a kind. Only for kinds of Kubernetes
// is the plural known.
func (d *draft) mayMatch(kind string) bool {
	known := builtinBy(func(b *builtin) bool { return b.kind == kind })
	for i := range d.spec.MatchConstraints.ResourceRules {
		for _, plural := range d.spec.MatchConstraints.ResourceRules[i].Resources {
			ofKubernetes := builtinBy(func(b *builtin) bool { return b.plural == plural }) != nil
			named := known != nil && known.plural == plural || known == nil && !ofKubernetes
			if named || plural == "*" || strings.ContainsAny(kind, "*?.") {
				return true
			}
		}
	}
	return false
}

// merged makes one of filters that differ in one list.
func merged(all []resources, list func(*resources) *[]string) []resources {
	var out []resources
	for _, one := range all {
		values := *list(&one)
		same := slices.IndexFunc(out, func(other resources) bool {
			before := *list(&other)
			*list(&other) = values
			return reflect.DeepEqual(one, other) && len(values) > 0 && len(before) > 0 && len(before) < maxJoined
		})
		if same < 0 {
			out = append(out, one)
		} else if into := list(&out[same]); !slices.Contains(*into, values[0]) {
			*into = append(slices.Clone(*into), values...)
		}
	}
	return out
}

// also restricts the policy to the objects that match another filter of match.all, too.
func (d *draft) also(path string, r *resources) {
	match := &d.spec.MatchConstraints
	if d.namespaced || !selects(r.NamespaceSelector) {
		if r.NamespaceSelector != nil {
			d.never("namespaceSelector", path+".namespaceSelector", "is not supported here: %s", "write it into the first filter, without wildcards")
		}
	} else {
		match.NamespaceSelector = both(match.NamespaceSelector, r.NamespaceSelector)
	}
	parts, err := terms(&resources{Kinds: r.Kinds, Name: r.Name, Names: r.Names, Namespaces: r.Namespaces, Annotations: r.Annotations,
		Selector: r.Selector}, true)
	if err != nil {
		d.never("match", path, "%v", err)
		return
	}
	if len(parts) > 0 {
		d.condition("match", strings.Join(parts, " && "))
	}
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

// kindTerm is true for objects of one of the kinds, groups and versions included.
func kindTerm(kinds []string) (string, error) {
	var out []string
	for _, text := range kinds {
		group, version, kind, reason := parseKind(text)
		term := anyOf("object.kind", []string{kind})
		switch {
		case reason != "":
			return "", fmt.Errorf("%q %s", text, reason)
		case group != "*":
			term += fmt.Sprintf(` && object.apiVersion.matches(%q)`, wildcard(group+"/"+version))
		case version != "*":
			term += fmt.Sprintf(` && object.apiVersion.matches(%q)`, "^([^/]*/)?"+strings.TrimPrefix(wildcard(version), "(?s)^"))
		}
		out = append(out, term)
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return "((" + strings.Join(out, ") || (") + "))", nil
}
