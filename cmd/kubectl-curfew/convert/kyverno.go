package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

const annotationPropagation = "cleanup.kyverno.io/propagation-policy"

// cleanupPolicy is a CleanupPolicy or ClusterCleanupPolicy of Kyverno.
type cleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Schedule                  string                     `json:"schedule"`
		Match                     filters                    `json:"match"`
		Exclude                   filters                    `json:"exclude"`
		Conditions                conditions                 `json:"conditions"`
		Context                   []any                      `json:"context"`
		DeletionPropagationPolicy metav1.DeletionPropagation `json:"deletionPropagationPolicy"`
	} `json:"spec"`
	Status any `json:"status"`
}

func (c *converter) cleanupPolicy(text []byte) {
	var policy cleanupPolicy
	d := c.decode(text, &policy, &policy.TypeMeta, &policy.ObjectMeta)
	if d == nil {
		return
	}
	d.spec.PropagationPolicy = policy.Spec.DeletionPropagationPolicy
	if value := policy.Annotations[annotationPropagation]; value != "" && d.spec.PropagationPolicy == "" {
		d.spec.PropagationPolicy = metav1.DeletionPropagation(value)
	}
	d.propagation()
	if len(policy.Spec.Context) > 0 {
		d.note("spec.context", "variables of the context are not supported: conditions that use them are not converted")
	}
	d.schedule(policy.Spec.Schedule)
	all := d.list("spec.match", &policy.Spec.Match)
	if len(all) == 0 {
		d.lost("spec.match", "is empty, or cannot be converted")
	}
	for i := range all {
		draft := d
		if len(all) > 1 {
			draft = d.part(i)
		}
		draft.match(all[i].path, &all[i].resources)
		draft.exclude(&policy.Spec.Exclude)
		draft.conditions(&policy.Spec.Conditions)
		draft.orphans("spec.deletionPropagationPolicy")
		draft.filtered()
		draft.owned()
		draft.finish()
	}
	if len(all) == 0 {
		d.finish()
	}
}

func (d *draft) propagation() {
	switch d.spec.PropagationPolicy {
	case "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
	default:
		d.lost("spec.deletionPropagationPolicy", "%q is not Background, Foreground or Orphan", d.spec.PropagationPolicy)
		d.spec.PropagationPolicy = ""
	}
}

// owned keeps what Kyverno does: it deletes objects whose controller exists, too. With a wildcard
// that would be all that Deployments and Jobs create, again and again.
func (d *draft) owned() {
	if d.matches("*") {
		d.note("spec.includeOwned", "objects whose controller exists are kept")
		return
	}
	d.spec.IncludeOwned = true
	d.note("spec.includeOwned", "objects whose controller exists are deleted, as before: remove it to keep them")
}

// part is a policy for one of several filters. Together the parts delete what the source deletes.
func (d *draft) part(i int) *draft {
	out := *d
	out.findings = slices.Clone(d.findings)
	out.spec = *d.spec.DeepCopy()
	if i > 0 {
		out.name = fmt.Sprintf("%s-%d", d.name, i+1)
	}
	return &out
}

// placed is a filter and where it stands.
type placed struct {
	resources
	path string
}

// list returns the filters of any, or the one of all.
func (d *draft) list(path string, filter *filters) []placed {
	all, path := filter.Any, path+".any"
	if len(filter.All) > 0 {
		all, path = filter.All, strings.TrimSuffix(path, "any")+"all"
		if len(filter.All)+len(filter.Any) > 1 {
			d.lost(path, "is converted with a single filter, and without any beside it: write one filter")
			return nil
		}
	}
	out := make([]placed, len(all))
	for i := range all {
		out[i] = placed{all[i].Resources, fmt.Sprintf("%s[%d].resources", path, i)}
	}
	return out
}

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
			// MatchPolicy is about the versions of a request: a cleanup run has no request.
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
	// Operations of a request: a cleanup run has no request.
	Operations []string `json:"operations"`
}

