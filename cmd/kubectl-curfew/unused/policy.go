package unused

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// scope is the part of the cluster that a report or a policy is about.
type scope struct {
	// namespaces are none for the whole cluster.
	namespaces []string
	selector   *metav1.LabelSelector
	// filters are conditions that are evaluated before lookups.
	filters []v1alpha1.CleanupCondition
	// aged: one of them is about the age.
	aged bool
	// curfew is the namespace that Curfew runs in.
	curfew string
}

// policy is a policy about kinds in the scope, without conditions.
func (s *scope) policy(schedule string, kinds []kind) *v1alpha1.ClusterCleanupPolicy {
	out := &v1alpha1.ClusterCleanupPolicy{}
	out.Spec.Schedule = schedule
	out.Spec.MatchConstraints.ObjectSelector, out.Spec.MatchConstraints.ResourceRules = s.selector, rulesOf(kinds)
	return out
}

// rulesOf has a rule for each API group.
func rulesOf(kinds []kind) (out []v1alpha1.ResourceRule) {
	for _, kind := range kinds {
		if last := len(out) - 1; last >= 0 && out[last].APIGroups[0] == kind.group {
			out[last].Resources = append(out[last].Resources, kind.resource)
			continue
		}
		out = append(out, v1alpha1.ResourceRule{APIGroups: []string{kind.group}, Resources: []string{kind.resource}})
	}
	return out
}

// compile compiles a report about the kinds of finders: it reads the cluster once for all of them.
func compile(compiler *expression.Compiler, chosen []finder, where *scope) (*cleanup.Policy, error) {
	condition := "false"
	var kinds []kind
	for i := range chosen {
		for _, kind := range chosen[i].kinds {
			condition = fmt.Sprintf("object.kind == %q ? %s : %s", kind.name, chosen[i].expression, condition)
		}
		kinds = append(kinds, chosen[i].kinds...)
	}
	for _, filter := range where.filters {
		condition = fmt.Sprintf("(%s) && (%s)", filter.Expression, condition)
	}
	object := where.policy("@yearly", kinds)
	object.Spec.Conditions = []v1alpha1.CleanupCondition{{Name: "unused", Expression: v1alpha1.Expression(condition)}}
	out, errs := cleanup.CompileReport(compiler, object)
	return out, errs.ToAggregate()
}

// account is what the policies delete as, in a namespace of its own.
const account, accountNamespace = "unused", "curfew-cleanup"

// head is what the manifests begin with.
const head = `# These policies delete what "kubectl curfew unused" reports, once it was unused in all runs of three weeks. They are dry
# runs: look at "kubectl curfew report NAME" before you remove dryRun and approve each: "kubectl curfew approve NAME".
# The account may list all kinds, because any object may use others: while it may not, nothing is deleted. Curfew may
# act as the accounts of namespace curfew-cleanup.
`

type object = map[string]any

const rbacVersion = rbac + "/v1"

func role(name string, rules ...any) object {
	return object{"apiVersion": rbacVersion, "kind": "ClusterRole", "metadata": object{"name": name}, "rules": rules}
}

// bind binds a service account to a ClusterRole in a namespace, or with "" in all.
func bind(role, namespace, account, roleKind string) object {
	kind, metadata := "ClusterRoleBinding", object{"name": role}
	if namespace != "" {
		kind, metadata["namespace"] = "RoleBinding", namespace
	}
	return object{
		"apiVersion": rbacVersion, "kind": kind, "metadata": metadata,
		"roleRef":  object{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
		"subjects": []any{object{"kind": "ServiceAccount", "name": account, "namespace": roleKind}},
	}
}

// manifests are the policy of a finder, with the rights to delete what it finds.
func (f *finder) manifests(where *scope) (out []any) {
	name := strings.Join(append([]string{f.policy}, where.namespaces...), "-")
	deletes := "curfew-cleanup-delete-" + name
	rules := console.Map(rulesOf(f.kinds), func(resourceRule v1alpha1.ResourceRule) any {
		return object{"apiGroups": resourceRule.APIGroups, "resources": resourceRule.Resources, "verbs": []string{"get", "list", "delete"}}
	})
	out = append(out, role(deletes, rules...))
	for _, namespace := range where.namespaces {
		out = append(out, bind(deletes, namespace, account, accountNamespace))
	}
	if len(where.namespaces) == 0 {
		out = append(out, bind(deletes, "", account, accountNamespace))
	}
	spec := &where.policy("17 * * * *", f.kinds).Spec
	if len(where.namespaces) > 0 {
		spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: where.namespaces},
		}}
	}
	spec.DryRun, spec.Approval, spec.MinUnused, spec.MaxDeletions = true, v1alpha1.ApprovalRequired, new(v1alpha1.Duration("21d")), new(int64(100))
	spec.ServiceAccountName, spec.ServiceAccountNamespace = account, accountNamespace
	if spec.Conditions = slices.Clone(where.filters); !where.aged {
		spec.Conditions = append(spec.Conditions, olderThan(week))
	}
	spec.Conditions = append(spec.Conditions, v1alpha1.CleanupCondition{Name: f.condition, Expression: v1alpha1.Expression(f.expression)})
	return append(out, object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClusterCleanupPolicy", "metadata": object{"name": name}, "spec": spec,
	})
}

// manifests are the cleanup policies of finders, with the account and the rights that they need. It
// is an error if there are none.
func manifests(chosen []finder, where *scope) (string, error) {
	var policies []any
	var kinds []string
	for i := range chosen {
		if !chosen[i].reports {
			policies = append(policies, chosen[i].manifests(where)...)
			continue
		}
		for _, kind := range chosen[i].kinds {
			kinds = append(kinds, kind.name)
		}
	}
	if len(policies) == 0 {
		return "", fmt.Errorf("-o policy: no policy deletes %s by a lookup: leave out -o policy for a report, and delete objects by name",
			strings.Join(kinds, ", "))
	}
	var out []string
	for _, manifest := range append([]any{
		object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": accountNamespace}},
		object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": account, "namespace": accountNamespace}},
		bind("curfew-impersonate", accountNamespace, "curfew-controller", where.curfew),
		role("curfew-cleanup-find", object{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"list"}}),
		bind("curfew-cleanup-find", "", account, accountNamespace),
	}, policies...) {
		text, err := yaml.Marshal(manifest)
		if err != nil {
			return "", err
		}
		out = append(out, string(text))
	}
	return head + strings.Join(out, "---\n"), nil
}
