package convert

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// deletingPolicy is a DeletingPolicy or NamespacedDeletingPolicy of Kyverno.
type deletingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Schedule         string `json:"schedule"`
		MatchConstraints *struct {
			ResourceRules        []resourceRule        `json:"resourceRules"`
			ExcludeResourceRules []resourceRule        `json:"excludeResourceRules"`
			NamespaceSelector    *metav1.LabelSelector `json:"namespaceSelector"`
			ObjectSelector       *metav1.LabelSelector `json:"objectSelector"`
			// MatchPolicy is about the versions of a request, of which there is none.
			MatchPolicy string `json:"matchPolicy"`
		} `json:"matchConstraints"`
		Conditions                []namedExpression          `json:"conditions"`
		Variables                 []namedExpression          `json:"variables"`
		DeletionPropagationPolicy metav1.DeletionPropagation `json:"deletionPropagationPolicy"`
	} `json:"spec"`
	Status any `json:"status"`
}

type namedExpression struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

type resourceRule struct {
	APIGroups     []string `json:"apiGroups"`
	APIVersions   []string `json:"apiVersions"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"`
	Scope         string   `json:"scope"`
	// Operations of a request, of which there is none.
	Operations []string `json:"operations"`
}

func (c *converter) deletingPolicy(text []byte) {
	var of deletingPolicy
	unknown, err := decode(text, &of)
	d := c.draft(of.Kind, &of.ObjectMeta, of.Kind == "NamespacedDeletingPolicy")
	if err != nil {
		c.lost(d.source, "", "cannot be read: %v", err)
		return
	}
	d.common(unknown)
	d.spec.PropagationPolicy = of.Spec.DeletionPropagationPolicy
	d.propagation()
	d.schedule(of.Spec.Schedule)
	if from := of.Spec.MatchConstraints; from != nil {
		match, path := &d.spec.MatchConstraints, "spec.matchConstraints"
		match.ResourceRules = d.resourceRules(path+".resourceRules", from.ResourceRules, true)
		match.NamespaceSelector, match.ObjectSelector = from.NamespaceSelector, from.ObjectSelector
		if d.namespaced && from.NamespaceSelector != nil {
			d.lost(path+".namespaceSelector", "a policy of one namespace has none")
			match.NamespaceSelector = nil
		}
		if rules := d.resourceRules(path+".excludeResourceRules", from.ExcludeResourceRules, false); len(rules) > 0 {
			d.spec.Exclude = &v1alpha1.CleanupExclusion{ResourceRules: rules}
		}
	}
	for _, variable := range of.Spec.Variables {
		d.spec.Variables = append(d.spec.Variables, v1alpha1.CleanupVariable{Name: variable.Name, Expression: v1alpha1.Expression(fromKyverno(variable.Expression))})
	}
	for _, condition := range of.Spec.Conditions {
		d.condition(condition.Name, fromKyverno(condition.Expression))
	}
	d.filtered("spec.matchConstraints")
	d.owned()
	d.finish()
}

// resourceRules takes over rules of ValidatingAdmissionPolicies.
func (d *draft) resourceRules(path string, rules []resourceRule, match bool) []v1alpha1.ResourceRule {
	var out []v1alpha1.ResourceRule
	for i := range rules {
		one := &rules[i]
		field := fmt.Sprintf("%s[%d]", path, i)
		into := v1alpha1.ResourceRule{APIGroups: one.APIGroups, ResourceNames: one.ResourceNames}
		if !slices.Contains(one.APIVersions, "*") {
			into.APIVersions = one.APIVersions
		}
		for _, resource := range one.Resources {
			if strings.Contains(resource, "/") {
				d.lost(field+".resources", "%q is a subresource", resource)
				continue
			}
			into.Resources = append(into.Resources, resource)
		}
		if len(into.Resources) == 0 || len(into.APIGroups) == 0 {
			d.lost(field, "names no group or no resource")
			continue
		}
		d.scope(field+".scope", one, match && len(rules) == 1)
		out = append(out, into)
	}
	return out
}

// scope adds a condition for a rule that matches only namespaced or only cluster-scoped objects, if
// its resources may be both.
func (d *draft) scope(field string, of *resourceRule, only bool) {
	if of.Scope == "" || of.Scope == "*" {
		return
	}
	different := slices.ContainsFunc(of.Resources, func(resource string) bool {
		known := builtinBy(func(b *builtin) bool { return b.plural == resource && slices.Contains(of.APIGroups, b.group) })
		return known == nil || known.cluster != (of.Scope == "Cluster")
	})
	switch {
	case !different:
	case only && of.Scope == "Namespaced":
		d.condition("scope", "has(object.metadata.namespace)")
	case only && of.Scope == "Cluster":
		d.condition("scope", "!has(object.metadata.namespace)")
	default:
		d.lost(field, "is not supported here")
	}
}