func (c *converter) deletingPolicy(text []byte) {
	var policy deletingPolicy
	d := c.decode(text, &policy, &policy.TypeMeta, &policy.ObjectMeta)
	if d == nil {
		return
	}
	d.spec.PropagationPolicy = policy.Spec.DeletionPropagationPolicy
	d.propagation()
	d.schedule(policy.Spec.Schedule)
	if from := policy.Spec.MatchConstraints; from != nil {
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
	for _, variable := range policy.Spec.Variables {
		expression := v1alpha1.Expression(fromKyverno(variable.Expression))
		d.spec.Variables = append(d.spec.Variables, v1alpha1.CleanupVariable{Name: variable.Name, Expression: expression})
	}
	for _, condition := range policy.Spec.Conditions {
		d.condition(condition.Name, fromKyverno(condition.Expression))
	}
	if exception := cmp.Or(d.exceptions[policy.Name], d.exceptions[""]); exception != "" {
		d.lost("spec.policyRefs of "+exception,
			"keeps objects of this policy: write its matchConditions and images here, as conditions that are false for them")
	} else if len(d.exceptions) == 0 {
		d.note("spec", "give convert all PolicyExceptions, too: one may keep objects of this policy")
	}
	d.orphans("spec.deletionPropagationPolicy")
	d.filtered()
	d.owned()
	d.finish()
}

// resourceRules takes over rules of ValidatingAdmissionPolicies. Kyverno asks the API server for the
// very group, version and resource of a rule of match, and compares names exactly, so that a wildcard
// deletes nothing. An exclusion may keep more.
func (d *draft) resourceRules(path string, rules []resourceRule, match bool) []v1alpha1.ResourceRule {
	var out []v1alpha1.ResourceRule
	for i := range rules {
		resourceRule := &rules[i]
		field := fmt.Sprintf("%s[%d]", path, i)
		all := strings.Join(slices.Concat(resourceRule.APIGroups, resourceRule.APIVersions, resourceRule.Resources, resourceRule.ResourceNames), " ")
		switch {
		case len(resourceRule.Resources) == 0 || len(resourceRule.APIGroups) == 0:
			d.lost(field, "names no group or no resource")
			continue
		case strings.Contains(all, "/"):
			d.lost(field, "names a subresource")
			continue
		case match && strings.ContainsAny(all, "*?"):
			d.lost(field, "has a wildcard, by which Kyverno deletes nothing: write group, version, resource and names in full")
			continue
		case match && resourceRule.otherScope():
			d.lost(field+".scope", "%q is converted for kinds of Kubernetes that have this scope", resourceRule.Scope)
		}
		into := v1alpha1.ResourceRule{APIGroups: resourceRule.APIGroups, Resources: resourceRule.Resources, ResourceNames: resourceRule.ResourceNames}
		if !slices.Contains(resourceRule.APIVersions, "*") {
			into.APIVersions = resourceRule.APIVersions
		}
		out = append(out, into)
	}
	return out
}

// otherScope reports whether a resource of the rule may have another scope than the rule names.
func (r *resourceRule) otherScope() bool {
	return r.Scope != "" && r.Scope != "*" && slices.ContainsFunc(r.Resources, func(resource string) bool {
		known := builtinOf(resource, r.APIGroups)
		return known == nil || known.cluster != (r.Scope == "Cluster")
	})
}

// celParts are the parts of a CEL expression that fromKyverno rewrites, and those that it must not
// look into: strings, comments, fields, and a creationTimestamp that is an argument already.
var celParts = regexp.MustCompile(`(?s)'''.*?'''|""".*?"""|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|//[^\n]*|\.\s*\w+` +
	`|\b(?:timestamp|has)\s*\(\s*object\s*\.\s*metadata\s*\.\s*creationTimestamp\b` +
	`|\b(?:time\s*\.\s*)?now\s*\(\s*\)|\bobject\s*\.\s*metadata\s*\.\s*creationTimestamp\b`)

// fromKyverno rewrites what Kyverno's CEL has and Curfew's has not: the functions now() and
// time.now(), and a creationTimestamp that is used as a time without timestamp(). Everything else
// that is different does not compile, and is reported then.
func fromKyverno(expression string) string {
	return strings.TrimSpace(celParts.ReplaceAllStringFunc(expression, func(part string) string {
		switch {
		case part[0] == 'o':
			return "timestamp(object.metadata.creationTimestamp)"
		case part[0] == 'n', part[0] == 't' && strings.HasSuffix(part, ")"):
			return "now"
		}
		return part
	}))
}
